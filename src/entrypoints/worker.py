"""The worker process: claims exports one after another, and processes each in an attempt of its own.

It owns nothing but what its lease token says it owns. When it starts or stops, no row is reset; what a dead worker
held becomes available when its lease ends.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import gethostname
from typing import Final

from structlog.contextvars import bound_contextvars

from domain.errors import EnvironmentFailure
from domain.export import ExportJob, LeaseToken
from domain.policies import Breaker
from domain.ports import Bulkhead, Randomness
from domain.use_cases.work import claim_export, has_work
from entrypoints.attempt import AttemptRun, Outcome, StuckAttemptError
from entrypoints.bootstrap import Application, assemble
from entrypoints.maintenance import Maintenance
from entrypoints.resting import rest
from entrypoints.settings import Settings
from entrypoints.telemetry import LogEvent, configure, evidence_of, logger

log = logger()

# The exit status of a process that cannot stop its own computation (EX_SOFTWARE of sysexits.h).
_EXIT_STUCK: Final = 70


class Worker:
    """Claims and processes until it is told to stop."""

    def __init__(self, app: Application, *, worker_id: str, stopping: asyncio.Event) -> None:
        self._app = app
        self._worker_id = worker_id
        self._stopping = stopping
        self._breaker = Breaker(app.policies.breaker)
        self._maintenance = Maintenance(app, worker_id=worker_id)

    async def run(self) -> None:
        """Work until `stopping` is set and the attempt under way has ended, within the drain time.

        Raises:
            StuckAttemptError: an attempt cannot be stopped; the process must end.
        """
        with bound_contextvars(worker_id=self._worker_id):
            log.info(LogEvent.WORKER_STARTED)
            while not self._stopping.is_set():
                await rest(await self._turn(), unless=self._stopping)
            log.info(LogEvent.WORKER_STOPPED)

    async def process_next(self) -> Outcome | None:
        """Claim the next export and process it; return how that ended, or None when there was nothing to take.

        Raises:
            EnvironmentFailure: the store could not be asked, or could not grant the claim.
            StuckAttemptError: the attempt cannot be stopped; the process must end.
        """
        asked_at, asked_now = self._app.clock.monotonic(), self._app.clock.now()
        job = await self._claim()
        if job is None:
            return None
        lease_seconds = min(self._app.settings.lease_seconds, (job.deadline_at - asked_now) / 1000)
        return await AttemptRun(self._app, job, lease_ends=asked_at + lease_seconds, stopping=self._stopping).run()

    async def _claim(self) -> ExportJob | None:
        store, lease = self._app.store, self._app.policies.lease
        if not await store.read(Bulkhead.OPERATIONS, has_work, lease=lease):
            return None
        token = LeaseToken(self._app.randomness.new_secret())
        return await store.write(claim_export, worker_id=self._worker_id, lease_token=token, lease=lease)

    async def _turn(self) -> float:
        """Maintain a little when it is time, process an export when there is one; return how many seconds to rest."""
        outcome, has_more = None, False
        try:
            has_more = await self._maintenance.step()
            if self._breaker.lets_through(self._app.clock.monotonic()):
                outcome = await self.process_next()
        except EnvironmentFailure as failure:
            log.warning(LogEvent.STORE_FAILED, **evidence_of(failure))
            outcome = Outcome.EXCUSED
        self._tell_breaker(outcome)
        if outcome not in {None, Outcome.EXCUSED} or has_more:
            return 0
        # Evenly spread around the setting, so that workers which started together do not ask together.
        return self._app.settings.worker_poll_seconds * (0.75 + self._app.randomness.fraction() / 2)

    def _tell_breaker(self, outcome: Outcome | None) -> None:
        before = self._breaker
        if outcome is Outcome.EXCUSED:
            now, jitter = self._app.clock.monotonic(), self._app.randomness.fraction()
            self._breaker = before.failed(now, jitter=jitter)
        elif outcome in {Outcome.SUCCEEDED, Outcome.FAILED}:
            # Nothing to do, or a job that was taken away, says nothing about the surroundings.
            self._breaker = before.succeeded()
        if self._breaker.is_open and not before.is_open:
            log.error(LogEvent.BREAKER_OPENED, failures=self._breaker.failure_count)
        if before.is_open and not self._breaker.is_open:
            log.info(LogEvent.BREAKER_CLOSED, failures=before.failure_count)


async def run_worker(settings: Settings, *, worker_id: str | None = None) -> None:
    """Run one worker in this process until it is told to stop.

    SIGTERM and SIGINT end it gently: the attempt under way may finish within the drain time, is given back otherwise,
    and is left to its lease when even that cannot be done. The second signal ends the process at once.

    Raises:
        StoreUnavailable: the database cannot be opened, or is not of this program's schema.
    """
    configure(settings)
    stopping = asyncio.Event()
    with _stopped_by_signals(stopping.set):
        async with assemble(settings) as app:
            name = worker_id or _name_of_this_process(app.randomness)
            try:
                await Worker(app, worker_id=name, stopping=stopping).run()
            except StuckAttemptError as stuck:
                # A thread that does not end would also keep this process from ending in the ordinary way.
                log.exception(LogEvent.WORKER_STUCK, worker_id=name, reason=str(stuck))
                os._exit(_EXIT_STUCK)


@contextmanager
def _stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    received: list[signal.Signals] = []

    def on_signal(number: signal.Signals) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)
        log.info(LogEvent.WORKER_DRAINING, signal=number.name)
        stop()

    for number in signals:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def _name_of_this_process(randomness: Randomness) -> str:
    # Host and process are for people; the random end keeps names apart over reboots and containers.
    return f"{gethostname()[:48]}-{os.getpid()}-{randomness.new_id()[-6:]}"
