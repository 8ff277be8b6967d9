"""The index of decisions."""

import re

from tests.tree import ROOT

FOLDER = ROOT / "docs" / "adr"
HEADING = re.compile(r"^# (?:\d{4}\. )?(.+)$", re.MULTILINE)
STATUS = re.compile(r"\A---\n.*?^status: (.+?)$.*?^---$", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| (\d{4}) \| \[(.+)\]\((.+)\) \| (.+) \|$", re.MULTILINE)


def test_the_index_lists_every_decision() -> None:
    """docs/adr/README.md has one row for each record, in order, with its number, title, file and status."""
    expected = []
    for file in sorted(FOLDER.glob("[0-9]*.md")):
        text = file.read_text(encoding="utf-8")
        title, status = HEADING.search(text), STATUS.match(text)
        assert title, f"{file.name} has no title"
        assert status, f"{file.name} has no status"
        expected.append((file.name[:4], title[1], file.name, status[1]))
    assert expected
    assert ROW.findall((FOLDER / "README.md").read_text(encoding="utf-8")) == expected
