"""Events: what can happen to an export, each with the instants, tokens and lengths that the protocol decides by."""

from datetime import timedelta
from typing import ClassVar

from domain.account import OwnerId
from domain.discreet import Discreet
from domain.export import Failure, GoneReason, JobId, LeaseToken, Staged
from domain.instants import Instant


class Event(Discreet, frozen=True, kw_only=True):
    """Something that happens to a job at an instant of database time."""

    shown: ClassVar[tuple[str, ...]] = ("now",)
    name: ClassVar[str]
    now: Instant


class Enqueue(Event, frozen=True, kw_only=True):
    """An owner's request was admitted; (owner, key) is new."""

    name: ClassVar[str] = "enqueue"
    job_id: JobId
    owner_id: OwnerId
    request_key: str
    parameters_json: str
    parameters_digest: str
    deadline_at: Instant
    max_attempts: int
    request_id: str | None = None
    traceparent: str | None = None


class Claim(Event, frozen=True, kw_only=True):
    """A worker takes the job under a fresh lease."""

    name: ClassVar[str] = "claim"
    worker_id: str
    lease_token: LeaseToken
    lease: timedelta
    longest_lease: timedelta


class Held(Event, frozen=True, kw_only=True):
    """An event that only the holder of the current lease may cause."""

    name: ClassVar[str] = "write to"
    lease_token: LeaseToken
    longest_lease: timedelta


class Complete(Held, frozen=True, kw_only=True):
    """The attempt is done: `expected` is what its worker staged, `found` what the store holds of it."""

    name: ClassVar[str] = "complete"
    expected: Staged
    found: Staged | None


class Fail(Held, frozen=True, kw_only=True):
    """The attempt failed; the next one, if there is one, could start at `retry_at` and be done at `retry_ends_at`."""

    name: ClassVar[str] = "fail"
    failure: Failure
    retry_at: Instant
    retry_ends_at: Instant


class Release(Held, frozen=True, kw_only=True):
    """The worker is draining and cannot finish in time: it gives the job back."""

    name: ClassVar[str] = "release"


class Expire(Event, frozen=True, kw_only=True):
    """Someone noticed that the job can never succeed any more."""

    name: ClassVar[str] = "expire"
    longest_lease: timedelta


class Cancel(Event, frozen=True, kw_only=True):
    """The owner or an operator does not want the file any more."""

    name: ClassVar[str] = "cancel"
    actor: str
    reason: str | None = None


class RemoveResult(Event, frozen=True, kw_only=True):
    """The result of a succeeded export can no longer be read: deleted by its owner, or past its time."""

    name: ClassVar[str] = "remove_result"
    actor: str
    reason: GoneReason


class Requeue(Event, frozen=True, kw_only=True):
    """An operator sends a dead letter back after its cause was corrected, with a new budget and deadline."""

    name: ClassVar[str] = "requeue"
    actor: str
    reason: str
    attempts: int
    deadline_at: Instant
