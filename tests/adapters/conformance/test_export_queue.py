"""`ExportQueue`: what a claim is offered, and in which order owners are served."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from domain.account import OwnerId, User
from domain.events import Cancel, Claim, Event, Expire, Fail, Release
from domain.export import ErrorCode, ExportJob, Failure, FailureKind, JobId, JobStatus, LeaseToken
from domain.instants import Instant, later
from domain.lifecycle import advance, lease_is_live
from domain.ports import Bulkhead, Store, UnitOfWork
from tests.adapters.conformance.steps import save_all
from tests.builders import HOUR, an_enqueue, an_id
from tests.fakes import START, ManualClock, SequentialRandomness

LEASE: Final = timedelta(minutes=1)
LONGEST: Final = timedelta(minutes=2)
TOKEN: Final = LeaseToken("the-lease-token")
RUNNING_LIMIT: Final = 2


def offered_in(uow: UnitOfWork, *, limit: int = 8, running_limit: int = RUNNING_LIMIT) -> list[ExportJob]:
    """Return what a claim would be offered."""
    return uow.queue.candidates(longest_lease_until=later(uow.now, LONGEST), running_limit=running_limit, limit=limit)


async def offered(store: Store, *, limit: int = 8, running_limit: int = RUNNING_LIMIT) -> list[str]:
    """Return the ids of the jobs that a claim would be offered, best first."""
    return [job.id for job in await store.write(offered_in, limit=limit, running_limit=running_limit)]


def has_candidates_in(uow: UnitOfWork, *, running_limit: int = RUNNING_LIMIT) -> bool:
    """Tell whether a claim would be offered something."""
    return uow.queue.has_candidates(longest_lease_until=later(uow.now, LONGEST), running_limit=running_limit)


def apply(uow: UnitOfWork, job_id: JobId, event: Callable[[Instant], Event]) -> ExportJob:
    """Let something happen to the job now."""
    job = uow.exports.get(job_id)
    assert job is not None
    step = advance(job, event(uow.now))
    uow.exports.save(step)
    return step.after


def claiming(now: Instant) -> Claim:
    """Return a claim for a minute."""
    return Claim(now=now, worker_id="worker-1", lease_token=TOKEN, lease=LEASE, longest_lease=LONGEST)


def failing(now: Instant) -> Fail:
    """Return a failure that is tried again after ten seconds."""
    failure = Failure(FailureKind.TRANSIENT, ErrorCode.INTERNAL_ERROR, "ZeroDivisionError")
    retry_at = later(now, timedelta(seconds=10))
    return Fail(
        now=now,
        lease_token=TOKEN,
        longest_lease=LONGEST,
        failure=failure,
        retry_at=retry_at,
        retry_ends_at=later(retry_at, timedelta(seconds=1)),
    )


def releasing(now: Instant) -> Release:
    """Return the giving back of a job."""
    return Release(now=now, lease_token=TOKEN, longest_lease=LONGEST)


def cancelling(now: Instant) -> Cancel:
    """Return the end that an owner wants."""
    return Cancel(now=now, actor="owner")


def serve(uow: UnitOfWork) -> OwnerId | None:
    """Claim the best candidate, let its attempt end at once, and return whose it was."""
    jobs = offered_in(uow)
    if not jobs:
        return None
    apply(uow, jobs[0].id, claiming)
    apply(uow, jobs[0].id, cancelling)
    return jobs[0].owner_id


async def served(store: Store, times: int) -> list[OwnerId | None]:
    """Return whose jobs the next claims take."""
    return [await store.write(serve) for _ in range(times)]


async def wait_in_line(store: Store, owner: User, numbers: Sequence[int]) -> None:
    """Enqueue jobs of the owner, all at one instant."""
    await store.write(save_all, *(an_enqueue(owner.id, number) for number in numbers))


async def test_an_empty_queue_offers_nothing(store: Store) -> None:
    """No candidate, and the look that takes no lock says so."""
    assert await offered(store) == []
    assert not await store.read(Bulkhead.OPERATIONS, has_candidates_in)


async def test_a_job_is_offered_from_its_enqueue_to_its_claim(store: Store, owner: User) -> None:
    """Queued it is a candidate; under a live lease it is not."""
    await wait_in_line(store, owner, [1])
    assert await offered(store) == [an_id(1)]
    await store.write(apply, JobId(an_id(1)), claiming)
    assert await offered(store) == []


@pytest.mark.parametrize("ending", [cancelling, lambda now: Expire(now=now, longest_lease=LONGEST)])
async def test_a_job_that_ended_is_not_offered(
    store: Store, owner: User, clock: ManualClock, ending: Callable[[Instant], Event]
) -> None:
    """Neither before nor after its old deadline."""
    await store.write(save_all, an_enqueue(owner.id, 1, deadline_at=Instant(START + 1)))
    clock.advance(timedelta(milliseconds=1))
    await store.write(apply, JobId(an_id(1)), ending)
    assert await offered(store) == []
    clock.advance(timedelta(hours=2))
    assert await offered(store) == []


async def test_an_owners_oldest_job_comes_first(store: Store, owner: User) -> None:
    """Within a turn the order is that of creation, and of ids where that is equal; one job of each owner at a time."""
    created = {1: 9, 2: 5, 3: 5}
    await store.write(
        save_all, *(an_enqueue(owner.id, number, now=Instant(START - at)) for number, at in created.items())
    )
    for number in (1, 2, 3):
        assert await offered(store, running_limit=9) == [an_id(number)]
        await store.write(apply, JobId(an_id(number)), claiming)


@pytest.mark.parametrize("ending", [releasing, failing, cancelling])
async def test_an_owner_at_the_limit_of_running_jobs_is_passed_over(
    store: Store, owner: User, neighbour: User, ending: Callable[[Instant], Event]
) -> None:
    """Whatever such an owner has waiting, others are served; once one of the running jobs ended the next is offered."""
    await wait_in_line(store, owner, range(1, 6))
    for number in (1, 2):
        assert await offered(store) == [an_id(number)]
        await store.write(apply, JobId(an_id(number)), claiming)
    assert await offered(store) == []
    assert not await store.read(Bulkhead.OPERATIONS, has_candidates_in)
    await wait_in_line(store, neighbour, range(6, 7))
    assert await offered(store) == [an_id(6)]
    await store.write(apply, JobId(an_id(2)), ending)
    assert {job.owner_id for job in await store.write(offered_in)} == {owner.id, neighbour.id}


async def test_a_dead_lease_is_claimed_again_whatever_its_owner_has_running(
    store: Store, owner: User, clock: ManualClock
) -> None:
    """The job has its place among the running ones already: the limit does not keep it, and it is counted once."""
    await wait_in_line(store, owner, range(1, 4))
    for number in (1, 2):
        await store.write(apply, JobId(an_id(number)), claiming)
    clock.advance(LEASE)
    assert sorted(await offered(store)) == [an_id(1), an_id(2)]
    for number in (1, 2):
        await store.write(apply, JobId(an_id(number)), claiming)
    assert await offered(store) == []
    await store.write(apply, JobId(an_id(1)), cancelling)
    assert await offered(store) == [an_id(3)]


async def test_the_limit_is_that_of_the_process_that_asks(store: Store, owner: User) -> None:
    """Nothing of it is stored: with another setting the next claim goes by that one."""
    await wait_in_line(store, owner, range(1, 4))
    await store.write(apply, JobId(an_id(1)), claiming)
    assert await offered(store, running_limit=1) == []
    assert not await store.read(Bulkhead.OPERATIONS, has_candidates_in, running_limit=1)
    assert await offered(store, running_limit=2) == [an_id(2)]
    assert await store.read(Bulkhead.OPERATIONS, has_candidates_in, running_limit=2)


async def test_owners_take_turns_whatever_one_of_them_has_queued(store: Store, owner: User, neighbour: User) -> None:
    """Someone with a hundred jobs in front of a neighbour with three is served once for each time of the neighbour."""
    await wait_in_line(store, owner, range(1, 101))
    await wait_in_line(store, neighbour, range(201, 204))
    order = await served(store, 6)
    assert Counter(order) == {owner.id: 3, neighbour.id: 3}
    assert all(Counter(order[place : place + 2]) == {owner.id: 1, neighbour.id: 1} for place in (0, 2, 4))
    assert await served(store, 3) == [owner.id] * 3


async def test_neighbours_with_one_job_wait_for_one_round(store: Store, owner: User) -> None:
    """With ten neighbours behind a hundred jobs of one owner, eleven claims serve everyone."""
    neighbours = await store.write(lambda uow: [uow.users.add(f"neighbour {number}") for number in range(10)])
    await wait_in_line(store, owner, range(1, 101))
    for number, someone in enumerate(neighbours, 201):
        await wait_in_line(store, someone, [number])
    assert Counter(await served(store, 11)) == dict.fromkeys([owner.id, *(someone.id for someone in neighbours)], 1)


async def test_a_newcomer_waits_for_no_backlog(store: Store, owner: User, neighbour: User) -> None:
    """Whoever comes while another has been served many times is served among the next two."""
    await wait_in_line(store, owner, range(1, 101))
    await served(store, 50)
    await wait_in_line(store, neighbour, [201])
    assert neighbour.id in await served(store, 2)


async def test_whoever_pauses_gains_nothing(store: Store, owner: User, neighbour: User) -> None:
    """Turns that were not used are not saved up: after a pause the two alternate again."""
    await wait_in_line(store, owner, range(1, 101))
    await wait_in_line(store, neighbour, [201])
    await served(store, 40)
    await wait_in_line(store, neighbour, range(202, 222))
    order = await served(store, 20)
    assert all(Counter(order[place : place + 2]) == {owner.id: 1, neighbour.id: 1} for place in range(0, 20, 2))


async def test_whoever_was_alone_owes_nothing(store: Store, owner: User, neighbour: User) -> None:
    """Having been served often while nobody waited does not put an owner behind those who come later."""
    await wait_in_line(store, owner, range(1, 41))
    await served(store, 40)
    await wait_in_line(store, owner, [41, 42])
    await wait_in_line(store, neighbour, [201, 202])
    order = await served(store, 4)
    assert all(Counter(order[place : place + 2]) == {owner.id: 1, neighbour.id: 1} for place in (0, 2))


async def test_whoever_comes_while_another_is_at_the_limit_takes_only_turns(
    store: Store, owner: User, neighbour: User
) -> None:
    """An owner who is passed over falls behind all others; who comes then does not begin as far behind."""
    blocked = await store.write(lambda uow: uow.users.add("Cy"))
    await wait_in_line(store, blocked, range(1, 4))
    for number in (1, 2):
        await store.write(apply, JobId(an_id(number)), claiming)
    await wait_in_line(store, owner, range(101, 151))
    assert await served(store, 30) == [owner.id] * 30
    await wait_in_line(store, neighbour, range(201, 221))
    order = await served(store, 20)
    assert all(Counter(order[place : place + 2]) == {owner.id: 1, neighbour.id: 1} for place in range(0, 20, 2))


async def test_whoever_comes_while_another_is_served_comes_before_their_next(
    store: Store, owner: User, neighbour: User
) -> None:
    """Whoever alone has jobs waiting has taken a turn more than anybody who comes then, and whose id is the smaller."""
    await wait_in_line(store, owner, range(101, 151))
    await served(store, 3)
    await wait_in_line(store, neighbour, range(201, 204))
    assert await served(store, 4) == [neighbour.id, owner.id] * 2


async def test_whoever_was_at_the_limit_gains_nothing_by_it(store: Store, owner: User, neighbour: User) -> None:
    """Turns that went by while an owner was passed over are not made up for: one at once, and then in turn."""
    await wait_in_line(store, owner, range(1, 11))
    for number in (1, 2):
        await store.write(apply, JobId(an_id(number)), claiming)
    await wait_in_line(store, neighbour, range(101, 151))
    assert await served(store, 30) == [neighbour.id] * 30
    for number in (1, 2):
        await store.write(apply, JobId(an_id(number)), cancelling)
    first, *order = await served(store, 11)
    assert first == owner.id
    assert all(Counter(order[place : place + 2]) == {owner.id: 1, neighbour.id: 1} for place in range(0, 10, 2))


async def test_a_job_in_backoff_is_offered_when_it_is_due_and_not_before(
    store: Store, owner: User, clock: ManualClock
) -> None:
    """One millisecond decides."""
    await wait_in_line(store, owner, [1])
    await store.write(apply, JobId(an_id(1)), claiming)
    await store.write(apply, JobId(an_id(1)), failing)
    clock.advance(timedelta(seconds=10) - timedelta(milliseconds=1))
    assert await offered(store) == []
    clock.advance(timedelta(milliseconds=1))
    assert await offered(store) == [an_id(1)]
    await store.write(apply, JobId(an_id(1)), claiming)
    assert await offered(store) == []


async def test_a_job_in_backoff_keeps_no_younger_job_waiting(store: Store, owner: User) -> None:
    """Its owner's next job is offered meanwhile."""
    await wait_in_line(store, owner, [1, 2])
    await store.write(apply, JobId(an_id(1)), claiming)
    await store.write(apply, JobId(an_id(1)), failing)
    assert await offered(store) == [an_id(2)]


