"""Instants: integer milliseconds since the Unix epoch, UTC.

One integer is compared, stored and indexed the same way in every database, and it has no zone to lose.
The range leaves a day at both ends of what `datetime` holds, so that an instant can be shown in any zone.
"""

from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from re import ASCII, compile as pattern
from typing import Final, NewType

Instant = NewType("Instant", int)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1)
_DAY: Final = 86_400_000
_MILLISECOND: Final = timedelta(milliseconds=1)

EARLIEST: Final = Instant((datetime(1, 1, 2, tzinfo=UTC) - _EPOCH) // _MILLISECOND)
LATEST: Final = Instant((datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // _MILLISECOND - 1)

# RFC 3339, section 5.6. Seconds of 60 are refused with every other second that `datetime` cannot hold. Hours, and the
# minutes of an offset, are bounded here: `fromisoformat` takes 99 minutes of offset, and from Python 3.14 on hour 24.
RFC3339_PATTERN: Final = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt](?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"([Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_RFC3339: Final = pattern(RFC3339_PATTERN, ASCII)


class InstantError(ValueError):
    """The text is not an instant that can be kept exactly; the message says why and what is accepted."""


def milliseconds(duration: timedelta) -> int:
    """Return a duration in whole milliseconds, rounded down."""
    return duration // _MILLISECOND


def later(instant: Instant, duration: timedelta) -> Instant:
    """Return the instant that is `duration` after `instant` (before it when negative), kept within the range."""
    return Instant(min(max(instant + milliseconds(duration), EARLIEST), LATEST))


def between(start: Instant, end: Instant) -> timedelta:
    """Return how long after `start` is `end`."""
    return timedelta(milliseconds=end - start)


def parse_instant(text: str) -> Instant:
    """Return the instant that an RFC 3339 date-time names.

    An offset is required, since a local time is not an instant. Anything finer than a millisecond is refused and not
    rounded: what was written must be read back equal.

    Raises:
        InstantError: not RFC 3339, no such day or time, finer than a millisecond, or outside 0001-01-02 … 9999-12-30.
    """
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise InstantError("not an RFC 3339 date-time with an offset, such as 2026-01-31T08:30:00Z")
    fraction = (found[1] or "")[1:].rstrip("0")
    if len(fraction) > 3:  # noqa: PLR2004 - three digits are milliseconds
        raise InstantError("finer than a millisecond, which cannot be kept")
    seconds_text = text[:19].upper()
    zone = found[2].upper()
    try:
        moment = datetime.fromisoformat(seconds_text + ("+00:00" if zone == "Z" else zone))
        value = (moment - _EPOCH) // _MILLISECOND + int(fraction.ljust(3, "0"))
    except (ValueError, OverflowError) as error:
        raise InstantError("no such date or time") from error
    if not EARLIEST <= value <= LATEST:
        raise InstantError("outside the range 0001-01-02 to 9999-12-30 (UTC)")
    return Instant(value)


@lru_cache(maxsize=65_536)  # 180 years of days: a table of tasks repeats few of them
def _day_text(day: int) -> str:
    return (_EPOCH_DAY + timedelta(days=day)).isoformat()


def format_instant(instant: Instant) -> str:
    """Return RFC 3339 in UTC, ended by `Z`; a fraction only when it is not zero."""
    day, rest = divmod(instant, _DAY)
    seconds, fraction = divmod(rest, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    text = f"{_day_text(day)}T{hour:02}:{minute:02}:{second:02}"
    return f"{text}.{fraction:03}Z" if fraction else f"{text}Z"


def format_instant_in(instant: Instant, zone: tzinfo) -> str:
    """Return RFC 3339 with the zone's offset at that instant; a fraction only when it is not zero.

    Offsets are shown to the minute, as RFC 3339 has them. Before about 1900 some zones used local mean time with
    seconds in the offset: there the instant is shown with the offset cut to the minute and the time of day adjusted,
    so that the text still names the same instant.
    """
    moment = (_EPOCH + timedelta(milliseconds=instant)).astimezone(zone)
    offset = moment.utcoffset() or timedelta()
    whole = timedelta(minutes=offset // timedelta(minutes=1))
    shown = _EPOCH + timedelta(milliseconds=instant) + whole
    sign = "-" if whole < timedelta() else "+"
    hours, minutes = divmod(abs(whole) // timedelta(minutes=1), 60)
    fraction = f".{shown.microsecond // 1000:03}" if shown.microsecond else ""
    return f"{shown.replace(tzinfo=None, microsecond=0).isoformat()}{fraction}{sign}{hours:02}:{minutes:02}"
