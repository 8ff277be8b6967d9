"""Scalars as they stand in JSON and in a query: text with a meaning, read strictly and described exactly.

The patterns are part of the contract: what matches is accepted, and the tests hold that against the parsers.
"""

from importlib.resources import files
from re import ASCII, compile as pattern
from typing import Annotated, Any, ClassVar, Final, Protocol

from msgspec import Meta

from domain.instants import Instant, format_instant, parse_instant
from domain.pages import Position

_DAY: Final = (
    r"[0-9]{4}-("
    r"(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8])"
    r")|([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)-02-29"
)
_TIME: Final = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,3}0{0,6})?"
_OFFSET: Final = r"([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
# The first and last days that can be kept are accepted in UTC only: with an offset they could lie outside the range.
_OUTSIDE: Final = r"(?!0000|0001-01-01|9999-12-31|(0001-01-02|9999-12-30).*[0-9]$)"
INSTANT_PATTERN: Final = rf"^{_OUTSIDE}({_DAY})[Tt]{_TIME}{_OFFSET}$"
INSTANT_SCHEMA: Final[dict[str, Any]] = {
    "type": "string",
    "format": "date-time",
    "pattern": INSTANT_PATTERN,
    "description": "RFC 3339 with an offset, to the millisecond, from 0001-01-02 to 9999-12-30 (UTC).",
    "examples": ["2026-01-31T08:30:00Z"],
}

UUID_PATTERN: Final = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
# Fifteen digits hold every instant that there is, and every such position can be asked for.
CURSOR_PATTERN: Final = rf"^(0|-?[1-9][0-9]{{0,14}})\.{UUID_PATTERN[1:]}"
_CURSOR: Final = pattern(CURSOR_PATTERN, ASCII)

# What text may hold: anything but NUL, which files and databases cut text at.
TEXT_PATTERN: Final = "^[^\\u0000]*$"


class Scalar(Protocol):
    """A class that is read from text by `read` and describes itself by `SCHEMA`."""

    SCHEMA: ClassVar[dict[str, Any]]

    @classmethod
    def read(cls, text: str) -> "Scalar":
        """Return the scalar that the text names, or raise ValueError saying why not."""
        ...


class InstantText:
    """An instant in a request."""

    SCHEMA: ClassVar[dict[str, Any]] = INSTANT_SCHEMA
    __slots__ = ("instant",)

    def __init__(self, instant: Instant) -> None:
        self.instant = instant

    @classmethod
    def read(cls, text: str) -> "InstantText":
        """Return the instant that the text names."""
        return cls(parse_instant(text))


class Cursor:
    """A place between two pages, in a request. Every well-formed one is a place, so there is none that expires."""

    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": "string",
        "pattern": CURSOR_PATTERN,
        "description": "The `next_cursor` of the page before.",
        "examples": ["1769848200000.019c13a2-7c40-7e1b-9d2c-5f8a6b3e1d20"],
    }
    __slots__ = ("position",)

    def __init__(self, position: Position) -> None:
        self.position = position

    @classmethod
    def read(cls, text: str) -> "Cursor":
        """Return the position that the text names."""
        if _CURSOR.fullmatch(text) is None:
            raise ValueError("must be a next_cursor that a page ended with")
        instant, _, last_id = text.partition(".")
        return cls(Position(Instant(int(instant)), last_id))


def cursor_text(position: Position | None) -> str | None:
    """Return the text of a position; None where there is none."""
    return None if position is None else f"{position.created_at}.{position.id}"


def instant_of(text: InstantText | None) -> Instant | None:
    """Return the instant of a member that may be null."""
    return None if text is None else text.instant


def moment_of(instant: Instant | None) -> str | None:
    """Return the text of an instant that may not be there."""
    return None if instant is None else format_instant(instant)


def read_scalar(into: type[Any], value: object) -> object:
    """Return the scalar that a JSON value or query text names: what msgspec asks for types that it does not know."""
    if not isinstance(value, str):
        raise ValueError("must be a string")  # noqa: TRY004 - msgspec reports ValueError with its place
    return into.read(value)


def schema_of(kind: type[Any]) -> dict[str, Any]:
    """Return how a scalar describes itself: what msgspec asks for types that it does not know."""
    schema: dict[str, Any] = kind.SCHEMA
    return schema


# The zones of the tz database whose version the requirements pin: what one process offers, every process can read.
TIMEZONES: Final[tuple[str, ...]] = tuple(files("tzdata").joinpath("zones").read_text(encoding="utf-8").split())

Moment = Annotated[str, Meta(extra_json_schema={name: INSTANT_SCHEMA[name] for name in ("format", "examples")})]
Id = Annotated[str, Meta(extra_json_schema={"format": "uuid", "pattern": UUID_PATTERN})]
Digest = Annotated[str, Meta(extra_json_schema={"pattern": "^[0-9a-f]{64}$"})]
Count = Annotated[int, Meta(ge=0)]
UriReference = Annotated[str, Meta(extra_json_schema={"format": "uri-reference"})]
