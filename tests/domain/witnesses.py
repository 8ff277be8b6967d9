"""Jobs and events that show what each row of the protocol does, and what happens when one of its conditions fails."""

from datetime import timedelta
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from domain.account import OwnerId
from domain.errors import GuardRefused, NotHolding, ProtocolRefusal
from domain.events import Cancel, Claim, Complete, Enqueue, Event, Expire, Fail, Release, RemoveResult, Requeue
from domain.export import (
    ErrorCode,
    ExportJob,
    Failure,
    FailureKind,
    GoneReason,
    JobId,
    JobStatus,
    LeaseToken,
    Staged,
)
from domain.instants import Instant
from domain.lifecycle import PROTOCOL, Rule

SECOND: Final = 1000
NOW: Final = Instant(1_700_000_000_000)
LEASE: Final = timedelta(seconds=60)
LONGEST: Final = timedelta(seconds=90)
DEADLINE: Final = Instant(NOW + 3600 * SECOND)
RETRY_AT: Final = Instant(NOW + 5 * SECOND)
RETRY_ENDS_AT: Final = Instant(NOW + 7 * SECOND)
TOKEN: Final = LeaseToken("lease-token-of-the-first-claim")
OTHER_TOKEN: Final = LeaseToken("lease-token-of-the-second-claim")
WHOLE: Final = Staged(chunk_count=2, byte_count=300, row_count=9, payload_byte_count=120)
PART: Final = Staged(chunk_count=1, byte_count=150, row_count=5, payload_byte_count=60)


def seconds_after(seconds: float, start: Instant = NOW) -> Instant:
    """Return the instant that many seconds after the start."""
    return Instant(start + round(seconds * SECOND))


# ── Jobs ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

QUEUED: Final = ExportJob(
    id=JobId("0198c0de-0000-7000-8000-000000000001"),
    owner_id=OwnerId(7),
    request_key="key-1",
    parameters_json="{}",
    parameters_digest="44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
    status=JobStatus.QUEUED,
    version=4,
    created_at=seconds_after(-100),
    available_at=NOW,
    deadline_at=DEADLINE,
    attempt_count=2,
    excused_count=1,
    max_attempts=3,
)
RUNNING: Final = replace(
    QUEUED,
    status=JobStatus.RUNNING,
    lease_token=TOKEN,
    lease_until=seconds_after(30),
    worker_id="worker-1",
    started_at=seconds_after(-50),
)
SUCCEEDED: Final = replace(QUEUED, status=JobStatus.SUCCEEDED, finished_at=seconds_after(-1))
FAILED: Final = replace(
    QUEUED,
    status=JobStatus.FAILED,
    attempt_count=4,
    finished_at=seconds_after(-1),
    last_error_code=ErrorCode.ATTEMPTS_EXHAUSTED,
)
CANCELLED: Final = replace(
    QUEUED, status=JobStatus.CANCELLED, finished_at=seconds_after(-1), last_error_code=ErrorCode.CANCELLED
)
JOBS: Final = {job.status: job for job in (QUEUED, RUNNING, SUCCEEDED, FAILED, CANCELLED)}

LAST_TRY: Final = replace(RUNNING, attempt_count=4)  # one excused, three allowed: this one is the last
LOST: Final = replace(RUNNING, lease_until=NOW)  # over at this very instant
LOST_LAST_TRY: Final = replace(LAST_TRY, lease_until=NOW)

# ── Events: each is accepted in the status that its name belongs to ───────────────────────────────────────────────────

