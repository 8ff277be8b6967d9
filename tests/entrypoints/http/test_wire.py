"""Scalars of the API: what the contract describes is what is accepted, and nothing else is understood."""

import re

import pytest
from hypothesis import example, given, strategies as st

from domain.instants import EARLIEST, LATEST, Instant, InstantError, format_instant, parse_instant
from domain.pages import Position
from entrypoints.http.wire import (
    CURSOR_PATTERN,
    INSTANT_PATTERN,
    TIMEZONES,
    UUID_PATTERN,
    Cursor,
    cursor_text,
    read_scalar,
)

INSTANTS = st.integers(EARLIEST, LATEST).map(Instant)
UUIDS = st.uuids().map(str)


@given(st.from_regex(INSTANT_PATTERN, fullmatch=True).filter(lambda text: not text.endswith("\n")))
@example("0001-01-02T00:00:00Z")
@example("9999-12-30T23:59:59.999000000z")
@example("2000-02-29T23:59:59-23:59")
def test_what_the_contract_describes_as_an_instant_is_accepted(text: str) -> None:
    """Every text that matches the pattern names an instant."""
    parse_instant(text)


@given(INSTANTS)
def test_every_instant_is_shown_as_the_contract_describes(instant: Instant) -> None:
    """What the API shows matches the pattern, and can be sent back."""
    text = format_instant(instant)
    assert re.search(INSTANT_PATTERN, text)
    assert parse_instant(text) == instant


@pytest.mark.parametrize(
    "text",
    ["0000-01-01T00:00:00Z", "0001-01-01T23:59:59Z", "9999-12-31T00:00:00Z", "1900-02-29T00:00:00Z",
     "2026-04-31T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:00:60Z", "2026-01-01T00:00:00.0001Z",
     "2026-01-01T00:00:00", "2026-01-01 00:00:00Z", "2026-01-01T00:00:00+24:00", "٢026-01-01T00:00:00Z"],
)  # fmt: skip
def test_what_is_no_instant_is_neither_described_nor_accepted(text: str) -> None:
    """Days and times that do not exist, other precision and other spellings are outside of the pattern."""
    assert re.search(INSTANT_PATTERN, text) is None
    with pytest.raises(InstantError):
        parse_instant(text)


@given(INSTANTS, UUIDS)
def test_a_cursor_is_read_back_as_the_place_that_it_was_made_of(instant: Instant, last_id: str) -> None:
    """Every position has one spelling, which the contract describes."""
    position = Position(instant, last_id)
    text = cursor_text(position)
    assert text is not None
    assert re.search(CURSOR_PATTERN, text)
    assert Cursor.read(text).position == position


@given(st.text())
def test_a_text_that_is_no_cursor_is_refused(text: str) -> None:
    """Only what the contract describes is a place."""
    assert re.fullmatch(CURSOR_PATTERN, text) is None
    with pytest.raises(ValueError, match="next_cursor"):
        Cursor.read(text)


def test_the_last_page_has_no_cursor() -> None:
    """No position, no text."""
    assert cursor_text(None) is None


def test_a_scalar_is_read_from_text_alone() -> None:
    """A number or an object in its place is refused."""
    values: tuple[object, ...] = (7, None, {}, [], True)
    for value in values:
        with pytest.raises(ValueError, match="must be a string"):
            read_scalar(Cursor, value)


@given(UUIDS)
def test_ids_are_uuids_in_lower_case(text: str) -> None:
    """The pattern takes the canonical spelling and no other."""
    assert re.search(UUID_PATTERN, text)
    for other in (text.upper(), "{" + text + "}", text.replace("-", ""), f"urn:uuid:{text}"):
        assert re.search(UUID_PATTERN, other) is None or other == text


def test_the_zones_are_those_of_the_pinned_database() -> None:
    """There are hundreds, each once, and the usual ones are among them."""
    assert len(TIMEZONES) == len(set(TIMEZONES)) > 400
    assert {"UTC", "Europe/Berlin", "Asia/Kolkata", "America/Argentina/Buenos_Aires"} <= set(TIMEZONES)
