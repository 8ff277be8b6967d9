"""Arithmetic that the protocol is tuned with, and the one table that says what a failure means."""

from datetime import timedelta
from hashlib import sha256
from typing import Final

from msgspec import Struct

from domain.admission import AdmissionPolicy
from domain.errors import (
    EnvironmentFailure,
    InvalidParameters,
    OwnerDisabled,
    OwnershipViolation,
    Refusal,
    ResultTooLarge,
)
from domain.export import ErrorCode, Failure, FailureKind
from domain.instants import Instant, later
from domain.rate import RatePolicy


class LeasePolicy(Struct, frozen=True):
    """How long a claim holds, and how many one owner's jobs can be under lease at a time.

    `longest_lease` bounds what any process may grant, so that a clock which jumped back cannot freeze a job: a lease
    that seems to run longer than that is dead.
    """

    lease: timedelta
    longest_lease: timedelta
    running_per_owner: int


class RetryPolicy(Struct, frozen=True):
    """When a failed attempt is tried again: floor, doubled with every attempt up to the cap, plus jitter.

    `attempt` is how long one is expected to take: no try is worth waiting for that could not be done in time.
    """

    max_attempts: int
    floor: timedelta
    cap: timedelta
    attempt: timedelta

    def delay(self, attempt: int, *, jitter: float) -> timedelta:
        """Return the backoff after the given attempt (1-based), made longer by up to a half.

        `jitter` is a number in [0, 1) drawn by the caller. It only ever adds: jobs that failed together come back
        apart, and none earlier than the floor allows.
        """
        # 2³² floors are beyond any cap; the bound keeps the product within what `timedelta` holds.
        doublings = min(max(attempt - 1, 0), 32)
        backoff = min(self.cap, self.floor * (1 << doublings))
        return backoff * (1 + jitter / 2)


class BreakerPolicy(Struct, frozen=True):
    """When a worker takes its surroundings for broken: after how many failures in a row, and how long it then pauses.

    The pause is doubled with every trial that fails, up to the longest.
    """

    failures: int
    pause: timedelta
    longest_pause: timedelta


class Breaker(Struct, frozen=True):
    """A worker's circuit breaker. Closed, it lets every claim through; open, one trial after each pause.

    Times are seconds of the worker's monotonic clock. Whatever is neither a failure of the surroundings nor a success
    leaves it as it is.
    """

    policy: BreakerPolicy
    failure_count: int = 0
    next_trial_at: float = 0.0

    @property
    def is_open(self) -> bool:
        """Tell whether the last failures in a row were enough to stop claiming."""
        return self.failure_count >= self.policy.failures

    def lets_through(self, now: float) -> bool:
        """Tell whether a claim may be tried."""
        return not self.is_open or now >= self.next_trial_at

    def failed(self, now: float, *, jitter: float) -> "Breaker":
        """Return the breaker after one more failure of the surroundings; `jitter` in [0, 1) only adds to the pause."""
        failures = self.failure_count + 1
        # 2³² pauses are beyond any limit; the bound keeps the product within what `timedelta` holds.
        doublings = min(max(failures - self.policy.failures, 0), 32)
        pause = min(self.policy.longest_pause, self.policy.pause * (1 << doublings)) * (1 + jitter / 2)
        return Breaker(self.policy, failures, now + pause.total_seconds())

    def succeeded(self) -> "Breaker":
        """Return the breaker after a success: closed."""
        return Breaker(self.policy)


class DeadlinePolicy(Struct, frozen=True):
    """How long an export is worth doing: what is assumed, and what a request may ask for."""

    default: timedelta
    shortest: timedelta
    longest: timedelta


class ResultPolicy(Struct, frozen=True):
    """What a result may be, and how long it can be read."""

    max_rows: int
    max_bytes: int
    retention: timedelta

    def expires_at(self, now: Instant) -> Instant:
        """Return the instant until which a result that is committed now can be read."""
        return later(now, self.retention)