async def test_a_released_job_is_offered_at_once(store: Store, owner: User) -> None:
    """It is its owner's oldest job, so it comes before the younger ones."""
    await wait_in_line(store, owner, [1, 2])
    await store.write(apply, JobId(an_id(1)), claiming)
    await store.write(apply, JobId(an_id(1)), releasing)
    assert await offered(store) == [an_id(1)]


async def test_many_jobs_that_come_due_together_are_all_offered_in_turn(
    store: Store, owner: User, neighbour: User, clock: ManualClock
) -> None:
    """However many leave their backoff at once, claims in a row take every one of them."""
    numbers = range(1, 61)
    await store.write(save_all, *(an_enqueue((owner, neighbour)[number % 2].id, number) for number in numbers))
    for number in numbers:
        await store.write(apply, JobId(an_id(number)), claiming)
        await store.write(apply, JobId(an_id(number)), failing)
    assert await offered(store) == []
    clock.advance(timedelta(seconds=10))
    assert Counter(await served(store, 61)) == {owner.id: 30, neighbour.id: 30, None: 1}


async def test_a_dead_lease_comes_before_everything_that_waits(
    store: Store, owner: User, neighbour: User, clock: ManualClock
) -> None:
    """The lease is over at `lease_until`, not a millisecond earlier; the one that is over longest comes first."""
    await wait_in_line(store, owner, [1, 2])
    await store.write(apply, JobId(an_id(1)), claiming)
    clock.advance(timedelta(milliseconds=1))
    await store.write(apply, JobId(an_id(2)), claiming)
    await wait_in_line(store, neighbour, [3])
    clock.advance(LEASE - timedelta(milliseconds=2))
    assert await offered(store) == [an_id(3)]
    clock.advance(timedelta(milliseconds=1))
    assert await offered(store) == [an_id(1), an_id(3)]
    clock.advance(timedelta(milliseconds=1))
    assert await offered(store) == [an_id(1), an_id(2), an_id(3)]