ENQUEUE: Final = Enqueue(
    now=NOW,
    job_id=QUEUED.id,
    owner_id=QUEUED.owner_id,
    request_key="key-1",
    parameters_json="{}",
    parameters_digest=QUEUED.parameters_digest,
    deadline_at=DEADLINE,
    max_attempts=3,
    request_id="request-1",
    traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
)
CLAIM: Final = Claim(now=NOW, worker_id="worker-2", lease_token=OTHER_TOKEN, lease=LEASE, longest_lease=LONGEST)
COMPLETE: Final = Complete(now=NOW, lease_token=TOKEN, longest_lease=LONGEST, expected=WHOLE, found=WHOLE)
FAIL: Final = Fail(
    now=NOW,
    lease_token=TOKEN,
    longest_lease=LONGEST,
    failure=Failure(FailureKind.TRANSIENT, ErrorCode.INTERNAL_ERROR, "KeyError"),
    retry_at=RETRY_AT,
    retry_ends_at=RETRY_ENDS_AT,
)
FAIL_ENVIRONMENT: Final = replace(FAIL, failure=Failure(FailureKind.ENVIRONMENT, None, "StoreBusy"))
FAIL_PERMANENT: Final = replace(
    FAIL, failure=Failure(FailureKind.PERMANENT, ErrorCode.RESULT_TOO_LARGE, "ResultTooLarge")
)
# The next try could begin in time, and would be done at the very instant that is too late.
FAIL_LATE: Final = replace(FAIL, retry_ends_at=DEADLINE)
RELEASE: Final = Release(now=NOW, lease_token=TOKEN, longest_lease=LONGEST)
EXPIRE: Final = Expire(now=NOW, longest_lease=LONGEST)
CANCEL: Final = Cancel(now=NOW, actor="owner", reason="not needed")
REMOVE_RESULT: Final = RemoveResult(now=NOW, actor="owner", reason=GoneReason.DELETED)
REQUEUE: Final = Requeue(
    now=NOW, actor="operator", reason="disk replaced", attempts=2, deadline_at=seconds_after(60, DEADLINE)
)
EVENTS: Final[tuple[Event, ...]] = (
    ENQUEUE,
    CLAIM,
    COMPLETE,
    FAIL,
    RELEASE,
    EXPIRE,
    CANCEL,
    REMOVE_RESULT,
    REQUEUE,
)


def at_deadline(event: Event) -> Event:
    """Return the event at the very instant of the deadline."""
    return replace(event, now=DEADLINE)


# ── Rows, by the name that the table gives them ───────────────────────────────────────────────────────────────────────


def row_name(rule: Rule[Any]) -> str:
    """Return a row as one line of text: event, statuses, conditions."""
    conditions = ", ".join(condition.__name__ for condition in rule.when) or "always"
    return f"{rule.event.name} {rule.source.value} -> {rule.target.value}: {conditions}"


ROWS: Final[dict[str, Rule[Any]]] = {row_name(rule): rule for rule in PROTOCOL}

CLAIM_QUEUED: Final = "claim queued -> running: is_available, before_deadline, has_budget"
CLAIM_RUNNING: Final = "claim running -> running: lease_is_dead, before_deadline, has_budget"
COMPLETES: Final = "complete running -> succeeded: holds, staged_is_complete"
RETRIES: Final = "fail running -> queued: holds, is_transient, has_budget, retry_fits"
RETRIES_EXCUSED: Final = "fail running -> queued: holds, is_environment, retry_fits"
FAILS: Final = "fail running -> failed: holds, is_permanent"
FAILS_SPENT: Final = "fail running -> failed: holds, is_transient, budget_is_spent"
FAILS_LATE: Final = "fail running -> failed: holds"
RELEASES: Final = "release running -> queued: holds"
EXPIRES_QUEUED: Final = "expire queued -> failed: deadline_has_passed"
EXPIRES_QUEUED_SPENT: Final = "expire queued -> failed: budget_is_spent"
EXPIRES_RUNNING: Final = "expire running -> failed: lease_is_dead, deadline_has_passed"
EXPIRES_RUNNING_SPENT: Final = "expire running -> failed: lease_is_dead, budget_is_spent"
CANCELS_QUEUED: Final = "cancel queued -> cancelled: always"
CANCELS_RUNNING: Final = "cancel running -> cancelled: always"
REMOVES: Final = "remove_result succeeded -> succeeded: always"
REQUEUES: Final = "requeue failed -> queued: new_deadline_is_ahead, grants_attempts"


class Witness(Struct, frozen=True):
    """A job and an event that take exactly this row, and every member that the step changes besides the version."""

    row: str
    job: ExportJob
    event: Event
    changes: dict[str, Any]


_NO_LEASE: Final[dict[str, Any]] = {"lease_token": None, "lease_until": None, "worker_id": None}


def _ended(status: JobStatus, code: ErrorCode | None, at: Instant = NOW) -> dict[str, Any]:
    return {**_NO_LEASE, "status": status, "finished_at": at, "last_error_code": code}


_GRANTED: Final[dict[str, Any]] = {
    "status": JobStatus.RUNNING,
    "attempt_count": 3,
    "lease_token": OTHER_TOKEN,
    "lease_until": seconds_after(60),
    "worker_id": "worker-2",
}

