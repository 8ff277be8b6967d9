"""The comparison notices what it is there to notice: each seeded fault, and nothing in a sound pair."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from entrypoints.demo.comparison import COLUMNS, Comparison, compare

BEGAN, ENDED = 1_800_000_000_000, 1_800_000_010_000
IMPORTED = (
    ("=1+1", "two\r\nlines", "open", "1", "", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
    ("'quoted", "", "done", "3", "2026-02-01T00:00:00.250Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
    ("plain", "\u00a0@x", "in_progress", "4", "", "2026-01-03T00:00:00Z", "2026-01-03T00:00:00Z"),
    ("plain", "\u00a0@x", "in_progress", "4", "", "2026-01-03T00:00:00Z", "2026-01-03T00:00:00Z"),
)
EXPORTED = (
    ("'=1+1", *IMPORTED[0][1:]),
    ("''quoted", *IMPORTED[1][1:]),
    ("plain", "'\u00a0@x", *IMPORTED[2][2:]),
    ("plain", "'\u00a0@x", *IMPORTED[3][2:]),
)
Rows = list[list[str]]


def compared(
    folder: Path,
    exported: Sequence[Sequence[str]],
    *,
    imported: Sequence[Sequence[str]] = IMPORTED,
    header: Sequence[str] = COLUMNS,
    refused: frozenset[int] = frozenset(),
) -> Comparison:
    """Return what the comparison makes of two files with these rows."""
    for name, columns, rows in (("before.csv", header, imported), ("after.csv", COLUMNS, exported)):
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([columns, *rows])
    return compare(folder / "before.csv", folder / "after.csv", refused_lines=refused, began_at=BEGAN, ended_at=ENDED)


def test_a_sound_pair_has_no_differences(tmp_path: Path) -> None:
    """Protection is undone, duplicates are counted, and the order of equal instants is free."""
    found = compared(tmp_path, [EXPORTED[1], EXPORTED[0], EXPORTED[2], EXPORTED[3]])
    assert found == Comparison(row_count=4, equal_count=4, escaped_count=4, differences=[])


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda rows: rows.pop(), "the record of line 6 is not in the export"),
        (lambda rows: rows.append(rows[-1]), "1 rows of the export are not in the file"),
        (lambda rows: rows[0].__setitem__(1, "two\nlines"), "the record of line 2 is not in the export"),
        (lambda rows: rows[0].__setitem__(0, "=1+1"), "the title on line 2 of the export is not protected"),
        (lambda rows: rows[1].__setitem__(0, "'quoted"), "the title on line 4 of the export is protected without need"),
        (lambda rows: rows[2].__setitem__(0, "'plain"), "the title on line 5 of the export is protected without need"),
        (lambda rows: rows[2].__setitem__(3, "3"), "the record of line 5 is not in the export"),
        (lambda rows: rows[1].__setitem__(4, ""), "the record of line 4 is not in the export as it was"),
        (lambda rows: rows[1].__setitem__(4, "2026-02-01T00:00:00.25Z"), "the record of line 4 is not in the export"),
        (lambda rows: rows.insert(0, rows.pop()), "out of order"),
    ],
)
def test_each_fault_is_noticed(tmp_path: Path, change: Callable[[Rows], object], found: str) -> None:
    """A row that is lost, doubled, changed, unprotected, misprotected or misplaced is named."""
    rows = [[*row] for row in EXPORTED]
    change(rows)
    assert found in "; ".join(compared(tmp_path, rows).differences)


def test_a_refused_row_is_accounted_for_by_its_line(tmp_path: Path) -> None:
    """It must not be in the export, and a line on which no record begins cannot have been refused."""
    without_first = EXPORTED[1:]
    assert compared(tmp_path, without_first, refused=frozenset({2})).differences == []
    assert compared(tmp_path, EXPORTED, refused=frozenset({2})).differences == [
        "1 rows of the export are not in the file that was imported"
    ]
    assert compared(tmp_path, EXPORTED, refused=frozenset({3})).differences == [
        "line 3 was refused, and no record begins there"
    ]


@pytest.mark.parametrize(("created_at", "holds"), [("2027-01-15T08:00:05Z", True), ("2027-01-15T08:00:11Z", False)])
def test_what_the_service_sets_lies_within_the_run(tmp_path: Path, created_at: str, *, holds: bool) -> None:
    """Absent columns stand for their defaults, absent instants for the time of the import."""
    exported = [("a", "", "open", "3", "", created_at, created_at)]
    found = compared(tmp_path, exported, imported=[("a",)], header=("title",))
    assert (not found.differences) is holds


def test_instants_are_compared_as_instants_and_shown_in_one_spelling(tmp_path: Path) -> None:
    """An offset in the imported file is the same instant in the export, spelt in UTC."""
    imported = [("a", "", "open", "3", "2026-01-01T02:00:00+02:00", *["2026-01-01t00:00:00.500z"] * 2)]
    exported = [("a", "", "open", "3", "2026-01-01T00:00:00Z", *["2026-01-01T00:00:00.500Z"] * 2)]
    assert compared(tmp_path, exported, imported=imported).differences == []
