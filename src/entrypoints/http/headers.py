"""Header fields, read strictly: a field that cannot be meant is a fault, never a guess.

Each reader takes the values of all lines of its field, since two lines are not the same as one.
"""

from collections.abc import Sequence
from datetime import timedelta
from re import ASCII, compile as pattern
from typing import Final

from msgspec import Struct

from domain.admission import spread


class HeaderError(ValueError):
    """The field cannot be meant; the message says why."""


def retry_after(wait: timedelta, *, jitter: float) -> str:
    """Return a Retry-After of whole seconds: spread by `jitter` in [0, 1), at least one, never less than the wait."""
    second = timedelta(seconds=1)
    return str(max(1, -(-wait // second), round(spread(wait, jitter=jitter) / second)))


# ── Entity tags (RFC 9110, 8.8.3 and 13.1) ────────────────────────────────────────────────────────────────────────────

_TAG: Final = r'(?:W/)?"[!#-~]*"'
TAGS_PATTERN: Final = rf"^(\*|{_TAG}([ \t]*,[ \t]*{_TAG})*)$"
_TAGS: Final = pattern(TAGS_PATTERN, ASCII)
_EACH_TAG: Final = pattern(r'(W/)?"([!#-~]*)"', ASCII)


class EntityTags(Struct, frozen=True):
    """What If-Match or If-None-Match names: any version, or these; only strong ones can be matched strongly."""

    is_any: bool
    strong: frozenset[str] = frozenset()
    weak: frozenset[str] = frozenset()

    def match_strongly(self, tag: str) -> bool:
        """Tell whether the opaque tag is among those that If-Match accepts."""
        return self.is_any or tag in self.strong

    def match_weakly(self, tag: str) -> bool:
        """Tell whether the opaque tag is among those that If-None-Match has already."""
        return self.is_any or tag in self.strong or tag in self.weak

    @property
    def versions(self) -> frozenset[int] | None:
        """The versions that are meant, where the tags are version numbers; None for any."""
        return None if self.is_any else frozenset(int(tag) for tag in self.strong if _VERSION.fullmatch(tag))


_VERSION: Final = pattern(r"[1-9][0-9]{0,17}", ASCII)


def etag(opaque: str | int) -> str:
    """Return a strong entity tag as it stands in a header."""
    return f'"{opaque}"'


def read_entity_tags(values: Sequence[str]) -> EntityTags:
    """Return the tags of If-Match or If-None-Match."""
    text = ", ".join(values)
    if _TAGS.fullmatch(text) is None:
        raise HeaderError('must be * or a list of entity tags, such as "3"')
    if text == "*":
        return EntityTags(is_any=True)
    found = _EACH_TAG.findall(text)
    return EntityTags(
        is_any=False,
        strong=frozenset(opaque for weak, opaque in found if not weak),
        weak=frozenset(opaque for weak, opaque in found if weak),
    )


# ── Idempotency-Key ───────────────────────────────────────────────────────────────────────────────────────────────────

# Bare: printable ASCII without what separates list members, begins parameters or quotes, since a proxy may join two
# lines with a comma. Quoted: a string of RFC 9651.
KEY_PATTERN: Final = r'^([!#-+\--:<-\[\]-~]{1,255}|"([ !#-\[\]-~]|\\["\\]){1,255}")$'
_KEY: Final = pattern(KEY_PATTERN, ASCII)
_ESCAPED: Final = pattern(r'\\(["\\])')


def read_idempotency_key(values: Sequence[str]) -> str:
    """Return the key; a quoted string and the same word without quotes are equal."""
    if len(values) != 1:
        raise HeaderError("must be there once")
    text = values[0]
    if _KEY.fullmatch(text) is None:
        raise HeaderError(
            "must be 1 to 255 printable ASCII characters: a bare word without quotes, commas, semicolons, backslashes "
            'and spaces, or a "quoted string"'
        )
    return _ESCAPED.sub(r"\1", text[1:-1]) if text.startswith('"') else text


# ── Media types and codings ───────────────────────────────────────────────────────────────────────────────────────────

_MEDIA_TYPE: Final = pattern(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+)((?:[ \t]*;.*)?)", ASCII)
_CHARSET: Final = pattern(r";[ \t]*charset[ \t]*=[ \t]*\"?([^\";\s]*)\"?", ASCII)
_UTF8: Final = frozenset({"utf-8", "utf8", "us-ascii"})


def read_media_type(values: Sequence[str]) -> str:
    """Return the media type of a Content-Type in lower case, without its parameters."""
    found = _MEDIA_TYPE.fullmatch(values[0].strip()) if len(values) == 1 else None
    if found is None:
        raise HeaderError("Content-Type must be there once and name a media type")
    charsets = {name.lower() for name in _CHARSET.findall(found[2].lower())}
    if not charsets <= _UTF8:
        raise HeaderError("the charset must be UTF-8")
    return found[1].lower()


_WEIGHTED: Final = pattern(
    r"[ \t]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*(?:;[ \t]*q=([01](?:\.[0-9]{0,3})?)[ \t]*)?", ASCII
)


def accepts_gzip(values: Sequence[str]) -> bool:
    """Tell whether Accept-Encoding asks for gzip by name. A field that cannot be read asks for nothing."""
    for item in ",".join(values).split(","):
        found = _WEIGHTED.fullmatch(item)
        if found is not None and found[1].lower() in {"gzip", "x-gzip"}:
            return found[2] is None or float(found[2]) > 0
    return False


# ── Who asks, and on whose behalf ─────────────────────────────────────────────────────────────────────────────────────

_BEARER: Final = pattern(r"bearer[ ]+([A-Za-z0-9._~+/-]+=*)", ASCII)


class Credentials(Struct, frozen=True):
    """What an Authorization field offers; `token` is None where it is no bearer token."""

    is_bearer: bool
    token: str | None


def read_authorization(values: Sequence[str]) -> Credentials:
    """Return what is offered; anything that cannot be read offers no token."""
    if len(values) != 1:
        return Credentials(is_bearer=bool(values), token=None)
    scheme, _, rest = values[0].partition(" ")
    if scheme.lower() != "bearer":
        return Credentials(is_bearer=False, token=None)
    found = _BEARER.fullmatch(f"bearer {rest}")
    return Credentials(is_bearer=True, token=None if found is None else found[1])


REQUEST_ID_PATTERN: Final = r"^[A-Za-z0-9._-]{1,128}$"
_REQUEST_ID: Final = pattern(REQUEST_ID_PATTERN, ASCII)


def read_request_id(values: Sequence[str]) -> str | None:
    """Return the caller's own id of the request when it is well-formed."""
    return values[0] if len(values) == 1 and _REQUEST_ID.fullmatch(values[0]) else None


# W3C Trace Context, version 00. Later versions may append fields, which are not kept.
_TRACEPARENT: Final = pattern(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", ASCII)


def read_traceparent(values: Sequence[str]) -> str | None:
    """Return the caller's trace context when it is well-formed."""
    return values[0] if len(values) == 1 and _TRACEPARENT.fullmatch(values[0]) else None