WITNESSES: Final = (
    Witness(CLAIM_QUEUED, QUEUED, CLAIM, {**_GRANTED, "started_at": NOW}),
    Witness(CLAIM_RUNNING, LOST, CLAIM, _GRANTED),
    Witness(COMPLETES, RUNNING, COMPLETE, _ended(JobStatus.SUCCEEDED, None)),
    Witness(RETRIES, RUNNING, FAIL, {**_NO_LEASE, "status": JobStatus.QUEUED, "available_at": RETRY_AT}),
    Witness(
        RETRIES_EXCUSED,
        LAST_TRY,
        FAIL_ENVIRONMENT,
        {**_NO_LEASE, "status": JobStatus.QUEUED, "available_at": RETRY_AT, "excused_count": 2},
    ),
    Witness(FAILS, RUNNING, FAIL_PERMANENT, _ended(JobStatus.FAILED, ErrorCode.RESULT_TOO_LARGE)),
    Witness(FAILS_SPENT, LAST_TRY, FAIL, _ended(JobStatus.FAILED, ErrorCode.INTERNAL_ERROR)),
    Witness(FAILS_LATE, RUNNING, FAIL_LATE, _ended(JobStatus.FAILED, ErrorCode.DEADLINE_EXCEEDED)),
    Witness(
        RELEASES,
        replace(RUNNING, available_at=seconds_after(-20)),
        RELEASE,
        {**_NO_LEASE, "status": JobStatus.QUEUED, "available_at": NOW, "excused_count": 2},
    ),
    Witness(
        EXPIRES_QUEUED,
        QUEUED,
        at_deadline(EXPIRE),
        _ended(JobStatus.FAILED, ErrorCode.DEADLINE_EXCEEDED, DEADLINE),
    ),
    Witness(
        EXPIRES_QUEUED_SPENT,
        replace(QUEUED, attempt_count=4),
        EXPIRE,
        _ended(JobStatus.FAILED, ErrorCode.ATTEMPTS_EXHAUSTED),
    ),
    Witness(
        EXPIRES_RUNNING,
        RUNNING,
        at_deadline(EXPIRE),
        _ended(JobStatus.FAILED, ErrorCode.DEADLINE_EXCEEDED, DEADLINE),
    ),
    Witness(EXPIRES_RUNNING_SPENT, LOST_LAST_TRY, EXPIRE, _ended(JobStatus.FAILED, ErrorCode.ATTEMPTS_EXHAUSTED)),
    Witness(CANCELS_QUEUED, QUEUED, CANCEL, _ended(JobStatus.CANCELLED, ErrorCode.CANCELLED)),
    Witness(CANCELS_RUNNING, RUNNING, CANCEL, _ended(JobStatus.CANCELLED, ErrorCode.CANCELLED)),
    Witness(REMOVES, SUCCEEDED, REMOVE_RESULT, {}),
    Witness(
        REQUEUES,
        FAILED,
        REQUEUE,
        {
            "status": JobStatus.QUEUED,
            "available_at": NOW,
            "deadline_at": seconds_after(60, DEADLINE),
            "max_attempts": 5,  # three were used, two are granted
            "finished_at": None,
            "last_error_code": None,
        },
    ),
)


class Refused(Struct, frozen=True):
    """A refusal by its type, and the condition that its sentence names."""

    kind: type[ProtocolRefusal]
    condition: str


class Falsified(Struct, frozen=True):
    """A job and an event for which one condition of the row does not hold and every other one does, and what follows:
    a refusal, or another row of the same event.
    """  # noqa: D205 - one sentence

    row: str
    condition: str
    job: ExportJob
    event: Event
    follows: Refused | str


_STALE: Final = Refused(NotHolding, "holds")


def _not_holding(row: str, job: ExportJob, event: Complete | Fail | Release) -> tuple[Falsified, ...]:
    beyond = seconds_after(LONGEST.total_seconds() + 0.001)
    return (
        Falsified(row, "holds", job, replace(event, lease_token=OTHER_TOKEN), _STALE),
        Falsified(row, "holds", replace(job, lease_until=event.now), event, _STALE),
        Falsified(row, "holds", replace(job, lease_until=beyond), event, _STALE),
    )


