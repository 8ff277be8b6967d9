"""The glossary and the code speak one language."""

import re

import pytest

from tests.tree import ROOT, files_under, named

GLOSSARY = ROOT / "docs" / "glossary.md"
ROW = re.compile(r"^\| ([^|`]+) \| ([^|]+) \| (`[^|]+`) \|$", re.MULTILINE)
UNUSED_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
NAME = re.compile(r"`([\w.]+)`")

SECTIONS = GLOSSARY.read_text(encoding="utf-8").partition("\n## Words that are not used\n")
WORDS = [(word, NAME.findall(names)) for word, _, names in ROW.findall(SECTIONS[0])]
UNUSED = [word for word, _ in UNUSED_ROW.findall(SECTIONS[2]) if word not in {"not", "---"}]


@pytest.fixture(scope="module")
def code() -> set[str]:
    """Every word of the source."""
    files = (*files_under("src", suffix=".py"), *files_under("src", suffix=".sql"))
    return {word for file in files for word in re.findall(r"\w+", file.read_text(encoding="utf-8"))}


def test_the_glossary_was_read() -> None:
    """Both tables were found, and every row of the first names something in the code."""
    assert len(WORDS) == len(re.findall(r"^\| (?!word|---)", SECTIONS[0], re.MULTILINE))
    assert all(names for _, names in WORDS)
    assert UNUSED


@pytest.mark.parametrize(("word", "names"), WORDS, ids=[word for word, _ in WORDS])
def test_a_word_stands_in_the_code_as_the_glossary_says(word: str, names: list[str], code: set[str]) -> None:
    """Each name that the glossary gives for a word exists in the source."""
    missing = [name for name in names if not set(name.split(".")) <= code]
    assert missing == [], f"{word!r} has left the code, or is called something else now"


@pytest.mark.parametrize("word", UNUSED)
def test_a_word_that_is_not_used_is_not_used(word: str) -> None:
    """Neither the source nor the documents use it; a decision may, to name what was not chosen."""
    decisions = ROOT / "docs" / "adr"
    files = [
        file
        for file in (*files_under("src", suffix=".py"), *files_under("src", "docs", suffix=".md"), ROOT / "README.md")
        if file != GLOSSARY and not file.is_relative_to(decisions)
    ]
    found = re.compile(rf"\b{re.escape(word)}s?\b", re.IGNORECASE)
    assert [named(file) for file in files if found.search(file.read_text(encoding="utf-8"))] == []
