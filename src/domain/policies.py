"""Arithmetic that the protocol is tuned with, and the one table that says what a failure means."""

from datetime import timedelta
from typing import Final

from msgspec import Struct

from domain.errors import (
    EnvironmentFailure,
    InvalidParameters,
    OwnerDisabled,
    OwnershipViolation,
    ResultTooLarge,
)
from domain.export import ErrorCode, Failure, FailureKind
from domain.instants import Instant, later


class LeasePolicy(Struct, frozen=True):
    """How long a claim holds.

    `longest_lease` bounds what any process may grant, so that a clock which jumped back cannot freeze a job: a lease
    that seems to run longer than that is dead.
    """

    lease: timedelta
    longest_lease: timedelta


class RetryPolicy(Struct, frozen=True):
    """When a failed attempt is tried again: floor, doubled with every attempt up to the cap, plus jitter."""

    max_attempts: int
    floor: timedelta
    cap: timedelta

    def delay(self, attempt: int, *, jitter: float) -> timedelta:
        """Return the backoff after the given attempt (1-based), made longer by up to a half.

        `jitter` is a number in [0, 1) drawn by the caller. It only ever adds: jobs that failed together come back
        apart, and none earlier than the floor allows.
        """
        # 2³² floors are beyond any cap; the bound keeps the product within what `timedelta` holds.
        doublings = min(max(attempt - 1, 0), 32)
        backoff = min(self.cap, self.floor * (1 << doublings))
        return backoff * (1 + jitter / 2)


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


class Policies(Struct, frozen=True):
    """All of them, as one deployment is configured."""

    lease: LeasePolicy
    retry: RetryPolicy
    deadline: DeadlinePolicy
    result: ResultPolicy


# First match wins; what no row matches is a defect of ours. The rows are exhaustive by that last line.
_FAILURES: Final[tuple[tuple[type[BaseException], FailureKind, ErrorCode | None], ...]] = (
    (EnvironmentFailure, FailureKind.ENVIRONMENT, None),
    (InvalidParameters, FailureKind.PERMANENT, ErrorCode.INVALID_PARAMETERS),
    (OwnerDisabled, FailureKind.PERMANENT, ErrorCode.OWNER_DISABLED),
    (OwnershipViolation, FailureKind.PERMANENT, ErrorCode.OWNERSHIP_VIOLATION),
    (ResultTooLarge, FailureKind.PERMANENT, ErrorCode.RESULT_TOO_LARGE),
    (BaseException, FailureKind.TRANSIENT, ErrorCode.INTERNAL_ERROR),
)


def classify(error: BaseException) -> Failure:
    """Return what an attempt's exception means for the job. Total: an unknown defect is a bounded transient failure.

    The detail names the class only. The message of an unexpected exception can quote task text, so it is not kept.
    """
    kind, code = next((kind, code) for cause, kind, code in _FAILURES if isinstance(error, cause))
    return Failure(kind=kind, code=code, detail=type(error).__name__)