FALSIFIED: Final = (
    Falsified(
        CLAIM_QUEUED,
        "is_available",
        replace(QUEUED, available_at=seconds_after(0.001)),
        CLAIM,
        Refused(GuardRefused, "is_available"),
    ),
    Falsified(CLAIM_QUEUED, "before_deadline", QUEUED, at_deadline(CLAIM), Refused(GuardRefused, "before_deadline")),
    Falsified(CLAIM_QUEUED, "has_budget", replace(QUEUED, attempt_count=4), CLAIM, Refused(GuardRefused, "has_budget")),
    Falsified(CLAIM_RUNNING, "lease_is_dead", RUNNING, CLAIM, Refused(GuardRefused, "lease_is_dead")),
    Falsified(CLAIM_RUNNING, "before_deadline", RUNNING, at_deadline(CLAIM), Refused(GuardRefused, "before_deadline")),
    Falsified(CLAIM_RUNNING, "has_budget", LOST_LAST_TRY, CLAIM, Refused(GuardRefused, "has_budget")),
    *_not_holding(COMPLETES, RUNNING, COMPLETE),
    Falsified(
        COMPLETES,
        "staged_is_complete",
        RUNNING,
        replace(COMPLETE, found=PART),
        Refused(GuardRefused, "staged_is_complete"),
    ),
    Falsified(
        COMPLETES,
        "staged_is_complete",
        RUNNING,
        replace(COMPLETE, found=None),
        Refused(GuardRefused, "staged_is_complete"),
    ),
    *_not_holding(RETRIES, RUNNING, FAIL),
    Falsified(RETRIES, "is_transient", RUNNING, FAIL_ENVIRONMENT, RETRIES_EXCUSED),
    Falsified(RETRIES, "is_transient", RUNNING, FAIL_PERMANENT, FAILS),
    Falsified(RETRIES, "has_budget", LAST_TRY, FAIL, FAILS_SPENT),
    Falsified(RETRIES, "retry_fits", RUNNING, FAIL_LATE, FAILS_LATE),
    *_not_holding(RETRIES_EXCUSED, RUNNING, FAIL_ENVIRONMENT),
    Falsified(RETRIES_EXCUSED, "is_environment", RUNNING, FAIL, RETRIES),
    Falsified(RETRIES_EXCUSED, "retry_fits", RUNNING, replace(FAIL_ENVIRONMENT, retry_ends_at=DEADLINE), FAILS_LATE),
    *_not_holding(FAILS, RUNNING, FAIL_PERMANENT),
    Falsified(FAILS, "is_permanent", RUNNING, FAIL, RETRIES),
    *_not_holding(FAILS_SPENT, LAST_TRY, FAIL),
    Falsified(FAILS_SPENT, "is_transient", LAST_TRY, FAIL_ENVIRONMENT, RETRIES_EXCUSED),
    Falsified(FAILS_SPENT, "budget_is_spent", RUNNING, FAIL, RETRIES),
    *_not_holding(FAILS_LATE, RUNNING, FAIL_LATE),
    *_not_holding(RELEASES, RUNNING, RELEASE),
    Falsified(EXPIRES_QUEUED, "deadline_has_passed", QUEUED, EXPIRE, Refused(GuardRefused, "deadline_has_passed")),
    Falsified(EXPIRES_QUEUED_SPENT, "budget_is_spent", QUEUED, at_deadline(EXPIRE), EXPIRES_QUEUED),
    Falsified(
        EXPIRES_RUNNING,
        "lease_is_dead",
        replace(RUNNING, lease_until=seconds_after(1, DEADLINE)),
        at_deadline(EXPIRE),
        Refused(GuardRefused, "lease_is_dead"),
    ),
    Falsified(EXPIRES_RUNNING, "deadline_has_passed", LOST, EXPIRE, Refused(GuardRefused, "deadline_has_passed")),
    Falsified(EXPIRES_RUNNING_SPENT, "lease_is_dead", LAST_TRY, EXPIRE, Refused(GuardRefused, "lease_is_dead")),
    Falsified(EXPIRES_RUNNING_SPENT, "budget_is_spent", LOST, at_deadline(EXPIRE), EXPIRES_RUNNING),
    Falsified(
        REQUEUES,
        "new_deadline_is_ahead",
        FAILED,
        replace(REQUEUE, deadline_at=NOW),
        Refused(GuardRefused, "new_deadline_is_ahead"),
    ),
    Falsified(
        REQUEUES, "grants_attempts", FAILED, replace(REQUEUE, attempts=0), Refused(GuardRefused, "grants_attempts")
    ),
)
