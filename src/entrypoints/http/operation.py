"""What an operation is: one declaration, from which its routing, its checks and its page in the contract all come."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from re import compile as pattern
from typing import Any, Final, Generic, TypeVar, cast

from litestar.types import Receive, Scope as AsgiScope
from msgspec import Struct
from msgspec.structs import replace

from domain.account import OwnerId, Principal, Scope
from domain.ports import Bulkhead
from entrypoints.bootstrap import Application
from entrypoints.http import problem_types as types
from entrypoints.http.answers import JSON, Answer
from entrypoints.http.headers import (
    KEY_PATTERN,
    TAGS_PATTERN,
    EntityTags,
    read_entity_tags,
    read_idempotency_key,
)
from entrypoints.http.problem_types import ProblemType
from entrypoints.http.problems import Place
from entrypoints.http.schemas import Fault

T = TypeVar("T")
S = TypeVar("S", bound=Struct)


class Header(Struct, Generic[T], frozen=True, kw_only=True):
    """A request header that an operation reads. `missing` is the problem where it must be there and is not."""

    name: str
    read: Callable[[Sequence[str]], T]
    pattern: str
    format: str
    description: str
    example: str
    missing: ProblemType | None = None
    malformed: ProblemType = types.INVALID_REQUEST


IF_MATCH: Final = Header[EntityTags](
    name="If-Match",
    read=read_entity_tags,
    pattern=TAGS_PATTERN,
    format="entity-tags",
    description="The version that is meant, as the ETag that was read; `*` for any.",
    example='"3"',
    missing=types.PRECONDITION_REQUIRED,
)
IF_MATCH_OPTIONAL: Final = replace(IF_MATCH, missing=None)
IF_NONE_MATCH: Final = Header[EntityTags](
    name="If-None-Match",
    read=read_entity_tags,
    pattern=TAGS_PATTERN,
    format="entity-tags",
    description="The ETag of a copy that the client has: answered by 304 while it is current.",
    example='"3"',
)
_KEY_WORDS: Final = (
    "A word that is new for each thing that is wanted; a request that is repeated with its key is answered by what the "
    "first one came to. A quoted string (RFC 9651) and the same word without quotes are one key."
)
OPTIONAL_KEY: Final = Header[str](
    name="Idempotency-Key",
    read=read_idempotency_key,
    pattern=KEY_PATTERN,
    format="idempotency-key",
    description=_KEY_WORDS,
    example="5f0c4a2e-report",
    malformed=types.KEY_MALFORMED,
)
REQUIRED_KEY: Final = Header[str](
    name="Idempotency-Key",
    read=read_idempotency_key,
    pattern=KEY_PATTERN,
    format="idempotency-key",
    description=_KEY_WORDS,
    example='"monthly report, 2026-01"',
    missing=types.KEY_MISSING,
    malformed=types.KEY_MALFORMED,
)


class Body(Struct, frozen=True):
    """A request body: JSON that becomes `into`, or, without it, a file that the handler receives itself."""

    examples: Mapping[str, Any]
    into: type[Struct] | None = None
    check: Callable[[Mapping[str, Any]], list[Fault]] | None = None

    @property
    def media_types(self) -> tuple[str, ...]:
        """The accepted media types, the usual one first."""
        return tuple(self.examples)


class Link(Struct, frozen=True):
    """Which operation an answer leads to, and what of the answer its parameters are (runtime expressions)."""

    operation_id: str
    parameters: Mapping[str, str]
    description: str


class Reply(Struct, frozen=True, kw_only=True):
    """One good answer of an operation: `headers` are always there. A HEAD answer `is_empty` whatever it describes."""

    status: int
    description: str
    content: type[Struct] | None = None
    media_type: str = JSON
    example: Any = None
    is_empty: bool = False
    headers: tuple[str, ...] = ()
    optional_headers: tuple[str, ...] = ()
    links: Mapping[str, Link] = {}


class Call:
    """One request to an operation, as far as it has been checked."""

    def __init__(
        self,
        *,
        application: Application,
        operation: "Operation",
        scope: AsgiScope,
        receive: Receive,
        place: Place,
    ) -> None:
        self.application = application
        self.operation = operation
        self.scope = scope
        self.receive = receive
        self.place = place
        self.requests_left = 0
        self.principal: Principal | None = None
        self.media_type: str | None = None
        self._query: Struct | None = None
        self._stated: Mapping[str, Any] = {}
        self._headers: dict[str, object] = {}

    def header_values(self, name: str) -> list[str]:
        """Return the values of all lines of a header field, in order."""
        wanted = name.lower().encode()
        return [value.decode("latin-1").strip(" \t") for key, value in self.scope["headers"] if key.lower() == wanted]

    def accept(self, *, query: Struct | None, headers: Mapping[str, object], stated: Mapping[str, Any]) -> None:
        """Keep what was found sound."""
        self._query = query
        self._headers = dict(headers)
        self._stated = stated

    @property
    def owner_id(self) -> OwnerId:
        """Whose tasks and exports this request is about. Only where the operation needs a scope."""
        if self.principal is None:
            raise LookupError("an operation without a scope has no owner")
        return self.principal.owner_id

    def path(self, name: str) -> str:
        """Return a part of the path, as it came: no store finds what is not spelled like an id."""
        return str(self.scope["path_params"][name])

    def query(self, kind: type[S]) -> S:
        """Return the query of the operation."""
        return self._query if isinstance(self._query, kind) else kind()

    def header(self, header: Header[T]) -> T | None:
        """Return a header of the operation; None when it was not there."""
        return cast("T | None", self._headers.get(header.name))

    def required(self, header: Header[T]) -> T:
        """Return a header that the operation does not go without."""
        return cast("T", self._headers[header.name])

    def stated(self, kind: type[S]) -> S:
        """Return the body of the operation."""
        return kind(**self._stated)


Handler = Callable[[Call], Awaitable[Answer]]

# RFC 9110, 9.2.1: what changes nothing meets no full disk, and leaves no doubt about what it did.
_SAFE: Final = frozenset({"GET", "HEAD"})
_PARAMETER: Final = pattern(r"\{(\w+)\}")


class Operation(Struct, frozen=True, kw_only=True):
    """One operation of the API.

    `scope` is what a token must allow; None means that anyone may ask. Authentication reads through `bulkhead`, so
    that one kind of request cannot starve another. `locate` finds what the path names: where it is given, an unknown
    id is answered before any fault of the request. `problems` are those that no declaration implies.
    """

    id: str
    method: str
    path: str
    tag: str
    summary: str
    description: str
    handler: Handler
    replies: tuple[Reply, ...]
    scope: Scope | None = None
    bulkhead: Bulkhead = Bulkhead.OPERATIONS
    query: type[Struct] | None = None
    headers: tuple[Header[Any], ...] = ()
    body: Body | None = None
    locate: Callable[[Call], Awaitable[object]] | None = None
    problems: tuple[ProblemType, ...] = ()

    @property
    def path_parameters(self) -> tuple[str, ...]:
        """The names in the path, each the id of something that its owner can see."""
        return tuple(_PARAMETER.findall(self.path))

    @property
    def all_problems(self) -> tuple[ProblemType, ...]:
        """Every problem that the operation can answer with: the implied ones, then its own."""
        implied = [types.INVALID_REQUEST]
        if self.scope is not None:
            implied += [types.UNAUTHENTICATED, types.TOO_MANY_REQUESTS, types.INSUFFICIENT_SCOPE]
            implied += [types.BUSY, types.UNAVAILABLE, types.INTERNAL_ERROR]
        if self.scope is not None and self.method not in _SAFE:
            implied += [types.STORAGE_FULL, types.OUTCOME_UNKNOWN]
        if self.path_parameters:
            implied += [types.NOT_FOUND]
        if self.body is not None:
            implied += [types.BODY_TOO_LARGE, types.UNSUPPORTED_MEDIA_TYPE, types.REQUEST_TIMEOUT]
            implied += [types.MALFORMED_JSON] if self.body.into is not None else []
        for header in self.headers:
            implied += [header.malformed] + ([header.missing] if header.missing else [])
        return tuple(dict.fromkeys([*implied, *self.problems]))
