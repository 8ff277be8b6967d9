"""One attempt: from the claim that granted its lease to its one recorded end.

The file is computed outside every write transaction, and staged chunk by chunk in short fenced ones. Beside the
computation a guard asks whether the attempt may still write: it stops the work when the lease has run out on this
process's own monotonic clock, when the job is no longer held, or when a stopping process has no time left.
The guard only saves work. What makes a stale attempt harmless is that every transaction checks the fence itself.
"""

import asyncio
from collections.abc import Coroutine
from enum import StrEnum
from typing import Any, Final

from structlog.contextvars import bound_contextvars

from domain.errors import EnvironmentFailure, NotFound, NotHolding, OutcomeUnknown
from domain.export import ErrorCode, ExportJob, FailureKind, RenderedFile
from domain.policies import classify
from domain.ports import Bulkhead
from domain.use_cases.work import (
    complete_export,
    fail_export,
    holder_of,
    prepare_attempt,
    release_export,
    stage_chunk,
    still_holds,
    was_committed,
)
from entrypoints.bootstrap import Application
from entrypoints.resting import rest
from entrypoints.telemetry import LogEvent, evidence_of, logger

log = logger()

# How long a draining worker waits to give its job back, and between two tries to record an end. Both are far below
# any lease: a job that cannot be given back is left to its lease.
_RELEASE_WITHIN_SECONDS: Final = 2.0
_RECORD_AGAIN_SECONDS: Final = 0.5
# A rendering that was told to stop does so between two batches, which take milliseconds.
_STOP_WITHIN_SECONDS: Final = 10.0


class Outcome(StrEnum):
    """How an attempt ended.

    FAILED: for a reason that counts. EXCUSED: for one outside the job. RELEASED: given back unharmed. LOST: it may not
    write any more, so that nothing of it is recorded by this worker.
    """

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EXCUSED = "excused"
    RELEASED = "released"
    LOST = "lost"


class Interruption(StrEnum):
    """Why the guard stopped a computation, in the words of the log."""

    LEASE_OVER = "the lease has run out"
    NOT_HOLDING = "the job is no longer held"
    DRAINED = "the worker is stopping"


class StuckAttemptError(RuntimeError):
    """A computation went on after it was told to stop. Only the end of the process ends it."""


