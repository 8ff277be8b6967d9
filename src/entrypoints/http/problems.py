"""How a refusal becomes an answer: one row for each refusal of the domain, and one form for all (RFC 9457).

What no row knows is a defect of ours: it is answered by `internal-error`, and nothing of its text reaches a client.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec
from msgspec import Struct

from domain import errors
from domain.errors import InputError, Refusal
from domain.export import GoneReason
from domain.instants import Instant, format_instant
from entrypoints.http import problem_types as types
from entrypoints.http.answers import PROBLEM_JSON, Answer
from entrypoints.http.headers import etag, retry_after
from entrypoints.http.problem_types import ProblemType
from entrypoints.http.schemas import Fault, Problem


class Refused(Exception):  # noqa: N818 - the domain's word: not an error of the program
    """A request that is turned down, with everything that its answer will say."""

    def __init__(
        self,
        kind: ProblemType,
        detail: str,
        *,
        faults: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
        retry_after: timedelta | None = None,
        **members: Any,  # noqa: ANN401 - further members of `Problem`
    ) -> None:
        super().__init__(f"{kind.slug}: {detail}")
        self.kind = kind
        self.detail = detail
        self.faults = tuple(faults)
        self.headers = dict(headers or {})
        self.retry_after = retry_after or _RETRY_AFTER.get(kind)
        self.members = members


class Place(Struct, frozen=True, kw_only=True):
    """Which request this is. `jitter` in [0, 1) spreads clients that were turned away together.

    `headers` are put on whatever the request is answered with, defects included.
    """

    request_id: str
    instance: str
    traceparent: str | None = None
    base_url: str = ""
    jitter: float = 0.0
    headers: dict[str, str] = {}


def problem_answer(error: Exception, place: Place) -> Answer:
    """Return what an exception is answered with. Total: what is not known is `internal-error`."""
    refused = error if isinstance(error, Refused) else _refused(error)
    content = Problem(
        type=problem_uri(refused.kind.slug, place.base_url),
        title=refused.kind.title,
        status=refused.kind.status,
        detail=refused.detail,
        instance=place.instance,
        request_id=place.request_id,
        errors=refused.faults,
        **refused.members,
    )
    headers = {"Content-Type": PROBLEM_JSON, **refused.headers}
    if refused.retry_after is not None:
        headers["Retry-After"] = retry_after(refused.retry_after, jitter=place.jitter)
    return Answer(refused.kind.status, msgspec.json.encode(content), headers=headers)


def problem_uri(slug: str, base_url: str = "") -> str:
    """Return the stable name of a type of problem, which is also the address of its page."""
    return f"{base_url}/problems/{slug}"


def fault_of(error: InputError) -> Fault:
    """Return a fault of the domain in the words of the API: most name a member of the body by its JSON Pointer."""
    if not error.where or error.where.startswith("/"):
        return Fault(error.reason, pointer=error.where)
    return Fault(f"{error.where}: {error.reason}")


# Doubled at most by the jitter. A full disk is not mended in a second.
_RETRY_AFTER: Final[dict[ProblemType, timedelta]] = {
    types.BUSY: timedelta(seconds=1),
    types.OUTCOME_UNKNOWN: timedelta(seconds=1),
    types.UNAVAILABLE: timedelta(seconds=5),
    types.NOT_READY: timedelta(seconds=5),
    types.STORAGE_FULL: timedelta(seconds=60),
    types.EXPORT_NOT_READY: timedelta(seconds=1),
}


def _refused(error: Exception) -> Refused:
    row = next((REFUSALS[cause] for cause in type(error).__mro__ if cause in REFUSALS), None)
    return Refused(types.INTERNAL_ERROR, "The request could not be answered.") if row is None else row(error)


def _plain(kind: ProblemType) -> Callable[[Refusal], Refused]:
    return lambda error: Refused(kind, _sentence(error))


def _sentence(error: Refusal) -> str:
    words = str(error)
    return f"{words[:1].upper()}{words[1:]}."


def _internal(kind: ProblemType) -> Callable[[Refusal], Refused]:
    return lambda _: Refused(kind, kind.meaning)


def _invalid(error: errors.InvalidInput) -> Refused:
    return Refused(types.INVALID_REQUEST, _sentence(error), faults=[fault_of(fault) for fault in error.errors])


def _stale(error: errors.StaleVersion) -> Refused:
    return Refused(types.PRECONDITION_FAILED, _sentence(error), headers={"ETag": etag(error.current)})


def _conflict(error: errors.IdempotencyConflict) -> Refused:
    return Refused(types.IDEMPOTENCY_CONFLICT, _sentence(error), members=error.members)


def _without_result(error: errors.ExportEndedWithoutResult) -> Refused:
    return Refused(types.EXPORT_WITHOUT_RESULT, _sentence(error), code=error.code)


def _limited(kind: ProblemType) -> Callable[[errors.LimitReached], Refused]:
    return lambda error: Refused(kind, kind.meaning, retry_after=error.retry_after, limit=error.limit)


def _gone(error: errors.ResultGone) -> Refused:
    kind = types.RESULT_DELETED if error.reason == GoneReason.DELETED else types.EXPORT_EXPIRED
    return Refused(kind, kind.meaning, gone_at=format_instant(Instant(error.at)))


# The nearest class in a refusal's ancestry decides. A row for `Refusal` itself would hide a refusal that was forgotten.
REFUSALS: Final[dict[type[Refusal], Callable[[Any], Refused]]] = {
    errors.InvalidInput: _invalid,
    errors.NotFound: _internal(types.NOT_FOUND),
    errors.NameTaken: _plain(types.NAME_TAKEN),
    errors.StaleVersion: _stale,
    errors.IdempotencyConflict: _conflict,
    errors.LimitReached: _limited(types.QUEUE_FULL),
    errors.QuotaExceeded: _limited(types.TOO_MANY_EXPORTS),
    errors.QueueTooOld: _limited(types.QUEUE_TOO_OLD),
    errors.StorageBudgetReached: _limited(types.STORAGE_BUDGET),
    errors.ResultUnavailable: _plain(types.EXPORT_WITHOUT_RESULT),
    errors.ExportNotReady: _plain(types.EXPORT_NOT_READY),
    errors.ExportEndedWithoutResult: _without_result,
    errors.ResultGone: _gone,
    errors.NoSuchTransition: _plain(types.EXPORT_ENDED),
    # A request cannot cause what follows: an attempt or maintenance can, or a defect.
    errors.ProtocolRefusal: _internal(types.INTERNAL_ERROR),
    errors.NotMaintaining: _internal(types.INTERNAL_ERROR),
    errors.PermanentFailure: _internal(types.INTERNAL_ERROR),
    errors.ChunkDamaged: _internal(types.RESULT_DAMAGED),
    errors.EnvironmentFailure: _internal(types.UNAVAILABLE),
    errors.StoreBusy: _internal(types.BUSY),
    errors.PoolExhausted: _internal(types.BUSY),
    errors.StoreFull: _internal(types.STORAGE_FULL),
    errors.StoreUnavailable: _internal(types.UNAVAILABLE),
    errors.OutcomeUnknown: _internal(types.OUTCOME_UNKNOWN),
}
