"""Maintenance is done by one holder at a time, under a lease of its own, and by clocks that agree.

Any worker may hold the lease. It is granted when nobody holds it, it is not renewed, and each grant has a fresh token
and a number that is higher by one: the fencing number. Every write of maintenance presents the grant and *holds*, in
the transaction that writes. Whoever slept past its lease deletes nothing.

What maintenance deletes, it deletes because time has passed. The wall clock alone can be wrong about that, so each look
at it is held against the monotonic clock of the same process: where the two disagree about how much time has passed,
nothing is deleted by them.
"""

from datetime import timedelta
from typing import ClassVar, Final

from msgspec import Struct

from domain.discreet import Discreet
from domain.errors import NotMaintaining
from domain.export import LeaseToken
from domain.instants import Instant, later
from domain.policies import MaintenancePolicy

# Slewing and leap seconds stay far below this, and a wrong date or zone is far above.
MOST_DISAGREEMENT: Final = timedelta(minutes=1)


class MaintenanceGrant(Discreet, frozen=True, kw_only=True):
    """One grant of the lease: who maintains, until when, and the secret and the number by which it is known."""

    shown: ClassVar[tuple[str, ...]] = ("number", "worker_id", "lease_until")
    number: int
    worker_id: str
    lease_token: LeaseToken
    lease_until: Instant


def is_live(grant: MaintenanceGrant, now: Instant, longest_lease: timedelta) -> bool:
    """Tell whether a grant is in force: not over, and not longer than any lease may be."""
    return now < grant.lease_until <= later(now, longest_lease)


def next_grant(
    last: MaintenanceGrant | None, now: Instant, *, worker_id: str, lease_token: LeaseToken, policy: MaintenancePolicy
) -> MaintenanceGrant | None:
    """Return what is granted to the worker that asks, or None while the last grant is live, whoever holds it."""
    if last is not None and is_live(last, now, policy.longest_lease):
        return None
    return MaintenanceGrant(
        number=1 if last is None else last.number + 1,
        worker_id=worker_id,
        lease_token=lease_token,
        lease_until=later(now, policy.lease),
    )


def require_maintaining(
    last: MaintenanceGrant | None, presented: MaintenanceGrant, now: Instant, longest_lease: timedelta
) -> None:
    """Check the fence: `presented` is the last grant, by its number and its token, and it is live.

    Raises:
        NotMaintaining: the lease is over, or another worker was granted it since.
    """
    if (
        last is None
        or (last.number, last.lease_token) != (presented.number, presented.lease_token)
        or not is_live(last, now, longest_lease)
    ):
        raise NotMaintaining(f"grant {presented.number} of the maintenance lease is not in force any more")


class ClockReading(Struct, frozen=True):
    """One look at both clocks of a process: the wall clock's instant, and the seconds of the monotonic one."""

    now: Instant
    monotonic: float


def disagreement(earlier: ClockReading, later_reading: ClockReading) -> timedelta:
    """Return by how much more time has passed between two looks by the wall clock than by the monotonic one."""
    by_wall = timedelta(milliseconds=later_reading.now - earlier.now)
    return by_wall - timedelta(seconds=later_reading.monotonic - earlier.monotonic)


def clocks_agree(earlier: ClockReading, later_reading: ClockReading) -> bool:
    """Tell whether both clocks saw the same time pass between two looks, give or take a minute.

    A machine that was suspended disagrees too, where its monotonic clock stood still meanwhile.
    """
    return abs(disagreement(earlier, later_reading)) <= MOST_DISAGREEMENT
