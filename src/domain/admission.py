"""Which new exports are accepted, and when whoever was refused should ask again: arithmetic over what was measured.

What is accepted is what can be finished. All limits stand in one policy, and a refusal names the one that was reached.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from msgspec import Struct

from domain.errors import AdmissionRefused, QueueFull, QueueTooOld, QuotaExceeded, StorageBudgetReached

# How far back completions are counted: long enough to see several of them, short enough to notice within a minute that
# the workers have gone.
DRAIN_WINDOW: Final = timedelta(minutes=1)
# Nobody is asked to come back sooner than in a second, nor sent away for longer than it takes to start a worker.
SHORTEST_WAIT: Final = timedelta(seconds=1)
LONGEST_WAIT: Final = timedelta(minutes=5)
# What a queue says nothing about: bytes are given back by expiry, by deletion, or by an operator.
STORAGE_WAIT: Final = timedelta(minutes=1)
# The longest that an owner who watches an accepted export should wait before looking again.
LONGEST_WATCH: Final = timedelta(seconds=15)


class AdmissionPolicy(Struct, frozen=True, kw_only=True):
    """Up to where new exports are accepted. `assumed` is how long one takes while nothing has been measured."""

    max_pending: int
    oldest_age: timedelta
    max_database_bytes: int
    min_free_bytes: int
    active_per_owner: int
    assumed: timedelta


class Drained(Struct, frozen=True):
    """How many exports workers brought to an end, in how long a time."""

    ended_count: int
    over: timedelta


class QueueLoad(Struct, frozen=True, kw_only=True):
    """What one transaction saw. `pending_count` may have been counted no further than one past the limit.

    `oldest_age` is that of the job which has been available for longest. `database_bytes` are in use, `free_bytes` are
    left on the volume.
    """

    pending_count: int
    oldest_age: timedelta
    drained: Drained
    database_bytes: int
    free_bytes: int


_LIMITS: Final[
    tuple[tuple[str, type[AdmissionRefused], Callable[[QueueLoad, AdmissionPolicy], bool], timedelta | None], ...]
] = (
    ("max_pending", QueueFull, lambda load, policy: load.pending_count >= policy.max_pending, None),
    ("oldest_age_seconds", QueueTooOld, lambda load, policy: load.oldest_age > policy.oldest_age, None),
    (
        "max_database_bytes",
        StorageBudgetReached,
        lambda load, policy: load.database_bytes >= policy.max_database_bytes,
        STORAGE_WAIT,
    ),
    (
        "min_free_bytes",
        StorageBudgetReached,
        lambda load, policy: load.free_bytes < policy.min_free_bytes,
        STORAGE_WAIT,
    ),
)


def admit(load: QueueLoad, policy: AdmissionPolicy) -> AdmissionRefused | None:
    """Return why a new export is not accepted now; None when it is. The first limit that was reached is named."""
    for name, refusal, is_reached, stated in _LIMITS:
        if is_reached(load, policy):
            return refusal(limit=name, retry_after=stated or wait_after_refusal(load, policy))
    return None


def over_quota(load: QueueLoad, policy: AdmissionPolicy) -> QuotaExceeded:
    """Return the refusal of an owner who has as many active exports as one owner may have."""
    return QuotaExceeded(limit="active_per_owner", retry_after=wait_after_refusal(load, policy))


def wait_after_refusal(load: QueueLoad, policy: AdmissionPolicy) -> timedelta:
    """Return when to ask again: once half of what waits is done, within bounds.

    Half, and not the one place that would do: everybody who was refused comes back, and finds that many places.
    """
    return _bounded(time_for(load.pending_count / 2, load.drained, policy), LONGEST_WAIT)


def wait_for_status(ahead_count: int, drained: Drained, age: timedelta, policy: AdmissionPolicy) -> timedelta:
    """Return when to look at an accepted export again, within bounds: once what was there before it is done.

    And not before a quarter of its age has passed again: an export that has waited for a minute is not helped by a
    question a second.
    """
    return _bounded(max(time_for(ahead_count, drained, policy), age / 4), LONGEST_WATCH)


def time_for(count: float, drained: Drained, policy: AdmissionPolicy) -> timedelta:
    """Return how long so many exports take at the measured rate; at the assumed one while nothing has been measured."""
    each = drained.over / drained.ended_count if drained.ended_count else policy.assumed
    return each * count


def most_ahead(drained: Drained, policy: AdmissionPolicy) -> int:
    """Return how many waiting exports are worth counting for `wait_for_status`: more of them change nothing."""
    each = time_for(1, drained, policy)
    return policy.max_pending if not each else min(policy.max_pending, LONGEST_WATCH // each + 1)


def spread(wait: timedelta, *, jitter: float) -> timedelta:
    """Return a longer wait, at most doubled, by `jitter` in [0, 1): who was refused together comes back apart."""
    return wait * (1 + jitter)


def _bounded(wait: timedelta, longest: timedelta) -> timedelta:
    return min(max(wait, SHORTEST_WAIT), longest)
