"""Every refusal. An adapter translates its driver's errors into these; an entrypoint maps these, once, to answers.

Refusal
├── InvalidInput                  the caller sent something that cannot be meant
├── NotFound                      no such thing *for this owner*: unknown, malformed and foreign look alike
├── NameTaken                     a user of that name exists
├── StaleVersion                  the caller's copy is not the current one
├── IdempotencyConflict           the key was used for something else
├── LimitReached                  what was asked for may be had later
│   ├── QuotaExceeded             the owner's own exports
│   └── AdmissionRefused          no new export of anyone's is accepted now
│       ├── QueueFull             as many exports wait as can be finished
│       ├── QueueTooOld           those that wait have waited for too long
│       └── StorageBudgetReached  the database or its volume is as full as it may be
├── ResultUnavailable
│   ├── ExportNotReady            not yet terminal
│   ├── ExportEndedWithoutResult  failed or cancelled
│   └── ResultGone                expired or deleted
├── ProtocolRefusal               the lifecycle does not allow the event
│   ├── NoSuchTransition          no rule leads from this status by this event
│   ├── NotHolding                the attempt's lease ended or belongs to another
│   └── GuardRefused              a rule exists, but one of its conditions does not hold
├── NotMaintaining                the lease of maintenance ended or belongs to another
├── PermanentFailure              an attempt that no retry can mend
│   ├── InvalidParameters         the stored parameters cannot be decoded any more
│   ├── OwnerDisabled             the owner was disabled after the export was accepted
│   ├── OwnershipViolation        a row of another owner was seen: a defect, and an alarm
│   └── ResultTooLarge            over the row or byte limit
├── EnvironmentFailure            nothing is wrong with the request; the same one can succeed later
│   ├── StoreBusy                 the write lock was not to be had within the limit
│   ├── PoolExhausted             no read connection was free within the limit
│   ├── StoreFull                 disk or quota
│   ├── StoreUnavailable          the database cannot be read or written
│   └── OutcomeUnknown            the commit reported an error: it may have happened
└── ChunkDamaged                  stored bytes do not match their digest
"""

from datetime import timedelta

from msgspec import Struct


class Refusal(Exception):  # noqa: N818 - the field says refusal; most are not errors of the program
    """A request or an attempt that is turned down, with the reason in words for the person who has to act."""


class InputError(Struct, frozen=True):
    """One thing that is wrong: where (a JSON Pointer, a parameter or a header name) and why."""

    where: str
    reason: str


class InvalidInput(Refusal):
    """The caller sent something that cannot be meant; `errors` names each fault."""

    def __init__(self, *errors: InputError) -> None:
        super().__init__(
            "; ".join(f"{error.where}: {error.reason}" if error.where else error.reason for error in errors)
        )
        self.errors = errors


class NotFound(Refusal):
    """Nothing by that name is visible to this owner."""


class NameTaken(Refusal):
    """A user of that name exists."""


class StaleVersion(Refusal):
    """The caller's precondition names another version than the current one."""

    def __init__(self, *, current: int) -> None:
        super().__init__(f"the current version is {current}")
        self.current = current


class IdempotencyConflict(Refusal):
    """The key was used with other parameters; `members` names those that differ."""

    def __init__(self, *, members: tuple[str, ...]) -> None:
        super().__init__(f"this key was used with another {', '.join(members)}")
        self.members = members


class LimitReached(Refusal):
    """What was asked for may be had later. `limit` names the limit, `retry_after` is when to ask again at the earliest.

    Nothing was stored: the same request, under the same key, can be sent again.
    """

    def __init__(self, *, limit: str, retry_after: timedelta) -> None:
        super().__init__(f"the limit {limit} is reached")
        self.limit = limit
        self.retry_after = retry_after


class QuotaExceeded(LimitReached):
    """The owner has as many active exports as one owner may have."""


class AdmissionRefused(LimitReached):
    """No new export is accepted now, whoever asks; what was accepted before goes on."""


class QueueFull(AdmissionRefused):
    """As many exports wait as can be finished."""


class QueueTooOld(AdmissionRefused):
    """The exports that wait have waited for too long."""


class StorageBudgetReached(AdmissionRefused):
    """The database, or the volume on which it lies, is as full as it may become."""


class ResultUnavailable(Refusal):
    """There is no file to send."""


class ExportNotReady(ResultUnavailable):
    """The export has not ended yet."""


class ExportEndedWithoutResult(ResultUnavailable):
    """The export failed or was cancelled; `code` is its stable error code."""

    def __init__(self, *, code: str) -> None:
        super().__init__(f"the export ended without a result: {code}")
        self.code = code


class ResultGone(ResultUnavailable):
    """The result expired or was deleted, at the instant `at` (milliseconds)."""

    def __init__(self, *, reason: str, at: int) -> None:
        super().__init__(f"the result is gone: {reason}")
        self.reason = reason
        self.at = at


class ProtocolRefusal(Refusal):
    """The lifecycle does not allow this event for this job."""

    def __init__(self, *, job_id: str, event: str, status: str, rule: str) -> None:
        super().__init__(f"cannot {event} a {status} export: {rule}")
        self.job_id = job_id
        self.event = event
        self.status = status
        self.rule = rule


class NoSuchTransition(ProtocolRefusal):
    """No rule leads from this status by this event."""


class NotHolding(ProtocolRefusal):
    """The lease ended, or another claim holds the job: the presenter is stale and can write nothing."""


class GuardRefused(ProtocolRefusal):
    """A rule exists for this event, and one of its conditions does not hold."""


class NotMaintaining(Refusal):
    """The lease of maintenance ended, or another worker holds it: the presenter can delete nothing."""


class PermanentFailure(Refusal):
    """An attempt failed for a reason that no retry mends."""


class InvalidParameters(PermanentFailure):
    """The stored parameters cannot be decoded, or no longer make sense."""


class OwnerDisabled(PermanentFailure):
    """The owner was disabled after the export was accepted."""


class OwnershipViolation(PermanentFailure):
    """A row of another owner was seen."""


class ResultTooLarge(PermanentFailure):
    """The result would exceed the configured row or byte limit."""


class EnvironmentFailure(Refusal):
    """The surroundings failed; the same request can succeed later."""


class StoreBusy(EnvironmentFailure):
    """The write lock was not to be had within its limit. Nothing was written."""


class PoolExhausted(EnvironmentFailure):
    """No read connection was free within its limit."""


class StoreFull(EnvironmentFailure):
    """The disk or the storage quota is full. Nothing was written."""


class StoreUnavailable(EnvironmentFailure):
    """The database cannot be read or written. Nothing was written."""


class OutcomeUnknown(EnvironmentFailure):
    """The commit reported an error: it may or may not have happened. The same idempotency key tells."""


class ChunkDamaged(Refusal):
    """Stored bytes of a result do not match their digest: they must not be sent."""
