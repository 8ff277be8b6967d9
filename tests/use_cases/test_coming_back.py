"""An honest Retry-After: whoever obeys it gets in soon. In virtual time, on the real store.

The steady load is 70 % of what can be done: a worker finishes two exports a second, one new export a second is asked
for, and every 200 seconds a crowd of 80 comes at once to a queue that holds 40. So about half of each crowd is refused,
and so are those who come while the queue is full.
"""

from datetime import timedelta
from hashlib import sha256
from heapq import heappop, heappush
from typing import Final

import pytest
from msgspec.structs import replace

from domain.account import User
from domain.admission import spread
from domain.errors import AdmissionRefused
from domain.instants import Instant, between, later
from domain.use_cases.work import Holder, holder_of
from tests.fakes import START, ManualClock
from tests.use_cases.bench import PERMANENT, Bench

MAX_PENDING: Final = 40
EACH: Final = timedelta(seconds=0.5)
STEADY: Final = timedelta(seconds=1)
CROWD: Final = 80
BETWEEN_CROWDS: Final = timedelta(seconds=200)
TRIALS: Final = 100
# Longer than any run that is not broken.
LONGEST: Final = timedelta(hours=1)


class Crowds:
    """A queue under the steady load, and how often each client who was refused had to come back."""

    def __init__(self, bench: Bench, clock: ManualClock, owner: User, *, seed: int) -> None:
        self._bench = bench
        self._clock = clock
        self._owner = owner
        self._seed = seed
        self._draws = self._clients = 0
        self._running: Holder | None = None
        # When, which client (0 is the worker), and how often that one was refused.
        self._agenda: list[tuple[Instant, int, int]] = [(START, 0, 0)]
        # Of each client who was refused, in that order: how often they came back, and None while they are out.
        self._tries: dict[int, int | None] = {}

    @property
    def trials(self) -> list[int | None]:
        """How often the first clients who were refused came back; None for those who are still out."""
        return list(self._tries.values())[:TRIALS]

    async def run(self) -> None:
        """Let time pass until as many clients were refused as there are trials, and all of them are in."""
        steady_at = START
        # By then the rate has been measured.
        crowd_at = later(START, BETWEEN_CROWDS)
        while len(self.trials) < TRIALS or None in self.trials:
            at, client, refused = heappop(self._agenda)
            assert between(START, at) < LONGEST
            self._clock.advance(between(self._clock.now(), at))
            if client == 0:
                await self._work()
                heappush(self._agenda, (later(at, EACH), 0, 0))
            else:
                await self._ask(client, refused)
            if at >= steady_at:
                # Evenly on average, each at a moment of its own.
                self._arrive(later(at, STEADY * self._chance()))
                steady_at = later(steady_at, STEADY)
            if at >= crowd_at:
                for _ in range(CROWD):
                    self._arrive(at)
                crowd_at = later(crowd_at, BETWEEN_CROWDS)

    def _arrive(self, at: Instant) -> None:
        self._clients += 1
        heappush(self._agenda, (at, self._clients, 0))

    async def _ask(self, client: int, refused: int) -> None:
        try:
            await self._bench.enqueue(self._owner, f"client {client}")
        except AdmissionRefused as refusal:
            self._tries.setdefault(client, None)
            wait = spread(refusal.retry_after, jitter=self._chance())
            heappush(self._agenda, (later(self._clock.now(), wait), client, refused + 1))
        else:
            if refused:
                self._tries[client] = refused

    async def _work(self) -> None:
        if self._running is not None:
            await self._bench.fail(self._running, PERMANENT)
        job = await self._bench.try_to_claim()
        self._running = None if job is None else holder_of(job)

    def _chance(self) -> float:
        self._draws += 1
        digest = sha256(f"{self._seed} {self._draws}".encode()).digest()
        return int.from_bytes(digest[:6]) / (1 << 48)


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_whoever_obeys_retry_after_gets_in_at_the_first_or_second_try(
    bench: Bench, clock: ManualClock, owner: User, seed: int
) -> None:
    """Of a hundred clients who were refused, at least ninety are accepted when they come back once or twice."""
    admission = replace(bench.policies.admission, max_pending=MAX_PENDING)
    bench.policies = replace(bench.policies, admission=admission)
    crowds = Crowds(bench, clock, owner, seed=seed)
    await crowds.run()
    soon = [tries for tries in crowds.trials if tries in {1, 2}]
    assert len(soon) >= 90, crowds.trials
