"""Where a tool is told to look away, it says what from and why; and that stays rare."""

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.tree import files_under, named

# What there was when the limit was last set, and a little air. Raise it only with the reason in the commit message.
MOST_SUPPRESSIONS = 60

SUPPRESSION = re.compile(r"#\s*(?:type:\s*ignore|noqa|ruff:|mypy:|pragma:).*")
WITH_CODE = re.compile(
    r"# (?:type: ignore\[(?P<types>[\w, -]+)\]|noqa: (?P<lint>[A-Z]+\d+(?:, [A-Z]+\d+)*))(?P<reason>.*)"
)
REASON = re.compile(r"\s+(?:#|-) \S.*")


def suppressions() -> Iterator[tuple[Path, int, str]]:
    """Yields file, line and text of every comment that silences a tool."""
    for file in files_under("src", "tests", "benchmarks", "scripts", suffix=".py"):
        with tokenize.open(file) as text:
            for token in tokenize.generate_tokens(text.readline):
                if token.type == tokenize.COMMENT and (match := SUPPRESSION.search(token.string)):
                    yield file, token.start[0], match[0]


def test_each_suppression_has_a_code_and_a_reason() -> None:
    """`# noqa: CODE - reason` or `# type: ignore[code]  # reason`; the first in a file may speak for its kind."""
    faults = []
    explained = set()
    for file, line, text in suppressions():
        match = WITH_CODE.fullmatch(text)
        kind = (file, match["types"] or match["lint"]) if match else None
        if match and REASON.fullmatch(match["reason"]):
            explained.add(kind)
        elif kind not in explained or (match and match["reason"].strip()):
            faults.append(f"{named(file)}:{line}: {text}")
    assert faults == []


def test_suppressions_stay_rare() -> None:
    """There are no more suppressions than the limit, which stands on this screen."""
    count = sum(1 for _ in suppressions())
    assert count <= MOST_SUPPRESSIONS, f"{count} suppressions, limit {MOST_SUPPRESSIONS}: mend one, or raise the limit"


def nodes_in_tests() -> Iterator[tuple[str, ast.AST]]:
    """Yields the place and the node of everything in any test."""
    for file in files_under("tests", suffix=".py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            yield f"{named(file)}:{getattr(node, 'lineno', 1)}", node


def test_no_test_replaces_the_insides_of_what_it_tests() -> None:
    """A test may change the process's environment, directory and streams; it patches no attribute of anything else."""
    patches = {"monkeypatch.setattr", "monkeypatch.delattr", "monkeypatch.setitem", "mocker.patch", "mock.patch"}
    assert [
        where
        for where, node in nodes_in_tests()
        if isinstance(node, ast.Call) and ast.unparse(node.func) in patches and ast.unparse(node.args[0]) != "sys"
    ] == []


def test_no_test_is_set_aside() -> None:
    """A test that never runs proves nothing, and one that is expected to fail hides the fault that it found."""
    marks = {"pytest.mark.skip", "pytest.mark.xfail", "pytest.xfail"}
    assert [
        where for where, node in nodes_in_tests() if isinstance(node, ast.Attribute) and ast.unparse(node) in marks
    ] == []