class MaintenancePolicy(Struct, frozen=True):
    """How long one holder maintains, and how long what is over is kept.

    `longest_lease` is to the lease of maintenance what it is to a claim's. `download` is the time that a download which
    began before its result expired has to finish. `retention` is how long an export's row, its history and an
    idempotency key are kept after their end.
    """

    lease: timedelta
    longest_lease: timedelta
    download: timedelta
    retention: timedelta


class Policies(Struct, frozen=True):
    """All of them, as one deployment is configured."""

    lease: LeasePolicy
    retry: RetryPolicy
    breaker: BreakerPolicy
    deadline: DeadlinePolicy
    result: ResultPolicy
    maintenance: MaintenancePolicy
    admission: AdmissionPolicy
    requests: RatePolicy


# First match wins; what no row matches is a defect of ours. The rows are exhaustive by that last line.
_FAILURES: Final[tuple[tuple[type[BaseException], FailureKind, ErrorCode | None], ...]] = (
    (OwnershipViolation, FailureKind.PERMANENT, ErrorCode.OWNERSHIP_VIOLATION),
    (InvalidParameters, FailureKind.PERMANENT, ErrorCode.INVALID_PARAMETERS),
    (OwnerDisabled, FailureKind.PERMANENT, ErrorCode.OWNER_DISABLED),
    (ResultTooLarge, FailureKind.PERMANENT, ErrorCode.RESULT_TOO_LARGE),
    (EnvironmentFailure, FailureKind.ENVIRONMENT, None),
    (BaseException, FailureKind.TRANSIENT, ErrorCode.INTERNAL_ERROR),
)
# The gravest first: what ends the export, what uses its budget, what excuses the attempt.
_GRAVITY: Final = (FailureKind.PERMANENT, FailureKind.TRANSIENT, FailureKind.ENVIRONMENT)


def classify(error: BaseException) -> Failure:
    """Return what an attempt's exception means for the job. Total: an unknown defect is a bounded transient failure.

    A group is what its gravest member is: other work may have failed beside it, but no retry mends that one.
    """
    cause = gravest(error)
    _, kind, code = _FAILURES[_row_of(cause)]
    evidence = evidence_of(cause)
    return Failure(kind, code, evidence.error_class, evidence.fingerprint, evidence.message)


def gravest(error: BaseException) -> BaseException:
    """Return the exception itself, or of a group the gravest member at any depth; the first of several such."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    members: list[BaseException] = []
    pending: list[BaseException] = [error]
    while pending:
        found = pending.pop()
        if isinstance(found, BaseExceptionGroup):
            pending.extend(reversed(found.exceptions))
        else:
            members.append(found)
    return min(members, key=lambda member: (_GRAVITY.index(_FAILURES[_row_of(member)][1]), _row_of(member)))


def _row_of(error: BaseException) -> int:
    return next(row for row, (cause, _, _) in enumerate(_FAILURES) if isinstance(error, cause))


# ── Evidence ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_INNERMOST: Final = 8
_LONGEST_MESSAGE: Final = 500


class Evidence(Struct, frozen=True):
    """What operators get to see of an exception: its class, where it came from, and a fingerprint of both.

    `where` names the innermost places, the raising one last. `message` is there only when the exception is one of our
    refusals, whose sentences quote no one's data; any other text can hold a task, a token or a secret.
    """

    error_class: str
    fingerprint: str
    where: tuple[str, ...]
    message: str | None


def evidence_of(error: BaseException) -> Evidence:
    """Return what may be kept and told of an exception. The values of its variables are never looked at."""
    names: list[str] = []
    lines: list[int] = []
    step = error.__traceback__
    while step is not None:
        frame = step.tb_frame
        names.append(f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_name}")
        lines.append(step.tb_lineno)
        step = step.tb_next
    error_class = type(error).__qualname__
    # Without line numbers, so that the same defect keeps its fingerprint over releases.
    spelled = "\n".join([error_class, *names])
    places = [f"{name}:{line}" for name, line in zip(names, lines, strict=True)]
    return Evidence(
        error_class=error_class,
        fingerprint=sha256(spelled.encode()).hexdigest()[:12],
        where=tuple(places[-_INNERMOST:]),
        message=str(error)[:_LONGEST_MESSAGE] if isinstance(error, Refusal) else None,
    )
