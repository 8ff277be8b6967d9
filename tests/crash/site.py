"""A place where real processes work: a database with many tasks, and a look at it through the program's own store."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import msgspec

from domain.account import OwnerId, Scope, TokenId, token_from
from domain.errors import StoreBusy
from domain.export import ExportJob, ExportResult, HistoryEntry, JobId, Progress
from domain.maintenance import MaintenanceGrant
from domain.parameters import ExportParameters
from domain.ports import Attempt, Bulkhead, UnitOfWork
from domain.task import NewTask, TaskFilter, TaskId
from domain.use_cases.accounts import add_user, issue_token
from domain.use_cases.exports import ExportRequest, cancel_export, enqueue_export, read_chunk
from domain.use_cases.imports import begin_import, publish_import, store_batch
from entrypoints.bootstrap import Application, assemble, migrate_database
from entrypoints.settings import Settings

# A second or two of rendering: time enough to hit a worker in the middle of it.
TASK_COUNT = 100_000
# One task in fifty has this priority, so that an export of those takes no time.
FEW = ExportParameters(filter=TaskFilter(priority=(1,)))
ALL = ExportParameters()

OWNER = "ann"

_BATCH = 1000


async def fill(path: Path) -> OwnerId:
    """Create a database with one owner and many tasks."""
    settings = Settings(database=str(path))
    migrate_database(settings)
    async with assemble(settings) as app:
        owner = await app.store.write(add_user, OWNER)
        number = await app.store.write(begin_import, owner.id)
        for start in range(0, TASK_COUNT, _BATCH):
            rows = [
                (TaskId(app.randomness.new_id()), NewTask(title=f"task {row}", priority=1 if row % 50 == 0 else 3))
                for row in range(start, start + _BATCH)
            ]
            await app.store.write(store_batch, owner.id, number, rows)
        await app.store.write(publish_import, owner.id, number, keyed=None)
        return owner.id


class Site:
    """An opened database, and the settings with which processes work on it."""

    def __init__(self, app: Application, owner_id: OwnerId, directory: Path) -> None:
        self._app = app
        self._owner_id = owner_id
        self.settings = app.settings
        self.directory = directory

    async def token(self) -> str:
        """Return a token that speaks for the owner."""
        token = token_from(self._app.randomness.new_secret())
        token_id = TokenId(self._app.randomness.new_id())
        await self._app.store.write(issue_token, OWNER, token_id=token_id, token=token, scopes=frozenset(Scope))
        return token

    async def add_owner(self, name: str) -> OwnerId:
        """Add somebody else, who has no tasks."""
        return (await self._app.store.write(add_user, name)).id

    async def enqueue(self, parameters: ExportParameters = ALL, *, owner_id: OwnerId | None = None) -> JobId:
        """Ask for one export, of the owner with many tasks unless told otherwise."""
        job_id = JobId(self._app.randomness.new_id())
        request = ExportRequest(
            owner_id=owner_id or self._owner_id, request_key=job_id, parameters=parameters, job_id=job_id
        )
        await self._app.store.write(enqueue_export, request, policies=self._app.policies)
        return job_id

    async def cancel(self, job_id: JobId) -> None:
        """Cancel it as its owner."""
        await self._app.store.write(cancel_export, self._owner_id, job_id)

    async def job(self, job_id: JobId) -> ExportJob:
        """Return the job as it is stored."""
        job = await self._app.store.read(Bulkhead.EXPORTS, lambda uow: uow.exports.get(job_id))
        assert job is not None
        return job

    async def jobs(self) -> list[ExportJob]:
        """Return the owner's exports."""
        return await self._app.store.read(
            Bulkhead.EXPORTS, lambda uow: uow.exports.page(self._owner_id, frozenset(), before=None, limit=100)
        )

    async def has_ended(self, job_id: JobId) -> bool:
        """Tell whether the export is in a terminal status."""
        return (await self.job(job_id)).status.is_terminal

    async def history(self, job_id: JobId) -> list[HistoryEntry]:
        """Return what happened to it."""
        return await self._app.store.read(Bulkhead.EXPORTS, lambda uow: uow.exports.history(job_id))

    async def result(self, job_id: JobId) -> ExportResult | None:
        """Return its committed result."""
        return await self._app.store.read(Bulkhead.EXPORTS, lambda uow: uow.results.find(job_id))

    async def progress(self, job_id: JobId, attempt: int) -> Progress | None:
        """Return what an attempt has staged; None when it has staged nothing, or when that was swept or published."""
        return await self._app.store.read(
            Bulkhead.EXPORTS, lambda uow: uow.result_store.progress(Attempt(job_id, attempt))
        )

    async def has_orphans(self) -> bool:
        """Tell whether there are bytes that no one can need."""
        return bool(
            await self._app.store.read(Bulkhead.EXPORTS, lambda uow: uow.result_store.lost(as_of=uow.now, limit=1))
        )

    async def maintainer(self) -> MaintenanceGrant | None:
        """Return the last grant of the lease of maintenance."""
        return await self._app.store.read(Bulkhead.OPERATIONS, lambda uow: uow.maintenance.last())

    async def has_bytes(self, result: ExportResult) -> bool:
        """Tell whether the first chunk of the result is stored."""
        attempt = Attempt(result.job_id, result.attempt)
        return await self._app.store.read(Bulkhead.DOWNLOADS, lambda uow: uow.result_store.read(attempt, 0)) is not None

    async def can_write(self) -> bool:
        """Tell whether the write lock is to be had: a stopped process may hold it."""
        try:
            await self._app.store.write(_nothing)
        except StoreBusy:
            return False
        return True

    async def file(self, result: ExportResult) -> bytes:
        """Return the plain file, every chunk checked, and the whole held against the result's digest and counts."""
        parts = []
        for seq in range(result.chunk_count):
            chunk = await self._app.store.read(Bulkhead.DOWNLOADS, read_chunk, result, seq)
            parts.append(chunk.text())
        whole = b"".join(parts)
        assert (len(whole), sha256(whole).hexdigest()) == (result.byte_count, result.sha256)
        assert whole.count(b"\r\n") == result.row_count + 1
        return whole


def _nothing(uow: UnitOfWork) -> None:
    del uow


@asynccontextmanager
async def site(directory: Path, template: Path, owner_id: OwnerId, **configured: float) -> AsyncIterator[Site]:
    """Open a copy of the template. Leases are a few seconds long, far more than an undisturbed attempt takes."""
    path = directory / "tasks.db"
    shutil.copy(template, path)
    stated = {
        "database": str(path),
        "lease_seconds": 5,
        "write_wait_seconds": 1,
        "worker_poll_seconds": 0.05,
        "maintenance_seconds": 0.5,
        "maintenance_lease_seconds": 2,
    }
    settings = msgspec.convert(stated | configured, Settings)
    async with assemble(settings) as app:
        yield Site(app, owner_id, directory)
