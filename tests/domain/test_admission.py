"""Which exports are accepted, and when whoever was refused should come back."""

from datetime import timedelta
from typing import Final

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from domain.admission import (
    LONGEST_WAIT,
    LONGEST_WATCH,
    SHORTEST_WAIT,
    STORAGE_WAIT,
    AdmissionPolicy,
    Drained,
    QueueLoad,
    admit,
    most_ahead,
    over_quota,
    spread,
    time_for,
    wait_after_refusal,
    wait_for_status,
)
from domain.errors import AdmissionRefused, QueueFull, QueueTooOld, StorageBudgetReached

SECOND: Final = timedelta(seconds=1)
MINUTE: Final = timedelta(minutes=1)
POLICY: Final = AdmissionPolicy(
    max_pending=100,
    oldest_age=15 * MINUTE,
    max_database_bytes=1_000_000,
    min_free_bytes=50_000,
    active_per_owner=10,
    assumed=2 * SECOND,
)
# One export a second; nothing is near its limit.
LOAD: Final = QueueLoad(
    pending_count=0,
    oldest_age=timedelta(),
    drained=Drained(60, MINUTE),
    database_bytes=0,
    free_bytes=10**9,
)
IDLE: Final = Drained(0, MINUTE)

loads: Final = st.builds(
    QueueLoad,
    pending_count=st.integers(0, 10**6),
    oldest_age=st.timedeltas(timedelta(), timedelta(days=30)),
    drained=st.builds(Drained, st.integers(0, 10**6), st.timedeltas(timedelta(milliseconds=1), MINUTE)),
    database_bytes=st.integers(0, 2_000_000),
    free_bytes=st.integers(0, 100_000),
)
jitters: Final = st.floats(0, 1, exclude_max=True)


# ── The limits ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("member", "last_good", "first_bad", "refusal", "limit"),
    [
        ("pending_count", 99, 100, QueueFull, "max_pending"),
        ("oldest_age", 15 * MINUTE, 15 * MINUTE + timedelta(milliseconds=1), QueueTooOld, "oldest_age_seconds"),
        ("database_bytes", 999_999, 1_000_000, StorageBudgetReached, "max_database_bytes"),
        ("free_bytes", 50_000, 49_999, StorageBudgetReached, "min_free_bytes"),
    ],
)
def test_each_limit_is_reached_at_its_value_and_names_itself(
    member: str, last_good: object, first_bad: object, refusal: type[AdmissionRefused], limit: str
) -> None:
    """One less is accepted; there it is refused, with the limit's name."""
    assert admit(replace(LOAD, **{member: last_good}), POLICY) is None
    found = admit(replace(LOAD, **{member: first_bad}), POLICY)
    assert type(found) is refusal
    assert found.limit == limit


def test_an_owner_over_quota_is_told_so() -> None:
    """The refusal names the owner's own limit."""
    assert over_quota(LOAD, POLICY).limit == "active_per_owner"


@given(loads)
def test_what_is_refused_is_over_a_limit_and_what_is_over_a_limit_is_refused(load: QueueLoad) -> None:
    """And a wait that any refusal states lies within the bounds."""
    refusal = admit(load, POLICY)
    assert (refusal is None) == (
        load.pending_count < 100
        and load.oldest_age <= 15 * MINUTE
        and load.database_bytes < 1_000_000
        and load.free_bytes >= 50_000
    )
    if refusal is not None:
        assert SHORTEST_WAIT <= refusal.retry_after <= LONGEST_WAIT


# ── When to come back ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("pending_count", "drained", "wait"),
    [
        (100, Drained(60, MINUTE), 50 * SECOND),
        (100, Drained(600, MINUTE), 5 * SECOND),
        (100, Drained(30, MINUTE), 100 * SECOND),
        (100, IDLE, 100 * SECOND),
        (100, Drained(10, MINUTE), LONGEST_WAIT),
        (0, Drained(60, MINUTE), SHORTEST_WAIT),
        (100, Drained(60_000, MINUTE), SHORTEST_WAIT),
    ],
)
def test_a_full_queue_is_asked_again_when_half_of_it_is_done(
    pending_count: int, drained: Drained, wait: timedelta
) -> None:
    """At the measured rate, else at the assumed one; within the bounds."""
    load = replace(LOAD, pending_count=pending_count, drained=drained)
    assert wait_after_refusal(load, POLICY) == wait
    assert over_quota(load, POLICY).retry_after == wait


def test_storage_is_asked_again_after_a_fixed_time() -> None:
    """Whatever waits: the queue says nothing about when bytes are given back."""
    refusal = admit(replace(LOAD, pending_count=7, database_bytes=10**6), POLICY)
    assert refusal is not None
    assert refusal.retry_after == STORAGE_WAIT


@given(loads, st.integers(1, 10**6))
def test_more_that_waits_never_makes_the_wait_shorter(load: QueueLoad, more: int) -> None:
    """At the same rate."""
    fuller = replace(load, pending_count=load.pending_count + more)
    assert wait_after_refusal(fuller, POLICY) >= wait_after_refusal(load, POLICY)


@given(st.timedeltas(timedelta(milliseconds=1), timedelta(days=1)), jitters)
def test_jitter_only_adds_and_at_most_doubles(wait: timedelta, jitter: float) -> None:
    """Nobody comes back before the wait is over."""
    assert wait <= spread(wait, jitter=jitter) <= 2 * wait


def test_jitter_spreads_evenly() -> None:
    """A hundred clients that were refused together come back in a hundred different moments."""
    moments = {spread(MINUTE, jitter=number / 100) for number in range(100)}
    assert len(moments) == 100
    assert (min(moments), max(moments)) == (MINUTE, MINUTE * 1.99)


@pytest.mark.parametrize(
    ("ahead_count", "drained", "age", "wait"),
    [
        (0, Drained(60, MINUTE), timedelta(), SHORTEST_WAIT),
        (5, Drained(60, MINUTE), timedelta(), 5 * SECOND),
        (5, IDLE, timedelta(), 10 * SECOND),
        (500, Drained(60, MINUTE), timedelta(), LONGEST_WATCH),
        (0, Drained(60, MINUTE), 20 * SECOND, 5 * SECOND),
        (0, Drained(60, MINUTE), timedelta(days=1), LONGEST_WATCH),
    ],
)
def test_an_accepted_export_is_looked_at_when_what_was_before_it_is_done(
    ahead_count: int, drained: Drained, age: timedelta, wait: timedelta
) -> None:
    """And no more often than four times in its age; within bounds."""
    assert wait_for_status(ahead_count, drained, age, POLICY) == wait


@given(loads)
def test_counting_no_further_than_matters_changes_no_answer(load: QueueLoad) -> None:
    """A count that was cut off gives the same wait as the whole."""
    cut = min(load.pending_count, most_ahead(load.drained, POLICY))
    limited = min(load.pending_count, POLICY.max_pending)
    assert wait_for_status(cut, load.drained, timedelta(), POLICY) == wait_for_status(
        limited, load.drained, timedelta(), POLICY
    )


def test_nothing_takes_no_time_where_none_is_assumed() -> None:
    """An assumed duration of zero is a setting, and no division."""
    policy = replace(POLICY, assumed=timedelta())
    assert time_for(10, IDLE, policy) == timedelta()
    assert most_ahead(IDLE, policy) == policy.max_pending