class AttemptRun:
    """One processing try of a job that was claimed, run once."""

    def __init__(self, app: Application, job: ExportJob, *, lease_ends: float, stopping: asyncio.Event) -> None:
        """Prepare to process `job`.

        Args:
            app: the ports and rules.
            job: as the claim returned it.
            lease_ends: reading of the monotonic clock after which the lease may be over. Measured from before the
                claim was sent, so that it is never later than what the database holds.
            stopping: set when the process is to end; the attempt then has the drain time left.
        """
        self._app = app
        self._job = job
        self._holder = holder_of(job)
        self._lease_ends = lease_ends
        self._stopping = stopping
        self._drain_ends: float | None = None

    async def run(self) -> Outcome:
        """Process the job and record how that ended, as far as the attempt still may.

        Raises:
            StuckAttemptError: the computation cannot be stopped; the process must end.
        """
        with bound_contextvars(job_id=self._job.id, attempt=self._job.attempt_count, request_id=self._job.request_id):
            log.info(LogEvent.ATTEMPT_STARTED)
            try:
                return await self._process()
            except (NotHolding, NotFound) as refusal:
                return self._lost(str(refusal))
            except StuckAttemptError:
                raise
            except Exception as error:  # noqa: BLE001 - the attempt boundary: whatever it was, the job must hear of it
                return await self._record_failure(error)

    async def _process(self) -> Outcome:
        file = await self._guarded(self._render())
        if file is Interruption.DRAINED:
            return await self._release()
        if isinstance(file, Interruption):
            return self._lost(file)
        try:
            await self._app.store.write(complete_export, self._holder, file, policies=self._app.policies)
        except OutcomeUnknown:
            if not await self._was_committed():
                raise
        log.info(LogEvent.ATTEMPT_SUCCEEDED, rows=file.staged.row_count, bytes=file.staged.byte_count)
        return Outcome.SUCCEEDED

    async def _render(self) -> RenderedFile:
        store, lease = self._app.store, self._app.policies.lease
        parameters = await store.read(Bulkhead.OPERATIONS, prepare_attempt, self._job)
        async with self._app.renderer.render(self._job.owner_id, parameters) as rendering:
            async for chunk in rendering.chunks():
                await store.write(stage_chunk, self._holder, chunk, rows_total=rendering.rows_total, lease=lease)
            return rendering.file

    # ── The guard ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _guarded(self, work: Coroutine[Any, Any, RenderedFile]) -> RenderedFile | Interruption:
        # The guard ends before the completing transaction begins: the success itself makes the job "no longer held".
        working = asyncio.create_task(work)
        guarding = asyncio.create_task(self._guard())
        both = {working, guarding}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else guarding.result()
        finally:
            for task in both:
                task.cancel()
            ended, going_on = await asyncio.wait(both, timeout=_STOP_WITHIN_SECONDS)
            for task in ended:
                if not task.cancelled():
                    task.exception()
            if going_on:
                raise StuckAttemptError("the computation did not stop when it was told to")

    async def _guard(self) -> Interruption:
        while True:
            await self._wait(self._app.settings.holding_check_seconds)
            if (interruption := self._time_is_over()) is not None:
                return interruption
            try:
                held = await self._app.store.read(
                    Bulkhead.OPERATIONS, still_holds, self._holder, lease=self._app.policies.lease
                )
            except EnvironmentFailure as failure:
                # Not to know is no reason to stop: the fence decides.
                log.warning(LogEvent.STORE_FAILED, **evidence_of(failure))
                continue
            if not held:
                return Interruption.NOT_HOLDING

    def _time_is_over(self) -> Interruption | None:
        now = self._app.clock.monotonic()
        if now >= self._lease_ends:
            return Interruption.LEASE_OVER
        if self._stopping.is_set():
            if self._drain_ends is None:
                self._drain_ends = now + self._app.settings.drain_seconds
            if now >= self._drain_ends:
                return Interruption.DRAINED
        return None

    async def _wait(self, seconds: float) -> None:
        """Wait, but not past the end of the lease or of the drain time, and not on while a stop comes in."""
        now = self._app.clock.monotonic()
        ends = self._lease_ends if self._drain_ends is None else min(self._lease_ends, self._drain_ends)
        seconds = max(min(seconds, ends - now), 0)
        if self._drain_ends is not None:
            await asyncio.sleep(seconds)
            return
        await rest(seconds, unless=self._stopping)

    # ── The end ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _lost(self, reason: str) -> Outcome:
        log.warning(LogEvent.ATTEMPT_LOST, reason=reason)
        return Outcome.LOST

    async def _release(self) -> Outcome:
        try:
            async with asyncio.timeout(_RELEASE_WITHIN_SECONDS):
                await self._app.store.write(release_export, self._holder, lease=self._app.policies.lease)
        except (NotHolding, NotFound, EnvironmentFailure, TimeoutError) as failure:
            return self._lost(f"not released: {type(failure).__name__}")
        log.info(LogEvent.ATTEMPT_RELEASED)
        return Outcome.RELEASED

    async def _record_failure(self, error: Exception) -> Outcome:
        failure = classify(error)
        if failure.code is ErrorCode.OWNERSHIP_VIOLATION:
            log.error(LogEvent.OWNERSHIP_VIOLATED, **evidence_of(error))
        told = log.error if failure.code is ErrorCode.INTERNAL_ERROR else log.warning
        told(LogEvent.ATTEMPT_FAILED, kind=failure.kind, code=failure.code, **evidence_of(error))
        outcome = Outcome.EXCUSED if failure.kind is FailureKind.ENVIRONMENT else Outcome.FAILED
        while True:
            jitter = self._app.randomness.fraction()
            try:
                await self._app.store.write(
                    fail_export, self._holder, failure, jitter=jitter, policies=self._app.policies
                )
            except (NotHolding, NotFound) as refusal:
                return self._lost(str(refusal))
            except EnvironmentFailure as busy:
                # The same full disk that made the attempt fail can keep its failure from being recorded.
                log.warning(LogEvent.STORE_FAILED, **evidence_of(busy))
                if not await self._pause():
                    self._lost("its failure could not be recorded")
                    return Outcome.EXCUSED
            else:
                return outcome

    async def _was_committed(self) -> bool:
        # Where the lease ends before it can be told, the answer no leaves the job to the fence, which knows.
        while True:
            try:
                return await self._app.store.read(Bulkhead.OPERATIONS, was_committed, self._holder)
            except EnvironmentFailure as failure:
                log.warning(LogEvent.STORE_FAILED, **evidence_of(failure))
                if not await self._pause():
                    return False

    async def _pause(self) -> bool:
        """Wait a moment between two tries; tell whether the attempt has time for another."""
        await self._wait(_RECORD_AGAIN_SECONDS * (1 + self._app.randomness.fraction()))
        return self._time_is_over() is None
