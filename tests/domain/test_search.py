"""Every schedule of a small world: two workers, a clock that also jumps back, lost workers, people who interfere.

Nothing is drawn at random. From the enqueued job on, every event is tried in every state that can be reached, through
the same functions that the service runs, and what must hold is asserted of each state and of each step. That a search
which finds nothing would find something is shown with protocols that are broken on purpose.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Final

import pytest
from msgspec import Struct
from msgspec.structs import replace

from domain.errors import ProtocolRefusal
from domain.events import Cancel, Claim, Complete, Event, Expire, Fail, Held, Release, RemoveResult, Requeue
from domain.export import ErrorCode, ExportJob, Failure, FailureKind, GoneReason, JobStatus, LeaseToken, Staged
from domain.instants import Instant
from domain.lifecycle import Transition, advance, enqueue
from tests.domain.witnesses import ENQUEUE

# The bounds. A tick is a millisecond.
WORKERS: Final = ("a", "b")
LEASE: Final = 2
LONGEST: Final = 3
BACKOFF: Final = 1
TRY: Final = 1
DEADLINE: Final = 4
ATTEMPTS: Final = 2
LAST_TICK: Final = 5
CLOCK_STEPS: Final = (1, -4)
MOST_CLAIMS: Final = 3
WHOLE: Final = Staged(1, 1, 1, 1)
# Nothing but the removal of a result happens to these any more, whatever the time.
FINAL: Final = (JobStatus.SUCCEEDED, JobStatus.CANCELLED)

Advance = Callable[[ExportJob, Event], Transition]


class Grant(Struct, frozen=True):
    """What a worker believes to hold: it forgets nothing before its next claim, whatever became of the job."""

    attempt: int
    token: LeaseToken


class World(Struct, frozen=True):
    """Everything that decides what can happen next."""

    now: Instant
    job: ExportJob
    grants: tuple[Grant | None, ...] = (None,) * len(WORKERS)
    requeued: bool = False
    removed: bool = False
    committed: int | None = None


class Step(Struct, frozen=True):
    """One thing that happened: an event that went through, or the clock."""

    before: World
    event: Event | None
    after: World


def span(ticks: int) -> timedelta:
    """Return that many ticks as a duration."""
    return timedelta(milliseconds=ticks)


def first_world() -> World:
    """Return the world just after the request was accepted."""
    job = enqueue(replace(ENQUEUE, now=Instant(0), deadline_at=Instant(DEADLINE), max_attempts=ATTEMPTS)).after
    return World(Instant(0), job)


def events_in(world: World) -> Iterator[tuple[int | None, Event]]:
    """Yield everything that anybody could do now, with the worker that does it where it is one."""
    now = world.now
    longest = span(LONGEST)
    if world.job.attempt_count < MOST_CLAIMS:
        token = LeaseToken(f"token-{world.job.attempt_count + 1}")
        for number, worker in enumerate(WORKERS):
            yield (
                number,
                Claim(now=now, worker_id=worker, lease_token=token, lease=span(LEASE), longest_lease=longest),
            )
    for number, grant in enumerate(world.grants):
        if grant is not None:
            is_current = grant.attempt == world.job.attempt_count
            yield from ((number, event) for event in writes_of(grant, now, longest, is_current=is_current))
    yield None, Expire(now=now, longest_lease=longest)
    yield None, Cancel(now=now, actor="owner")
    yield None, RemoveResult(now=now, actor="owner", reason=GoneReason.DELETED)
    if not world.requeued:
        deadline = Instant(now + DEADLINE)
        yield None, Requeue(now=now, actor="operator", reason="mended", attempts=1, deadline_at=deadline)


def writes_of(grant: Grant, now: Instant, longest: timedelta, *, is_current: bool) -> Iterator[Held]:
    """Yield everything that the holder of a grant could write; of a stale one, one of each kind."""
    for found in (WHOLE, None) if is_current else (WHOLE,):
        yield Complete(now=now, lease_token=grant.token, longest_lease=longest, expected=WHOLE, found=found)
    for kind in FailureKind if is_current else (FailureKind.TRANSIENT,):
        yield Fail(
            now=now,
            lease_token=grant.token,
            longest_lease=longest,
            failure=Failure(kind, ErrorCode.INTERNAL_ERROR, "KeyError"),
            retry_at=Instant(now + BACKOFF),
            retry_ends_at=Instant(now + BACKOFF + TRY),
        )
    yield Release(now=now, lease_token=grant.token, longest_lease=longest)


def steps_from(world: World, step_by: Advance, refused: Counter[str]) -> Iterator[Step]:
    """Yield every step that is possible from here; count the refusals."""
    for ticks in CLOCK_STEPS:
        if world.job.status not in FINAL and 0 <= world.now + ticks <= LAST_TICK:
            yield Step(world, None, replace(world, now=Instant(world.now + ticks)))
    for number, event in events_in(world):
        try:
            taken = step_by(world.job, event)
        except ProtocolRefusal as refusal:
            refused[f"{event.name} {world.job.status.value}, {refusal.rule}"] += 1
            continue
        yield Step(world, event, world_after(world, number, event, taken.after))


def world_after(world: World, number: int | None, event: Event, job: ExportJob) -> World:
    """Return the world once the step was saved and its worker has heard of it."""
    grants = list(world.grants)
    if isinstance(event, Claim) and number is not None:
        grants[number] = Grant(job.attempt_count, event.lease_token)
    committed = world.committed
    if isinstance(event, Complete) and number is not None:
        committed = next(grant.attempt for grant in grants[number : number + 1] if grant is not None)
    return replace(
        world,
        job=job,
        grants=tuple(grants),
        requeued=world.requeued or isinstance(event, Requeue),
        removed=world.removed or isinstance(event, RemoveResult),
        committed=committed,
    )


def check_state(world: World) -> None:
    """Assert what must hold of any state."""
    job = world.job
    runs = job.status is JobStatus.RUNNING
    assert (job.lease_token is not None) is runs
    assert (job.lease_until is not None) is runs
    assert 0 <= job.excused_count <= job.attempt_count
    assert job.attempt_count - job.excused_count <= job.max_attempts
    assert (job.finished_at is not None) is job.status.is_terminal
    assert (world.committed is not None) is (job.status is JobStatus.SUCCEEDED)
    assert job.lease_until is None or job.lease_until <= job.deadline_at


def check_step(step: Step) -> None:
    """Assert what must hold of any single step."""
    before, after, event = step.before.job, step.after.job, step.event
    if event is None:
        return
    assert after.version == before.version + 1
    assert after.attempt_count == before.attempt_count + isinstance(event, Claim)
    excuses = isinstance(event, Release) or (isinstance(event, Fail) and event.failure.kind is FailureKind.ENVIRONMENT)
    is_excused = excuses and after.status is JobStatus.QUEUED
    assert after.excused_count == before.excused_count + is_excused
    if before.status.is_terminal and not isinstance(event, Requeue):
        assert (after.status, after.last_error_code) == (before.status, before.last_error_code)
    live = before.lease_until is not None and 0 < before.lease_until - event.now <= LONGEST
    if isinstance(event, Claim):
        assert not live
        assert event.now < before.deadline_at
        assert before.available_at <= event.now or before.status is JobStatus.RUNNING
    if isinstance(event, Held):
        assert live
        assert event.lease_token == f"token-{before.attempt_count}"
    if isinstance(event, Complete):
        assert step.before.committed is None
        assert step.after.committed == before.attempt_count
        assert event.found == event.expected
    if isinstance(event, Fail) and after.status is JobStatus.QUEUED:
        assert after.available_at + TRY < before.deadline_at
    if isinstance(event, Expire):
        assert not live
    if isinstance(event, Requeue):
        assert after.max_attempts - (after.attempt_count - after.excused_count) == event.attempts


def check_way_out(world: World, ways: list[Step]) -> None:
    """Assert that nobody is ever stuck: what can never succeed can be ended, and what can be done can begin."""
    job, names = world.job, {type(step.event) for step in ways if step.event is not None}
    if job.status.is_terminal:
        return
    live = job.lease_until is not None and 0 < job.lease_until - world.now <= LONGEST
    hopeless = world.now >= job.deadline_at or job.attempt_count - job.excused_count >= job.max_attempts
    assert Cancel in names
    assert (Expire in names) is (hopeless and not live)
    if job.attempt_count < MOST_CLAIMS:
        waits = job.status is JobStatus.QUEUED and world.now < job.available_at
        assert (Claim in names) is not (live or hopeless or waits)


def essence(world: World) -> World:
    """Return the world without what decides nothing, so that states that can do the same are one."""
    job = replace(world.job, version=0, started_at=None, finished_at=None, worker_id=None)
    if job.status.is_terminal:
        job = replace(job, available_at=Instant(0), deadline_at=Instant(0))
    # Either worker can do what the other can.
    grants = sorted(world.grants, key=lambda grant: 0 if grant is None else grant.attempt)
    return replace(world, job=job, grants=tuple(grants), now=Instant(0) if job.status in FINAL else world.now)


class Found(Struct, frozen=True):
    """What a search has seen."""

    states: int
    steps: Counter[str]
    refused: Counter[str]


def search(step_by: Advance) -> Found:
    """Try everything in every state that can be reached, breadth first, and assert what must hold."""
    start = first_world()
    seen, ahead = {essence(start)}, deque([start])
    steps: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    while ahead:
        world = ahead.popleft()
        check_state(world)
        ways = list(steps_from(world, step_by, refused))
        check_way_out(world, ways)
        for step in ways:
            check_step(step)
            change = f"{world.job.status.value} -> {step.after.job.status.value}"
            steps[f"{step.event.name if step.event else 'clock'} {change}"] += 1
            if (key := essence(step.after)) not in seen:
                seen.add(key)
                ahead.append(step.after)
    return Found(len(seen), steps, refused)


# What the search must have met for its silence to mean anything.
MET = {
    "claim running -> running",
    "complete running -> succeeded",
    "fail running -> queued",
    "fail running -> failed",
    "release running -> queued",
    "expire queued -> failed",
    "expire running -> failed",
    "cancel queued -> cancelled",
    "cancel running -> cancelled",
    "remove_result succeeded -> succeeded",
    "requeue failed -> queued",
}
REFUSED = {
    "claim running, not: lease is dead",
    "claim running, not: has budget",
    "claim running, not: before deadline",
    "claim queued, not: is available",
    "claim queued, not: before deadline",
    "complete running, not: holds",
    "complete running, not: staged is complete",
    "complete succeeded, no rule leads there",
    "complete cancelled, no rule leads there",
    "complete failed, no rule leads there",
    "complete queued, no rule leads there",
    "fail running, not: holds",
    "release running, not: holds",
    "expire running, not: lease is dead",
    "expire running, not: deadline has passed",
}


def test_no_schedule_of_the_small_world_breaks_the_protocol() -> None:
    """Every state that can be reached is sound, every step is allowed, and nobody is ever stuck."""
    found = search(advance)
    assert MET - set(found.steps) == set()
    assert REFUSED - set(found.refused) == set()
    assert found.states > 5_000
    print(  # noqa: T201 - how far the search went, for who asks pytest with -rP
        f"{found.states:,} states, {found.steps.total():,} steps, {found.refused.total():,} refusals: "
        f"{len(WORKERS)} workers, up to {MOST_CLAIMS} claims, {LAST_TICK} ticks, the clock going by {CLOCK_STEPS}"
    )


# ── Protocols that are broken on purpose ──────────────────────────────────────────────────────────────────────────────


def forget_the_end_of_the_lease(job: ExportJob, event: Event) -> Transition:
    """Let a holder write after its lease."""
    if isinstance(event, Held) and job.lease_until is not None:
        return advance(job, replace(event, now=Instant(min(event.now, job.lease_until - 1))))
    return advance(job, event)


def believe_any_token(job: ExportJob, event: Event) -> Transition:
    """Let a stale worker write while another one holds the job."""
    if isinstance(event, Held) and job.lease_token is not None:
        return advance(job, replace(event, lease_token=job.lease_token))
    return advance(job, event)


def believe_a_lease_from_the_future(job: ExportJob, event: Event) -> Transition:
    """Let a clock that jumped back freeze a job."""
    if isinstance(event, Held | Claim | Expire):
        return advance(job, replace(event, longest_lease=span(1_000)))
    return advance(job, event)


def claim_over_a_live_lease(job: ExportJob, event: Event) -> Transition:
    """Let two workers hold one job."""
    if isinstance(event, Claim) and job.lease_until is not None:
        return advance(replace(job, lease_until=event.now), event)
    return advance(job, event)


def take_back_a_lost_attempt(job: ExportJob, event: Event) -> Transition:
    """Count a second claim as the same attempt."""
    step = advance(job, event)
    if isinstance(event, Claim) and job.status is JobStatus.RUNNING:
        return Transition(job, replace(step.after, attempt_count=job.attempt_count), step.entry)
    return step


def keep_the_token(job: ExportJob, event: Event) -> Transition:
    """Leave the lease in a job that has ended."""
    step = advance(job, event)
    kept = replace(step.after, lease_token=job.lease_token, lease_until=job.lease_until)
    return Transition(job, kept, step.entry) if isinstance(event, Cancel) else step


def excuse_every_failure(job: ExportJob, event: Event) -> Transition:
    """Try a broken job for ever."""
    if isinstance(event, Fail) and event.failure.kind is FailureKind.TRANSIENT:
        return advance(job, replace(event, failure=Failure(FailureKind.ENVIRONMENT, None, "StoreBusy")))
    return advance(job, event)


def retry_what_cannot_be_done_in_time(job: ExportJob, event: Event) -> Transition:
    """Ask only whether the next try could begin before the deadline."""
    if isinstance(event, Fail):
        return advance(job, replace(event, retry_ends_at=event.retry_at))
    return advance(job, event)


def claim_what_has_ended(job: ExportJob, event: Event) -> Transition:
    """Run a cancelled job again."""
    if isinstance(event, Claim) and job.status is JobStatus.CANCELLED:
        return advance(replace(job, status=JobStatus.QUEUED), event)
    return advance(job, event)


def outlive_the_deadline(job: ExportJob, event: Event) -> Transition:
    """Grant every lease at its full length."""
    step = advance(job, event)
    if isinstance(event, Claim):
        return Transition(job, replace(step.after, lease_until=Instant(event.now + LEASE)), step.entry)
    return step


def ignore_the_deadline(job: ExportJob, event: Event) -> Transition:
    """Claim a job that nobody waits for any more."""
    if isinstance(event, Claim):
        return advance(replace(job, deadline_at=Instant(1_000)), event)
    return advance(job, event)


def never_expire_the_exhausted(job: ExportJob, event: Event) -> Transition:
    """Leave a job whose attempts were all lost where it is."""
    if isinstance(event, Expire):
        return advance(replace(job, max_attempts=1_000), event)
    return advance(job, event)


def commit_a_part(job: ExportJob, event: Event) -> Transition:
    """Take the worker's word for what the store holds."""
    if isinstance(event, Complete):
        return advance(job, replace(event, found=event.expected))
    return advance(job, event)


def requeue_without_a_budget(job: ExportJob, event: Event) -> Transition:
    """Count what was used before against the new budget."""
    step = advance(job, event)
    if isinstance(event, Requeue):
        return Transition(job, replace(step.after, max_attempts=job.max_attempts), step.entry)
    return step


@pytest.mark.parametrize(
    "broken",
    [
        forget_the_end_of_the_lease,
        believe_any_token,
        believe_a_lease_from_the_future,
        claim_over_a_live_lease,
        take_back_a_lost_attempt,
        keep_the_token,
        excuse_every_failure,
        retry_what_cannot_be_done_in_time,
        claim_what_has_ended,
        outlive_the_deadline,
        ignore_the_deadline,
        never_expire_the_exhausted,
        commit_a_part,
        requeue_without_a_budget,
    ],
    ids=lambda broken: broken.__name__,
)
def test_the_search_finds_a_protocol_that_is_broken(broken: Advance) -> None:
    """Each of these mistakes, however rarely it matters, is met and told."""
    with pytest.raises(AssertionError):
        search(broken)
