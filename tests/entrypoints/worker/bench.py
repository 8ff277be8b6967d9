"""A worker in the test's own process: real SQLite and the real renderer, time that a test moves, faults it chooses."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from domain.account import OwnerId
from domain.export import Chunk, ExportJob, ExportResult, HistoryEntry, JobId, LeaseToken, Progress, RenderedFile
from domain.parameters import ExportParameters
from domain.ports import Attempt, Bulkhead, Renderer, Rendering, Store, UnitOfWork
from domain.task import NewTask, TaskId
from domain.use_cases.accounts import add_user
from domain.use_cases.exports import ExportRequest, cancel_export, enqueue_export
from domain.use_cases.tasks import create_task
from domain.use_cases.work import claim_export
from entrypoints.bootstrap import Application, assemble, migrate_database
from entrypoints.settings import Settings
from entrypoints.worker import Worker
from tests.fakes import ManualClock

P = ParamSpec("P")
T = TypeVar("T")

# A chunk holds a megabyte of text, so that a dozen of these fill more than one.
LONG_TEXT = "x" * 100_000


BeforeChunk = Callable[[int], Awaitable[None]]


class HookedRenderer:
    """The real renderer, and something that happens before each of its chunks is handed over."""

    def __init__(self, renderer: Renderer, before: BeforeChunk) -> None:
        self._renderer = renderer
        self._before = before
        self.open_count = 0

    @asynccontextmanager
    async def render(self, owner_id: OwnerId, parameters: ExportParameters) -> AsyncIterator[Rendering]:
        """Render as the real one does."""
        async with self._renderer.render(owner_id, parameters) as rendering:
            self.open_count += 1
            try:
                yield _HookedRendering(rendering, self._before)
            finally:
                self.open_count -= 1


class _HookedRendering:
    def __init__(self, rendering: Rendering, before: BeforeChunk) -> None:
        self._rendering = rendering
        self._before = before

    @property
    def rows_total(self) -> int:
        return self._rendering.rows_total

    @property
    def file(self) -> RenderedFile:
        return self._rendering.file

    async def chunks(self) -> AsyncIterator[Chunk]:
        async for chunk in self._rendering.chunks():
            await self._before(chunk.seq)
            yield chunk


class FaultyStore:
    """The real store, and what a test has happen around some of its transactions, once each."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._before: list[tuple[Callable[..., Any], Callable[[], None]]] = []
        self._after: list[tuple[Callable[..., Any], Callable[[], None]]] = []
        self.written: list[str] = []

    def run_before(self, function: Callable[..., Any], act: Callable[[], None]) -> None:
        """Act before the function's next transaction."""
        self._before.append((function, act))

    def fail_before(self, function: Callable[..., Any], *errors: Exception) -> None:
        """Raise these, one each time, instead of running the function."""
        self._before.extend((function, partial(_fail, error)) for error in errors)

    def fail_after(self, function: Callable[..., Any], error: Exception) -> None:
        """Raise this after the function's next transaction was committed."""
        self._after.append((function, partial(_fail, error)))

    def faults_left(self, function: Callable[..., Any]) -> int:
        """Return how much is still to happen before the function."""
        return sum(faulty is function for faulty, _ in self._before)

    async def write(self, function: Callable[Concatenate[UnitOfWork, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the function, or fail."""
        self._act(self._before, function)
        self.written.append(function.__name__)
        result = await self._store.write(function, *args, **kwargs)
        self._act(self._after, function)
        return result

    async def read(
        self, bulkhead: Bulkhead, function: Callable[Concatenate[UnitOfWork, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run the function, or fail."""
        self._act(self._before, function)
        return await self._store.read(bulkhead, function, *args, **kwargs)

    async def checkpoint(self) -> None:
        """Move what is committed, as the real one does."""
        await self._store.checkpoint()

    @staticmethod
    def _act(planned: list[tuple[Callable[..., Any], Callable[[], None]]], function: Callable[..., Any]) -> None:
        for found in planned:
            if found[0] is function:
                planned.remove(found)
                found[1]()
                return


def _fail(error: Exception) -> None:
    raise error


class Bench:
    """An owner with some tasks, a worker, and a look at everything that the worker leaves behind."""

    def __init__(self, app: Application, owner_id: OwnerId, clock: ManualClock) -> None:
        self.store = FaultyStore(app.store)
        self.renderer = HookedRenderer(app.renderer, self._before_chunk)
        self.app = replace(app, store=self.store, renderer=self.renderer)
        self.owner_id = owner_id
        self.clock = clock
        self.stopping = asyncio.Event()
        self.worker = Worker(self.app, worker_id="worker under test", stopping=self.stopping)
        self.before_chunk: BeforeChunk | None = None

    async def _before_chunk(self, seq: int) -> None:
        if self.before_chunk is not None:
            await self.before_chunk(seq)

    def let_pass(self, seconds: float) -> None:
        """Move both clocks."""
        self.clock.advance(timedelta(seconds=seconds))

    async def enqueue(self) -> JobId:
        """Ask for one export."""
        job_id = JobId(self.app.randomness.new_id())
        request = ExportRequest(
            owner_id=self.owner_id, request_key=job_id, parameters=ExportParameters(), job_id=job_id
        )
        await self.store.write(enqueue_export, request, policies=self.app.policies)
        return job_id

    async def cancel(self, job_id: JobId) -> None:
        """Cancel it as its owner."""
        await self.store.write(cancel_export, self.owner_id, job_id)

    async def claim_elsewhere(self) -> ExportJob:
        """Claim as another worker."""
        job = await self.store.write(
            claim_export,
            worker_id="another worker",
            lease_token=LeaseToken(self.app.randomness.new_secret()),
            lease=self.app.policies.lease,
        )
        assert job is not None
        return job

    async def job(self, job_id: JobId) -> ExportJob:
        """Return the job as it is stored."""
        job = await self.look(lambda uow: uow.exports.get(job_id))
        assert job is not None
        return job

    async def history(self, job_id: JobId) -> list[HistoryEntry]:
        """Return its history."""
        return await self.look(lambda uow: uow.exports.history(job_id))

    async def events(self, job_id: JobId) -> list[str]:
        """Return the names of what happened to it."""
        return [entry.event for entry in await self.history(job_id)]

    async def result(self, job_id: JobId) -> ExportResult | None:
        """Return its committed result."""
        return await self.look(lambda uow: uow.results.find(job_id))

    async def staged_progress(self, job_id: JobId, attempt: int) -> Progress | None:
        """Return what is staged of an attempt."""
        return await self.look(lambda uow: uow.result_store.progress(Attempt(job_id, attempt)))

    async def chunk(self, job_id: JobId, attempt: int, seq: int) -> Chunk | None:
        """Return one stored chunk."""
        return await self.look(lambda uow: uow.result_store.read(Attempt(job_id, attempt), seq))

    async def look(self, function: Callable[[UnitOfWork], T]) -> T:
        """Read."""
        return await self.app.store.read(Bulkhead.EXPORTS, function)


@asynccontextmanager
async def bench(directory: Path, *, long_tasks: int = 25, **configured: float) -> AsyncIterator[Bench]:
    """Open a bench on a fresh database: two chunks and a half of tasks, unless told otherwise."""
    stated = {"database": str(directory / "tasks.db"), "holding_check_seconds": 0.01, "worker_poll_seconds": 0.01}
    settings = msgspec.convert(stated | configured, Settings)
    migrate_database(settings)
    clock = ManualClock()
    async with assemble(settings, clock=clock) as app:
        owner = await app.store.write(add_user, "ann")
        for number in range(long_tasks):
            task = NewTask(title=f"task {number}", description=LONG_TEXT)
            await app.store.write(create_task, owner.id, task, task_id=TaskId(app.randomness.new_id()))
        yield Bench(app, owner.id, clock)
