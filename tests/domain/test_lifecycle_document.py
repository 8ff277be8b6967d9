"""The printed protocol: complete, kept in step with the table, and explained by hand row by row."""

from pathlib import Path
from re import MULTILINE, findall

import pytest

from domain.errors import InvalidInput
from domain.events import Enqueue
from domain.export import JobStatus
from domain.lifecycle import PROTOCOL
from entrypoints.cli.lifecycle_diagram import BEGIN, END, render_lifecycle, update_document

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "lifecycle.md"


def reasons() -> str:
    """Return what the committed document says by hand, below the printed block."""
    return DOCUMENT.read_text(encoding="utf-8").partition(f"{END}\n")[2]


def test_the_committed_document_is_printed_from_the_table() -> None:
    """Nobody changed the table without printing it, nor the print without the table."""
    assert update_document(DOCUMENT, check=True)


def test_every_rule_has_its_arrow_and_its_row() -> None:
    """The diagram draws each arrow once, and the table has one row a rule, in the order in which they are tried."""
    lines = render_lifecycle().splitlines()
    arrows = {f"    {rule.source.value} --> {rule.target.value}: {rule.event.name}" for rule in PROTOCOL}
    ends = {f"    {status.value} --> [*]" for status in JobStatus if status.is_terminal}
    assert sorted(line for line in lines if " --> " in line) == sorted(arrows | ends | {"    [*] --> queued: enqueue"})
    rows = [line.split(" | ")[:3] for line in lines if any(f"| {status.value} |" in line for status in JobStatus)]
    assert rows == [
        [f"| {Enqueue.name}", "[*]", "queued"],
        *([f"| {rule.event.name}", rule.source.value, rule.target.value] for rule in PROTOCOL),
    ]


def test_every_cell_of_the_tables_says_something() -> None:
    """No condition or effect is printed without its sentence, and none breaks its row."""
    rows = [line for line in render_lifecycle().splitlines() if line.startswith("|")]
    assert {row.replace("\\|", "").count("|") for row in rows} == {6, 3}
    assert all(cell.strip() for row in rows for cell in row.strip("|").split("|"))


def test_every_rule_has_a_sentence_on_why_it_exists() -> None:
    """Below the print there is one paragraph a rule, in the order of the table."""
    headings = findall(r"^- \*\*([a-z_]+), (\S+) → (\w+)[.,]", reasons(), MULTILINE)
    stated = [(rule.event.name, rule.source.value, rule.target.value) for rule in PROTOCOL]
    assert headings == [(Enqueue.name, "[*]", "queued"), *stated]


def test_every_condition_is_explained() -> None:
    """Each condition is named below the print as well."""
    conditions = {condition.__name__ for rule in PROTOCOL for condition in rule.when}
    assert {name for name in conditions if f"`{name}`" not in reasons()} == set()


def test_a_document_that_differs_is_told_and_then_mended(tmp_path: Path) -> None:
    """Checking leaves the file alone; updating replaces the block and nothing around it."""
    document = tmp_path / "page.md"
    stale = f"above\n{BEGIN}\nold\n{END}\nbelow\n"
    document.write_text(stale, encoding="utf-8")
    assert not update_document(document, check=True)
    assert document.read_text(encoding="utf-8") == stale
    assert not update_document(document, check=False)
    assert document.read_text(encoding="utf-8") == f"above\n{BEGIN}\n\n{render_lifecycle()}\n{END}\nbelow\n"
    assert update_document(document, check=True)


@pytest.mark.parametrize(
    "text",
    ["", f"{BEGIN}\n", f"{END}\n{BEGIN}\n", f"{BEGIN}\n{BEGIN}\n{END}\n", f"{BEGIN}\n{END}\n{END}\n"],
    ids=["none", "no end", "reversed", "begun twice", "ended twice"],
)
@pytest.mark.parametrize("check", [True, False])
def test_a_document_without_its_two_marker_lines_is_refused(tmp_path: Path, text: str, *, check: bool) -> None:
    """Where the block belongs cannot be guessed: the refusal names the lines, and the file is left alone."""
    document = tmp_path / "page.md"
    document.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput) as caught:
        update_document(document, check=check)
    assert BEGIN in str(caught.value)
    assert END in str(caught.value)
    assert document.read_text(encoding="utf-8") == text


def test_a_document_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """A wrong path is one clear sentence that names it."""
    with pytest.raises(InvalidInput) as caught:
        update_document(tmp_path / "missing.md", check=True)
    assert "missing.md" in str(caught.value)