async def test_a_clock_that_jumped_back_freezes_no_lease(store: Store, owner: User, clock: ManualClock) -> None:
    """A lease that seems to end later than any lease may is dead; one that could be true is live."""
    await wait_in_line(store, owner, [1])
    await store.write(apply, JobId(an_id(1)), claiming)
    clock.step(LEASE - LONGEST)
    assert await offered(store) == []
    clock.step(-timedelta(milliseconds=1))
    assert await offered(store) == [an_id(1)]


async def test_a_clock_that_jumped_back_offers_nothing_that_a_claim_must_refuse(
    store: Store, owner: User, neighbour: User, clock: ManualClock
) -> None:
    """A job that was enqueued later than the clock now shows waits until then, and holds up no one else."""
    await wait_in_line(store, owner, [1])
    clock.step(-timedelta(seconds=5))
    assert await offered(store) == []
    await store.write(save_all, an_enqueue(neighbour.id, 2, now=clock.now()))
    assert await offered(store) == [an_id(2)]
    clock.advance(timedelta(seconds=5))
    assert sorted(await offered(store)) == [an_id(1), an_id(2)]


async def test_candidates_are_as_many_as_asked_for(store: Store, clock: ManualClock) -> None:
    """Dead leases and waiting owners together are no more than the limit, and the best of them are among these."""
    everyone = await store.write(lambda uow: [uow.users.add(f"owner {number}") for number in range(12)])
    for number, someone in enumerate(everyone, 1):
        await wait_in_line(store, someone, [number])
    for number in range(1, 7):
        await store.write(apply, JobId(an_id(number)), claiming)
    clock.advance(LEASE)
    everything = await offered(store, limit=99)
    assert sorted(everything[:6]) == [an_id(number) for number in range(1, 7)]
    assert sorted(everything[6:]) == [an_id(number) for number in range(7, 13)]
    for limit in (1, 5, 8):
        assert await offered(store, limit=limit) == everything[:limit]


