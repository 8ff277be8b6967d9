"""Instants: read and written as RFC 3339 without losing a millisecond, in any zone, over the whole range."""

from datetime import UTC, datetime, timedelta, timezone
from re import ASCII, fullmatch
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import example, given, strategies as st

from domain.instants import (
    EARLIEST,
    LATEST,
    RFC3339_PATTERN,
    Instant,
    InstantError,
    between,
    format_instant,
    format_instant_in,
    later,
    milliseconds,
    parse_instant,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = sorted(available_timezones())

instants = st.integers(EARLIEST, LATEST).map(Instant)
# When local mean time gave way to zones: offsets with seconds, and rules that changed often.
old_instants = st.datetimes(datetime(1800, 1, 1), datetime(1975, 1, 1)).map(  # noqa: DTZ001 - UTC is meant below
    lambda moment: Instant((moment.replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1))
)
offsets = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def as_datetime(instant: Instant) -> datetime:
    """Return the instant as the standard library has it."""
    return EPOCH + timedelta(milliseconds=instant)


# ── Reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────

VALID = {
    "1970-01-01T00:00:00Z": 0,
    "1985-04-12T23:20:50.52Z": 482_196_050_520,
    "1996-12-19T16:39:57-08:00": 851_042_397_000,
    "1937-01-01T12:00:27.87+00:20": -1_041_337_172_130,
    "2026-01-31T08:30:00Z": 1_769_848_200_000,
    "2026-01-31t08:30:00z": 1_769_848_200_000,
    "2026-01-31T09:30:00+01:00": 1_769_848_200_000,
    "2026-01-31T08:30:00-00:00": 1_769_848_200_000,
    "2026-02-01T08:29:00+23:59": 1_769_848_200_000,
    "2026-01-30T08:31:00-23:59": 1_769_848_200_000,
    "2026-01-31T08:30:00.1Z": 1_769_848_200_100,
    "2026-01-31T08:30:00.12Z": 1_769_848_200_120,
    "2026-01-31T08:30:00.123Z": 1_769_848_200_123,
    "2026-01-31T08:30:00.123000000Z": 1_769_848_200_123,
    "2026-01-31T08:30:00.000000000Z": 1_769_848_200_000,
    "1969-12-31T23:59:59.999Z": -1,
    "2024-02-29T00:00:00Z": 1_709_164_800_000,
    "0001-01-02T00:00:00Z": EARLIEST,
    "0001-01-01T10:00:00-14:00": EARLIEST,
    "9999-12-30T23:59:59.999Z": LATEST,
    "9999-12-31T13:59:59.999+14:00": LATEST,
}

NOT_RFC_3339 = "not an RFC 3339 date-time"
NO_SUCH = "no such date or time"
TOO_FINE = "finer than a millisecond"
OUTSIDE = "outside the range"
INVALID = {
    "": NOT_RFC_3339,
    "now": NOT_RFC_3339,
    "2026-01-31": NOT_RFC_3339,
    "2026-01-31T08:30:00": NOT_RFC_3339,
    "2026-01-31T08:30Z": NOT_RFC_3339,
    "2026-01-31 08:30:00Z": NOT_RFC_3339,
    "20260131T083000Z": NOT_RFC_3339,
    "2026-W05-6T08:30:00Z": NOT_RFC_3339,
    "2026-1-31T08:30:00Z": NOT_RFC_3339,
    "2026-01-31T08:30:00,5Z": NOT_RFC_3339,
    "2026-01-31T08:30:00.Z": NOT_RFC_3339,
    "2026-01-31T08:30:00.1234567890Z": NOT_RFC_3339,
    "2026-01-31T08:30:00+0100": NOT_RFC_3339,
    "2026-01-31T08:30:00+01": NOT_RFC_3339,
    "2026-01-31T08:30:00+01:00:00": NOT_RFC_3339,
    "2026-01-31T08:30:00+24:00": NOT_RFC_3339,
    "2026-01-31T08:30:00+12:60": NOT_RFC_3339,
    "2026-01-31T08:30:00 Z": NOT_RFC_3339,
    " 2026-01-31T08:30:00Z": NOT_RFC_3339,
    "2026-01-31T08:30:00Z\n": NOT_RFC_3339,
    "+2026-01-31T08:30:00Z": NOT_RFC_3339,
    "12026-01-31T08:30:00Z": NOT_RFC_3339,
    "\u0662026-01-31T08:30:00Z": NOT_RFC_3339,
    "2026-01-31T08:30:0\u0660Z": NOT_RFC_3339,
    "1769848200000": NOT_RFC_3339,
    "2026-01-31T24:00:00Z": NOT_RFC_3339,
    "0000-01-01T00:00:00Z": NO_SUCH,
    "2026-00-31T08:30:00Z": NO_SUCH,
    "2026-13-31T08:30:00Z": NO_SUCH,
    "2026-02-29T08:30:00Z": NO_SUCH,
    "1900-02-29T08:30:00Z": NO_SUCH,
    "2026-04-31T08:30:00Z": NO_SUCH,
    "2026-01-31T08:60:00Z": NO_SUCH,
    "2016-12-31T23:59:60Z": NO_SUCH,
    "1990-12-31T15:59:60-08:00": NO_SUCH,
    "2026-01-31T08:30:00.1234Z": TOO_FINE,
    "2026-01-31T08:30:00.000000001Z": TOO_FINE,
    "0001-01-01T23:59:59.999Z": OUTSIDE,
    "0001-01-02T00:00:00+00:01": OUTSIDE,
    "9999-12-31T00:00:00Z": OUTSIDE,
    "9999-12-31T23:59:59Z": OUTSIDE,
    "9999-12-30T23:59:59.999-00:01": OUTSIDE,
    "0001-01-01T00:00:00+14:00": OUTSIDE,
    "9999-12-31T23:59:59-14:00": OUTSIDE,
}


@pytest.mark.parametrize(("text", "value"), VALID.items(), ids=VALID)
def test_an_rfc_3339_date_time_is_read_as_the_instant_that_it_names(text: str, value: int) -> None:
    """Offsets, fractions, lower case and both ends of the range, the standard's own examples among them."""
    assert parse_instant(text) == value


@pytest.mark.parametrize(("text", "reason"), INVALID.items(), ids=[ascii(text) for text in INVALID])
def test_what_cannot_be_kept_exactly_is_refused_with_the_reason(text: str, reason: str) -> None:
    """Not RFC 3339, no such moment, a leap second, too fine, or out of range: never rounded, never guessed."""
    with pytest.raises(InstantError, match=reason):
        parse_instant(text)


@given(st.text() | st.from_regex(RFC3339_PATTERN, fullmatch=True))
def test_any_text_is_read_exactly_or_refused(text: str) -> None:
    """There is no third way: what is read names the same moment as the standard library finds in it."""
    try:
        instant = parse_instant(text)
    except InstantError:
        return
    assert as_datetime(instant) == datetime.fromisoformat(text.upper())
    assert fullmatch(RFC3339_PATTERN, text, ASCII)


# ── Writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(instants)
@example(EARLIEST)
@example(LATEST)
@example(Instant(0))
@example(Instant(-1))
def test_what_is_written_is_read_back(instant: Instant) -> None:
    """Every instant of the range has a text, and the text names that instant."""
    assert parse_instant(format_instant(instant)) == instant


@given(instants)
def test_instants_have_one_spelling(instant: Instant) -> None:
    """In UTC the text is upper case, ends in Z, and has a fraction of three digits exactly when there is one."""
    text = format_instant(instant)
    assert fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z", text, ASCII)
    assert ("." in text) is (instant % 1000 != 0)


@given(instants, instants)
def test_texts_sort_as_instants_do(first: Instant, second: Instant) -> None:
    """To the second, the order of the texts is that of the instants: a column of them can be sorted."""
    seconds = first // 1000, second // 1000
    texts = format_instant(first)[:19], format_instant(second)[:19]
    assert (texts[0] < texts[1]) is (seconds[0] < seconds[1])


@given(instants | old_instants, st.sampled_from(ZONES))
def test_the_text_in_any_zone_names_the_same_instant(instant: Instant, zone: str) -> None:
    """Whatever the zone and the year, local mean time included, the text is read back as the instant."""
    assert parse_instant(format_instant_in(instant, ZoneInfo(zone))) == instant


@given(instants | old_instants, st.sampled_from(ZONES))
def test_the_offset_that_is_shown_is_the_zone_s_to_the_minute(instant: Instant, zone: str) -> None:
    """Nothing but the seconds of an offset is ever cut, so the text shows the time on the wall to the minute."""
    local = as_datetime(instant).astimezone(ZoneInfo(zone))
    shown = datetime.fromisoformat(format_instant_in(instant, ZoneInfo(zone)))
    cut = (local.utcoffset() or timedelta()) - (shown.utcoffset() or timedelta())
    assert timedelta() <= cut < timedelta(minutes=1)
    assert local.replace(tzinfo=None) - shown.replace(tzinfo=None) == cut


@given(instants, offsets)
@example(EARLIEST, timezone(timedelta(hours=-14)))
@example(EARLIEST, timezone(timedelta(hours=14)))
@example(LATEST, timezone(timedelta(hours=-14)))
@example(LATEST, timezone(timedelta(hours=14)))
def test_the_ends_of_the_range_can_be_shown_anywhere(instant: Instant, zone: timezone) -> None:
    """A day is left at both ends, more than any offset takes."""
    text = format_instant_in(instant, zone)
    assert parse_instant(text) == instant
    assert datetime.fromisoformat(text).utcoffset() == zone.utcoffset(None)


@pytest.mark.parametrize(
    ("text", "zone", "shown"),
    [
        ("2026-01-31T08:30:00Z", "UTC", "2026-01-31T08:30:00+00:00"),
        ("2026-01-31T08:30:00.25Z", "Europe/Berlin", "2026-01-31T09:30:00.250+01:00"),
        ("2026-07-31T08:30:00Z", "Europe/Berlin", "2026-07-31T10:30:00+02:00"),
        ("2026-01-31T08:30:00Z", "America/St_Johns", "2026-01-31T05:00:00-03:30"),
        ("2026-01-31T08:30:00Z", "Asia/Kathmandu", "2026-01-31T14:15:00+05:45"),
        ("2025-10-26T00:30:00Z", "Europe/Berlin", "2025-10-26T02:30:00+02:00"),
        ("2025-10-26T01:30:00Z", "Europe/Berlin", "2025-10-26T02:30:00+01:00"),
        # Local mean time: Paris was 9:21 ahead, Monrovia 44:30 behind (until 1972), New York 4:56:02.
        ("1900-01-01T00:00:00Z", "Europe/Paris", "1900-01-01T00:09:00+00:09"),
        ("1960-01-01T00:00:00Z", "Africa/Monrovia", "1959-12-31T23:15:00-00:45"),
        ("1880-01-01T00:00:00Z", "America/New_York", "1879-12-31T19:03:00-04:57"),
    ],
)
def test_an_instant_is_shown_as_the_zone_s_clocks_did(text: str, zone: str, shown: str) -> None:
    """Summer time, halves and quarters of hours, the hour that comes twice, and offsets with seconds."""
    assert format_instant_in(parse_instant(text), ZoneInfo(zone)) == shown


# ── Arithmetic ────────────────────────────────────────────────────────────────────────────────────────────────────────

durations = st.timedeltas()


@given(instants, durations)
def test_later_stays_within_the_range(instant: Instant, duration: timedelta) -> None:
    """The sum is exact where it fits, and the nearest end of the range where it does not."""
    exact = instant + milliseconds(duration)
    assert later(instant, duration) == sorted([EARLIEST, exact, LATEST])[1]


@given(instants, instants)
def test_between_is_what_later_adds(start: Instant, end: Instant) -> None:
    """The time between two instants leads from one to the other, either way."""
    assert later(start, between(start, end)) == end
    assert between(start, end) == -between(end, start)


@given(durations)
def test_durations_are_cut_to_whole_milliseconds(duration: timedelta) -> None:
    """What is lost is less than a millisecond, and always makes the duration smaller."""
    rest = duration - timedelta(milliseconds=1) * milliseconds(duration)
    assert timedelta() <= rest < timedelta(milliseconds=1)
