"""Who waits how long, in virtual time: the real queue in the real store, and workers that take a second an export."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from heapq import heappop, heappush
from statistics import mean
from typing import Final

import pytest
from msgspec import Struct
from msgspec.structs import replace

from adapters.sqlite.store import SqliteStore
from domain.account import OwnerId, User
from domain.events import Complete
from domain.export import ExportJob, JobId, LeaseToken, Staged
from domain.instants import Instant, between, later
from domain.lifecycle import advance
from domain.policies import LeasePolicy, Policies
from domain.ports import UnitOfWork
from domain.use_cases.accounts import add_user
from domain.use_cases.work import claim_export
from tests.builders import HOUR, an_enqueue
from tests.fakes import START, ManualClock, SequentialRandomness

SECOND: Final = 1000
EXPORT: Final = timedelta(seconds=1)
QUEUED_BY_THE_GREEDY: Final = 10_000
NEIGHBOURS: Final = 5
# Each neighbour asks for one in ten seconds: less than their part of a single worker, with the greedy one beside them.
PAUSE: Final = 10 * SECOND
ASKED: Final = 10
WHOLE: Final = Staged(chunk_count=1, byte_count=1, row_count=1, payload_byte_count=1)


class Ask(Struct, frozen=True, order=True):
    """A neighbour asks for one export."""

    at: Instant
    number: int
    owner_id: OwnerId


class World:
    """A queue, and workers that are free or busy until some instant."""

    def __init__(self, store: SqliteStore, clock: ManualClock, lease: LeasePolicy, *, workers: int) -> None:
        self._store = store
        self._clock = clock
        self._lease = lease
        self._workers = workers
        self._busy: list[tuple[Instant, JobId]] = []

    async def run(self, asks: Sequence[Ask]) -> dict[OwnerId, list[int]]:
        """Let the owners ask when they do; return how long each waited for each file, in milliseconds."""
        pending = sorted(asks, reverse=True)
        asked: dict[JobId, Ask] = {}
        waits: dict[OwnerId, list[int]] = defaultdict(list)
        now = START
        while pending or asked:
            self._clock.step(between(self._clock.now(), now))
            ended = [heappop(self._busy)[1] for _ in range(sum(at <= now for at, _ in self._busy))]
            arrived = [pending.pop() for _ in range(sum(ask.at <= now for ask in pending))]
            asked |= {job_of(ask): ask for ask in arrived}
            free = self._workers - len(self._busy)
            for job in await self._store.write(pass_instant, ended, arrived, free=free, lease=self._lease):
                heappush(self._busy, (later(now, EXPORT), job.id))
            for job_id in asked.keys() & set(ended):
                ask = asked.pop(job_id)
                waits[ask.owner_id].append(now - ask.at)
            now = min([*(at for at, _ in self._busy), *(ask.at for ask in pending[-1:])], default=now)
        return waits


def job_of(ask: Ask) -> JobId:
    """Return the id of the export that is asked for."""
    return an_enqueue(ask.owner_id, ask.number).after.id


def pass_instant(
    uow: UnitOfWork, ended: Sequence[JobId], arrived: Sequence[Ask], *, free: int, lease: LeasePolicy
) -> list[ExportJob]:
    """Complete what is done, accept what is asked for, and let the free workers claim; return what they claimed."""
    for job_id in ended:
        job = uow.exports.get(job_id)
        assert job is not None
        assert job.lease_token is not None
        done = Complete(
            now=uow.now, lease_token=job.lease_token, longest_lease=lease.longest_lease, expected=WHOLE, found=WHOLE
        )
        uow.exports.save(advance(job, done))
    for ask in arrived:
        uow.exports.save(an_enqueue(ask.owner_id, ask.number, now=uow.now, deadline_at=Instant(uow.now + 99 * HOUR)))
    claims = (
        claim_export(uow, worker_id=f"worker-{number}", lease_token=LeaseToken(f"token-{number}"), lease=lease)
        for number in range(free)
    )
    return [job for job in claims if job is not None]


def queue_many(uow: UnitOfWork, owner_id: OwnerId) -> None:
    """Ask for ten thousand exports at once."""
    for number in range(1, QUEUED_BY_THE_GREEDY + 1):
        uow.exports.save(an_enqueue(owner_id, number, deadline_at=Instant(START + 99 * HOUR)))


def asks_of(owners: Sequence[User], randomness: SequentialRandomness) -> list[Ask]:
    """Return what the neighbours ask for: each once in every pause, somewhere in it."""
    return [
        Ask(
            Instant(START + SECOND + turn * PAUSE + round(randomness.fraction() * (PAUSE - SECOND))),
            QUEUED_BY_THE_GREEDY + turn * len(owners) + place + 1,
            owner.id,
        )
        for turn in range(ASKED)
        for place, owner in enumerate(owners)
    ]


class Case(Struct, frozen=True):
    """How many workers there are, how many of them one owner may have, and where among the owners the greedy one is."""

    workers: int
    running_per_owner: int
    greedy_is: str


CASES: Final = (Case(1, 2, "first"), Case(1, 2, "last"), Case(2, 2, "first"), Case(2, 1, "last"), Case(4, 2, "first"))


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_greedy_owner_makes_nobody_wait_more_than_twice_as_long(
    store: SqliteStore, clock: ManualClock, policies: Policies, case: Case
) -> None:
    """With ten thousand exports of one owner queued, each neighbour's mean and longest wait at most double.

    A wait is from the request to the file. Among equals the first owner has the precedence, and is tried as the greedy
    one and as a neighbour.
    """
    lease = replace(policies.lease, running_per_owner=case.running_per_owner)
    names = [f"neighbour {number}" for number in range(NEIGHBOURS)]
    names.insert(0 if case.greedy_is == "first" else NEIGHBOURS, "greedy")
    owners = {name: await store.write(add_user, name) for name in names}
    greedy = owners.pop("greedy")
    asks = asks_of(list(owners.values()), SequentialRandomness())
    alone = await World(store, clock, lease, workers=case.workers).run(asks)
    clock.step(between(clock.now(), START))
    await store.write(queue_many, greedy.id)
    again = [replace(ask, number=ask.number + QUEUED_BY_THE_GREEDY) for ask in asks]
    beside = await World(store, clock, lease, workers=case.workers).run(again)
    assert {len(waits) for waits in (*alone.values(), *beside.values())} == {ASKED}
    longer = {
        name: (mean(beside[owner.id]) / mean(alone[owner.id]), max(beside[owner.id]) / max(alone[owner.id]))
        for name, owner in owners.items()
    }
    assert {name: ratios for name, ratios in longer.items() if max(ratios) > 2} == {}
    # With fewer workers than the greedy owner could take, somebody does wait longer.
    assert (max(max(ratios) for ratios in longer.values()) > 1) is (case.workers <= case.running_per_owner)