# ── Whatever happened before ──────────────────────────────────────────────────────────────────────────────────────────

OWNERS: Final = 3
HAPPENINGS: Final = st.lists(
    st.tuples(
        st.sampled_from(["enqueue", "claim", "fail", "release", "cancel", "pass", "step back"]),
        st.integers(0, 5),
    ),
    max_size=25,
)


def happen(uow: UnitOfWork, jobs: list[JobId], what: str, which: int) -> None:
    """Let something happen to one of the jobs, where the protocol allows it."""
    if not jobs:
        return
    job = uow.exports.get(jobs[which % len(jobs)])
    assert job is not None
    held = job.lease_token is not None and lease_is_live(job, uow.now, LONGEST)
    if what == "claim" and offered_in(uow):
        apply(uow, offered_in(uow)[0].id, claiming)
    elif (what in {"fail", "release"} and held) or (what == "cancel" and not job.status.is_terminal):
        apply(uow, job.id, {"fail": failing, "release": releasing, "cancel": cancelling}[what])


def assert_right_offer(uow: UnitOfWork, jobs: list[JobId]) -> None:
    """Assert that what is offered is what can be taken: an independent selection from all that there is."""
    known = [job for job_id in jobs if (job := uow.exports.get(job_id)) is not None]
    dead = {job.id for job in known if job.status is JobStatus.RUNNING and not lease_is_live(job, uow.now, LONGEST)}
    running = Counter(job.owner_id for job in known if job.status is JobStatus.RUNNING)
    waiting = [
        job
        for job in known
        if job.status is JobStatus.QUEUED and job.available_at <= uow.now and running[job.owner_id] < RUNNING_LIMIT
    ]
    # What is due from backoff counts until a claim has put it in line; the offer is asked for first.
    found = offered_in(uow, limit=99)
    has_candidates = has_candidates_in(uow)
    assert {job.id for job in found[: len(dead)]} == dead
    behind = found[len(dead) :]
    assert {job.id for job in behind} <= {job.id for job in waiting}
    assert {job.owner_id for job in behind} == {job.owner_id for job in waiting}
    assert len(behind) == len({job.owner_id for job in behind})
    assert has_candidates == bool(found)


