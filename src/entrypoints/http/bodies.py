"""Request bodies: received within a size and a time, and read as JSON more strictly than a library would.

What two readers could understand differently is refused: a member named twice, half of a surrogate pair, NUL, numbers
that others would round. An integer written as 1.0 is one, as JSON Schema has it.
"""

import json
from asyncio import get_running_loop, timeout_at
from collections.abc import AsyncIterator
from typing import Any, Final

from litestar.types import Receive

from entrypoints.http.headers import HeaderError, read_media_type
from entrypoints.http.problem_types import (
    BODY_TOO_LARGE,
    MALFORMED_JSON,
    REQUEST_TIMEOUT,
    UNSUPPORTED_MEDIA_TYPE,
)
from entrypoints.http.problems import Refused
from entrypoints.http.schemas import Fault

# Which header of an answer names the bodies that a method accepts: W3C Linked Data Platform, RFC 5789, and RFC 9110.
ADVICE: Final = {"POST": "Accept-Post", "PATCH": "Accept-Patch", "PUT": "Accept"}
# Deeper than any body of this API by far, and nothing to the stack.
_DEEPEST: Final = 32
# RFC 7493: what lies outside is rounded by many readers. No member of any body is that large.
_LARGEST_INTEGER: Final = 2**53 - 1


class ClientGone(Exception):  # noqa: N818 - an event, not an error
    """The client left before its request was complete, or before its answer was: there is no one to answer."""


def _too_large(limit: int) -> Refused:
    return Refused(BODY_TOO_LARGE, f"The body has more than {limit:,} bytes.")


async def received(receive: Receive, *, limit: int, seconds: float) -> AsyncIterator[bytes]:
    """Yield the body as it arrives, whether or not its length was announced.

    Raises:
        Refused: more than `limit` bytes (413), or not there within `seconds` (408).
        ClientGone: the client left.
    """
    until = get_running_loop().time() + seconds
    count = 0
    while True:
        try:
            async with timeout_at(until):
                message = await receive()
        except TimeoutError as error:
            # The rest of the body is still to come: this connection cannot be used for another request.
            raise Refused(
                REQUEST_TIMEOUT, f"The body was not there after {seconds:g} seconds.", headers={"Connection": "close"}
            ) from error
        if message["type"] != "http.request":
            raise ClientGone
        count += len(message["body"])
        if count > limit:
            raise _too_large(limit)
        yield message["body"]
        if not message["more_body"]:
            return


def check_announced_length(values: list[str], *, limit: int) -> None:
    """Refuse a body that announces more than `limit` bytes before any of it is read (413)."""
    if any(value.isdecimal() and int(value[:20]) > limit for value in values):
        raise _too_large(limit)


def check_media_type(types: list[str], codings: list[str], accepted: tuple[str, ...], *, method: str) -> str:
    """Return the media type of the body; refuse one that is not accepted, and any content coding (415)."""
    headers = {ADVICE[method]: ", ".join(accepted)}
    if [coding for coding in codings if coding.lower() != "identity"]:
        raise Refused(
            UNSUPPORTED_MEDIA_TYPE,
            "The body must be sent without a content coding.",
            headers={**headers, "Accept-Encoding": "identity"},
        )
    try:
        media_type = read_media_type(types)
    except HeaderError as error:
        raise Refused(UNSUPPORTED_MEDIA_TYPE, f"{error}.", headers=headers) from error
    if media_type not in accepted:
        raise Refused(UNSUPPORTED_MEDIA_TYPE, f"Content-Type must be {' or '.join(accepted)}.", headers=headers)
    return media_type


def parse_json(body: bytes) -> tuple[object, list[Fault]]:
    """Return the value of a JSON text, whole numbers as integers, and what in it cannot be kept.

    Raises:
        Refused: not JSON (400).
    """
    try:
        value = json.loads(
            body.decode(),
            object_pairs_hook=_members,
            parse_constant=_refuse_constant,
            parse_float=_float,
        )
    except UnicodeDecodeError as error:
        raise Refused(MALFORMED_JSON, f"The body is not UTF-8: byte {error.start + 1} cannot be read.") from error
    except RecursionError as error:
        raise Refused(MALFORMED_JSON, f"The body is nested deeper than {_DEEPEST} levels.") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise Refused(MALFORMED_JSON, f"The body is not JSON: {error.msg} ({place}).") from error
    except ValueError as error:
        raise Refused(MALFORMED_JSON, f"The body cannot be read: {_reason(error)}.") from error
    faults: list[Fault] = []
    return _sound(value, "", 0, faults), faults


def pointer(*members: str | int) -> str:
    """Return the JSON Pointer of a place in a body (RFC 6901)."""
    return "".join(f"/{str(member).replace('~', '~0').replace('/', '~1')}" for member in members)


class _AmbiguousError(ValueError):
    """Two readers could understand this differently; the message is ours."""


def _reason(error: ValueError) -> str:
    return str(error) if isinstance(error, _AmbiguousError) else "a number is too long"


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _AmbiguousError("a member is named twice in one object")
    return found


def _refuse_constant(_: str) -> None:
    raise _AmbiguousError("NaN and Infinity are not JSON numbers")


def _float(text: str) -> float:
    value = float(text)
    if value in {float("inf"), float("-inf")}:
        raise _AmbiguousError("a number is too large")
    return value


def _sound(value: object, where: str, depth: int, faults: list[Fault]) -> object:
    if depth > _DEEPEST:
        raise Refused(MALFORMED_JSON, f"The body is nested deeper than {_DEEPEST} levels.")
    match value:
        case dict():
            for name in value:
                _check_text(name, where, faults)
            return {name: _sound(item, where + pointer(name), depth + 1, faults) for name, item in value.items()}
        case list():
            return [_sound(item, where + pointer(index), depth + 1, faults) for index, item in enumerate(value)]
        case str():
            _check_text(value, where, faults)
        case bool() | None:
            pass
        case float() | int():
            if abs(value) > _LARGEST_INTEGER:
                faults.append(Fault("the number is too large", pointer=where))
            elif isinstance(value, float) and value.is_integer():
                return int(value)
    return value


def _check_text(text: str, where: str, faults: list[Fault]) -> None:
    if "\0" in text:
        faults.append(Fault("must not contain the NUL character", pointer=where))
    elif not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        # The fault must be readable: where a member's name is at fault, its object is named.
        faults.append(Fault("must be Unicode text without lone surrogates", pointer=where))
