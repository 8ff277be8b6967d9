"""The lease of maintenance, and the clocks by which it deletes."""

from datetime import timedelta
from typing import Final

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from domain.errors import NotMaintaining
from domain.export import LeaseToken
from domain.instants import Instant, later
from domain.maintenance import (
    MOST_DISAGREEMENT,
    ClockReading,
    MaintenanceGrant,
    clocks_agree,
    disagreement,
    next_grant,
    require_maintaining,
)
from domain.policies import MaintenancePolicy
from tests.builders import a_grant
from tests.fakes import START

POLICY: Final = MaintenancePolicy(
    lease=timedelta(minutes=1),
    longest_lease=timedelta(minutes=2),
    download=timedelta(hours=1),
    retention=timedelta(days=30),
)
FRESH: Final = LeaseToken("fresh")


def asked(last: MaintenanceGrant | None, now: int) -> MaintenanceGrant | None:
    """Return what another worker is granted."""
    return next_grant(last, Instant(now), worker_id="worker-2", lease_token=FRESH, policy=POLICY)


def may_write(last: MaintenanceGrant | None, presented: MaintenanceGrant, now: int) -> bool:
    """Tell whether the fence lets the presenter through."""
    try:
        require_maintaining(last, presented, Instant(now), POLICY.longest_lease)
    except NotMaintaining:
        return False
    return True


def test_a_lease_that_nobody_had_is_granted_with_the_first_number() -> None:
    """For as long as a lease is."""
    assert asked(None, START) == MaintenanceGrant(
        number=1, worker_id="worker-2", lease_token=FRESH, lease_until=later(START, POLICY.lease)
    )


def test_a_live_lease_is_granted_to_nobody_and_a_dead_one_under_the_next_number() -> None:
    """To the millisecond of its end; its own holder has to wait as well."""
    grant = a_grant(7)
    assert asked(grant, grant.lease_until - 1) is None
    made = asked(grant, grant.lease_until)
    assert made is not None
    assert made.number == 8


def test_a_lease_that_no_one_can_have_granted_is_dead() -> None:
    """After a clock was set back, one that seems to last for longer than the longest freezes nothing."""
    grant = a_grant(lease_until=later(START, POLICY.longest_lease))
    assert asked(grant, START) is None
    assert may_write(grant, grant, START)
    assert asked(grant, START - 1) is not None
    assert not may_write(grant, grant, START - 1)


def test_only_the_last_grant_may_write_and_only_while_it_is_live() -> None:
    """An older number, another token, and no grant at all are refused, and so is the right one once it is over."""
    grant = a_grant(3)
    assert may_write(grant, grant, grant.lease_until - 1)
    assert not may_write(grant, grant, grant.lease_until)
    for presented in (a_grant(2), a_grant(4), replace(grant, lease_token=FRESH), replace(grant, number=2)):
        assert not may_write(grant, presented, START)
    assert not may_write(None, grant, START)


def test_a_grant_shows_no_token() -> None:
    """Whoever prints it."""
    assert "token" not in repr(a_grant())


@pytest.mark.parametrize("direction", [1, -1])
def test_clocks_agree_up_to_a_minute(direction: int) -> None:
    """Whichever of the two is ahead; a minute to the millisecond is agreement, one millisecond more is not."""
    start = ClockReading(START, 100.0)
    for over, agrees in ((timedelta(), True), (timedelta(milliseconds=1), False)):
        jumped = later(START, timedelta(seconds=30) + direction * (MOST_DISAGREEMENT + over))
        assert clocks_agree(start, ClockReading(jumped, 130.0)) is agrees


@given(
    passed=st.integers(min_value=0, max_value=10**9),
    jump=st.integers(min_value=-(10**12), max_value=10**12),
)
def test_the_disagreement_is_what_the_wall_clock_jumped(passed: int, jump: int) -> None:
    """However much time passed meanwhile, by both clocks."""
    later_reading = ClockReading(Instant(START + passed + jump), passed / 1000)
    found = disagreement(ClockReading(START, 0.0), later_reading)
    assert abs(found - timedelta(milliseconds=jump)) < timedelta(milliseconds=1)