@given(happenings=HAPPENINGS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_an_offer_is_always_what_can_be_taken(
    store: Store, clock: ManualClock, randomness: SequentialRandomness, happenings: list[tuple[str, int]]
) -> None:
    """After anything that can happen, every dead lease and one job of each owner with available jobs is offered."""
    owners = await store.write(lambda uow: [uow.users.add(randomness.new_secret()).id for _ in range(OWNERS)])
    jobs: list[JobId] = []
    for what, which in happenings:
        if what == "enqueue":
            jobs.append(JobId(randomness.new_id()))
            step = an_enqueue(
                owners[which % OWNERS],
                now=clock.now(),
                job_id=jobs[-1],
                request_key=jobs[-1],
                deadline_at=Instant(clock.now() + 100 * HOUR),
                max_attempts=99,
            )
            await store.write(save_all, step)
        elif what == "pass":
            clock.advance(timedelta(seconds=which * 7))
        elif what == "step back":
            clock.step(-timedelta(seconds=which * 20))
        else:
            await store.write(happen, jobs, what, which)
        await store.write(assert_right_offer, jobs)
    await store.write(end_all, jobs)


def end_all(uow: UnitOfWork, jobs: list[JobId]) -> None:
    """Cancel what has not ended, so that the next example begins with an empty queue."""
    for job_id in jobs:
        job = uow.exports.get(job_id)
        if job is not None and not job.status.is_terminal:
            apply(uow, job_id, cancelling)


# ── What no claim can help any more ───────────────────────────────────────────────────────────────────────────────────


async def hopeless(store: Store, *, limit: int = 9) -> list[str]:
    """Return the ids of the jobs that can never succeed, by the clock of the transaction."""
    found = await store.read(
        Bulkhead.OPERATIONS,
        lambda uow: uow.queue.hopeless(as_of=uow.now, longest_lease_until=later(uow.now, LONGEST), limit=limit),
    )
    return [job.id for job in found]


async def test_a_job_is_hopeless_from_its_deadline_on(store: Store, owner: User, clock: ManualClock) -> None:
    """To the millisecond; whether it waits in line or in backoff, and longest over first."""
    await store.write(save_all, an_enqueue(owner.id, 1), an_enqueue(owner.id, 2, deadline_at=Instant(START + HOUR - 1)))
    await store.write(apply, JobId(an_id(1)), claiming)
    await store.write(apply, JobId(an_id(1)), failing)
    clock.advance(timedelta(milliseconds=HOUR - 2))
    assert await hopeless(store) == []
    clock.advance(timedelta(milliseconds=1))
    assert await hopeless(store) == [an_id(2)]
    clock.advance(timedelta(milliseconds=1))
    assert await hopeless(store) == [an_id(2), an_id(1)]
    assert await hopeless(store, limit=1) == [an_id(2)]


async def test_a_job_is_hopeless_once_its_last_attempt_was_lost(store: Store, owner: User, clock: ManualClock) -> None:
    """Neither while that attempt holds nor before it; a clock that was set back keeps no lost one alive."""
    await store.write(save_all, an_enqueue(owner.id, 1, max_attempts=2))
    await store.write(apply, JobId(an_id(1)), claiming)
    clock.advance(LEASE)
    assert await hopeless(store) == []
    await store.write(apply, JobId(an_id(1)), claiming)
    clock.advance(LEASE - timedelta(milliseconds=1))
    assert await hopeless(store) == []
    clock.advance(timedelta(milliseconds=1))
    assert await hopeless(store) == [an_id(1)]
    clock.step(-LONGEST - timedelta(milliseconds=1))
    assert await hopeless(store) == [an_id(1)]


async def test_a_job_that_ended_is_not_hopeless(store: Store, owner: User, clock: ManualClock) -> None:
    """It has ended."""
    await store.write(save_all, an_enqueue(owner.id, 1))
    await store.write(apply, JobId(an_id(1)), lambda now: Cancel(now=now, actor="owner"))
    clock.advance(timedelta(milliseconds=2 * HOUR))
    assert await hopeless(store) == []
