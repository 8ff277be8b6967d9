"""CSV cells: protection that spreadsheets respect and that can be undone, and quoting that any reader understands."""

import csv
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from domain.csv_dialect import characters_to_quote, is_risky, protect, quoted, unprotect
from domain.instants import EARLIEST, LATEST, Instant, format_instant
from domain.parameters import Column, Delimiter
from domain.task import PRIORITIES, TaskStatus

EDGE_TASKS = Path(__file__).resolve().parents[1] / "data" / "edge-tasks.csv"

# OWASP, "CSV Injection": what a spreadsheet takes for the beginning of a formula, and the signs' full-width forms.
STARTERS = ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"]
WHITE = [" ", "\t", "\r", "\n", "\u00a0", "\u3000", "\u200b", "\ufeff"]

# Ordinary text seldom begins with anything that matters; this does.
tricky = st.text(st.sampled_from([*STARTERS, *WHITE, "'", '"', "a", "1", ","]), max_size=6)
texts = st.text() | tricky


def edge_cells() -> list[str]:
    """Return every title and description of the edge file."""
    with EDGE_TASKS.open(encoding="utf-8", newline="") as file:
        return [cell for row in csv.DictReader(file) for cell in (row["title"], row["description"])]


@given(texts)
def test_protection_can_be_undone_for_every_text(text: str) -> None:
    """What was protected is read back exactly, without knowing whether it had been."""
    assert unprotect(protect(text)) == text


@given(texts)
def test_protection_adds_one_apostrophe_or_nothing(text: str) -> None:
    """A risky text gets one leading apostrophe, any other is untouched, and the test for it agrees."""
    assert protect(text) == ("'" + text if is_risky(text) else text)


@given(texts)
def test_a_protected_text_does_not_begin_as_a_formula(text: str) -> None:
    """Whatever the text, after protection its first character that is not white is no sign, and it is not white itself
    where a spreadsheet would trim it away to a formula.
    """  # noqa: D205 - one sentence
    protected = protect(text)
    assert protected[:1] not in {"\t", "\r", "\n"}
    assert protected.lstrip("".join(WHITE))[:1] not in {*"=+-@", "\uff1d", "\uff0b", "\uff0d", "\uff20"}


@given(texts, texts)
def test_different_texts_stay_different(first: str, second: str) -> None:
    """No two texts are written alike, so a file never says less than the tasks did."""
    assert (protect(first) == protect(second)) is (first == second)


@pytest.mark.parametrize("start", STARTERS, ids=ascii)
@pytest.mark.parametrize("rest", ["", "1+1", "cmd|' /C calc'!A0", "text"])
def test_every_way_to_begin_a_formula_is_protected(start: str, rest: str) -> None:
    """Each starter is risky, alone and before anything."""
    assert is_risky(start + rest)


@pytest.mark.parametrize("white", [*WHITE, "  ", " \u00a0\u200b"], ids=ascii)
@pytest.mark.parametrize("sign", [sign for sign in STARTERS if not sign.isspace()], ids=ascii)
def test_white_space_does_not_hide_a_formula(white: str, sign: str) -> None:
    """A sign is found behind any white space that a spreadsheet ignores."""
    assert is_risky(f"{white}{sign}1+1")


@pytest.mark.parametrize("text", ["'", "''", "'tis the season", "'=1+1"])
def test_what_looks_protected_is_protected_again(text: str) -> None:
    """An apostrophe of the owner's own survives the undoing, because it got another."""
    assert protect(text) == "'" + text


@pytest.mark.parametrize(
    "text", ["", " ", "plain", "X", "a=b", "1-1", "3 + 4", "mail@example.com", '"=1+1"', ",=1+1", "a\n=1"]
)
def test_ordinary_text_is_untouched(text: str) -> None:
    """A sign that does not come first is no formula, and changing it would only annoy."""
    assert protect(text) == text


def test_no_other_character_makes_a_text_risky() -> None:
    """Of the whole basic plane only the starters and the apostrophe are risky alone, and white space before a sign."""
    characters = [chr(code) for code in range(0x10000)]
    starters = {*STARTERS, "'"}
    assert {character for character in characters if is_risky(character)} == starters
    assert {character for character in characters if is_risky(f"{character}=1")} == starters | set(WHITE)


def test_every_cell_of_the_edge_file_is_read_back() -> None:
    """The hand-made traps come back exactly, and every starter but one is among them."""
    cells = edge_cells()
    assert len(cells) == 120
    assert all(unprotect(protect(cell)) == cell for cell in cells)
    assert any(is_risky(cell) for cell in cells)
    assert any(not is_risky(cell) for cell in cells)
    assert [start for start in [*STARTERS, "'"] if not any(cell.startswith(start) for cell in cells)] == ["\uff0d"]


@given(st.integers(0))
def test_a_number_is_never_taken_for_a_formula(number: int) -> None:
    """Counts need no protection; a negative number would, which is why only text columns are ever looked at."""
    assert not is_risky(str(number))
    assert is_risky(str(-1 - number))


@given(st.integers(EARLIEST, LATEST).map(Instant))
def test_an_instant_is_never_taken_for_a_formula(instant: Instant) -> None:
    """Years are written with four digits and no sign, over the whole range."""
    assert not is_risky(format_instant(instant))


def test_keywords_and_headers_are_never_taken_for_a_formula() -> None:
    """What the service itself writes into a file needs no protection."""
    assert not any(map(is_risky, [*Column, *TaskStatus, *map(str, PRIORITIES)]))


@given(texts, st.sampled_from(Delimiter))
def test_a_quoted_cell_is_read_back_by_a_plain_reader(text: str, delimiter: Delimiter) -> None:
    """A record of quoted cells is read by Python's own reader as what was written, in any dialect that is offered."""
    record = delimiter.value.join(map(quoted, [text, "x", text])) + "\r\n"
    assert list(csv.reader([record], delimiter=delimiter.value, strict=True)) == [[text, "x", text]]


@given(texts, st.sampled_from(Delimiter))
def test_a_cell_without_the_characters_to_quote_needs_no_quotes(text: str, delimiter: Delimiter) -> None:
    """Text that holds none of them is read back bare: the list leaves none out."""
    bare = "".join(character for character in text if character not in characters_to_quote(delimiter.value))
    record = delimiter.value.join([bare, "x", bare]) + "\r\n"
    assert list(csv.reader([record], delimiter=delimiter.value, strict=True)) == [[bare, "x", bare]]


def test_either_half_of_a_line_ending_puts_a_cell_in_quotes() -> None:
    """A lone CR ends a record for many readers, whatever this file ends its records with."""
    assert set(characters_to_quote("|")) == {"|", '"', "\r", "\n"}
