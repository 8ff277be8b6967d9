"""The request rate: what a quota and a window promise, whatever comes when."""

from typing import Final

import pytest
from hypothesis import given, strategies as st

from domain.rate import Allowance, RatePolicy, ask

POLICY: Final = RatePolicy(quota=10, window_seconds=5)
policies: Final = st.builds(RatePolicy, quota=st.integers(1, 50), window_seconds=st.integers(1, 100))
pauses: Final = st.lists(st.floats(0, 30), max_size=150)


def sent(policy: RatePolicy, pauses: list[float], *, begin: float = 1000.0) -> list[tuple[float, Allowance]]:
    """Return what requests find that are sent one after the other, each after its pause."""
    found: list[tuple[float, Allowance]] = []
    now, whole_at = begin, None
    for pause in pauses:
        now += pause
        allowance = ask(whole_at, now, policy)
        whole_at = allowance.whole_at
        found.append((now, allowance))
    return found


def test_a_whole_allowance_lets_the_quota_through_at_once_and_no_more() -> None:
    """What is left counts down to none; the one after that is refused until an interval has passed."""
    found = [allowance for _, allowance in sent(POLICY, [0.0] * 12)]
    assert [allowance.is_granted for allowance in found] == [True] * 10 + [False] * 2
    assert [allowance.remaining for allowance in found] == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0]
    assert found[0].renewed_after_seconds == pytest.approx(0.5)
    assert found[10].retry_after_seconds == pytest.approx(0.5)
    assert found[10].renewed_after_seconds == pytest.approx(5)


def test_after_the_stated_wait_one_more_is_let_through() -> None:
    """And only one: a refused request uses up nothing."""
    *_, (now, refused) = sent(POLICY, [0.0] * 30)
    then = now + refused.retry_after_seconds
    again = ask(refused.whole_at, then, POLICY)
    assert (again.is_granted, again.remaining) == (True, 0)
    assert not ask(again.whole_at, then, POLICY).is_granted


def test_a_window_without_requests_makes_the_allowance_whole() -> None:
    """Longer pauses earn nothing on top."""
    *_, (now, last) = sent(POLICY, [0.0] * 10)
    for pause in (5.0, 500.0):
        assert ask(last.whole_at, now + pause, POLICY).remaining == 9


@given(policies, pauses)
def test_no_stretch_of_time_holds_more_than_the_quota_and_what_grew_in_it(
    policy: RatePolicy, pauses: list[float]
) -> None:
    """Between any two granted requests there are at most `quota` plus one for each interval between them."""
    times = [now for now, allowance in sent(policy, pauses) if allowance.is_granted]
    for first in range(len(times)):
        for last in range(first, len(times)):
            grown = (times[last] - times[first]) / policy.interval
            assert last - first + 1 <= policy.quota + grown + 0.01


@given(policies, pauses)
def test_whoever_keeps_to_the_pace_is_never_refused(policy: RatePolicy, pauses: list[float]) -> None:
    """One request an interval, however late some of them are."""
    kept = [policy.interval + pause for pause in pauses]
    assert all(allowance.is_granted for _, allowance in sent(policy, kept))


@given(policies, pauses)
def test_what_is_told_is_what_happens(policy: RatePolicy, pauses: list[float]) -> None:
    """As many as remain are let through at once, and the next one is not."""
    for now, allowance in sent(policy, pauses)[-1:]:
        whole_at = allowance.whole_at
        for _ in range(allowance.remaining):
            following = ask(whole_at, now, policy)
            assert following.is_granted
            whole_at = following.whole_at
        assert not ask(whole_at, now, policy).is_granted


@given(policies, pauses)
def test_forgetting_whose_allowance_is_whole_changes_nothing(policy: RatePolicy, pauses: list[float]) -> None:
    """Once `whole_at` has passed, a request finds what one by somebody new finds."""
    for _, allowance in sent(policy, pauses)[-1:]:
        then = allowance.whole_at
        assert ask(then, then, policy) == ask(None, then, policy)


@pytest.mark.parametrize(("processes", "quota"), [(1, 10), (2, 5), (3, 3), (20, 1)])
def test_processes_share_the_quota(processes: int, quota: int) -> None:
    """Rounded down, so that together they grant no more; each grants one request at least."""
    assert POLICY.share(processes) == RatePolicy(quota, 5)
