"""The life of an export in short words: each of them is one transaction of a use case on the real store."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from adapters.sqlite import driver
from domain.account import User
from domain.export import Chunk, ErrorCode, ExportJob, Failure, FailureKind, JobId, JobStatus, LeaseToken
from domain.maintenance import MaintenanceGrant
from domain.parameters import ExportParameters
from domain.policies import Policies
from domain.ports import Bulkhead, Randomness, Store
from domain.use_cases.exports import ExportRequest, cancel_export, enqueue_export
from domain.use_cases.maintenance import Chore, maintain, take_maintenance
from domain.use_cases.work import (
    Holder,
    claim_export,
    complete_export,
    fail_export,
    holder_of,
    release_export,
    stage_chunk,
)
from tests.builders import a_rendered_file, chunks_of
from tests.fakes import ManualClock

CHUNKS: Final = chunks_of("id,title\r\n1,a\r\n", "2,b\r\n3,c\r\n")
TRANSIENT: Final = Failure(FailureKind.TRANSIENT, ErrorCode.INTERNAL_ERROR, "ZeroDivisionError")
ENVIRONMENT: Final = Failure(FailureKind.ENVIRONMENT, None, "StoreFull")
PERMANENT: Final = Failure(FailureKind.PERMANENT, ErrorCode.RESULT_TOO_LARGE, "ResultTooLarge")


class Bench:
    """Steps of owners and workers, one after the other."""

    def __init__(self, store: Store, policies: Policies, clock: ManualClock, randomness: Randomness) -> None:
        self.store = store
        self.policies = policies
        self.clock = clock
        self._randomness = randomness
        self._grant: MaintenanceGrant | None = None

    async def enqueue(self, owner: User, key: str = "key-1", **parameters: Any) -> ExportJob:  # noqa: ANN401 - members
        """Ask for an export."""
        request = ExportRequest(
            owner_id=owner.id,
            request_key=key,
            parameters=ExportParameters(**parameters),
            job_id=JobId(self._randomness.new_id()),
        )
        return (await self.store.write(enqueue_export, request, policies=self.policies)).view.job

    async def try_to_claim(self, worker_id: str = "worker-1") -> ExportJob | None:
        """Take the next export, if there is one."""
        token = LeaseToken(self._randomness.new_secret())
        return await self.store.write(claim_export, worker_id=worker_id, lease_token=token, lease=self.policies.lease)

    async def claim(self, worker_id: str = "worker-1") -> Holder:
        """Take the next export, which must be there."""
        job = await self.try_to_claim(worker_id)
        assert job is not None
        return holder_of(job)

    async def stage(self, holder: Holder, chunks: Sequence[Chunk] = CHUNKS) -> None:
        """Stage chunks, one transaction each."""
        for chunk in chunks:
            await self.store.write(stage_chunk, holder, chunk, rows_total=3, lease=self.policies.lease)

    async def complete(self, holder: Holder, chunks: Sequence[Chunk] = CHUNKS) -> ExportJob:
        """Commit the file that these chunks are."""
        return await self.store.write(complete_export, holder, a_rendered_file(list(chunks)), policies=self.policies)

    async def fail(self, holder: Holder, failure: Failure = TRANSIENT, *, jitter: float = 0) -> ExportJob:
        """Record a failure."""
        return await self.store.write(fail_export, holder, failure, jitter=jitter, policies=self.policies)

    async def release(self, holder: Holder) -> ExportJob:
        """Give the export back."""
        return await self.store.write(release_export, holder, lease=self.policies.lease)

    async def cancel(self, owner: User, job_id: str) -> ExportJob:
        """Cancel the export for its owner."""
        return (await self.store.write(cancel_export, owner.id, job_id)).job

    async def succeed(self, owner: User, key: str = "key-1") -> ExportJob:
        """Ask for an export and work it to its result."""
        await self.enqueue(owner, key)
        holder = await self.claim()
        await self.stage(holder)
        return await self.complete(holder)

    async def bring(self, owner: User, job: ExportJob, status: JobStatus) -> ExportJob:
        """Let the one export that waits come to this status."""
        match status:
            case JobStatus.CANCELLED:
                await self.cancel(owner, job.id)
            case JobStatus.RUNNING:
                await self.claim()
            case JobStatus.FAILED:
                await self.fail(await self.claim(), PERMANENT)
            case JobStatus.SUCCEEDED:
                holder = await self.claim()
                await self.stage(holder)
                await self.complete(holder)
            case JobStatus.QUEUED:
                pass
        return await self.job(job.id)

    async def take_maintenance(self, worker_id: str = "worker-1") -> MaintenanceGrant | None:
        """Ask for the lease of maintenance."""
        token = LeaseToken(self._randomness.new_secret())
        policy = self.policies.maintenance
        return await self.store.write(take_maintenance, worker_id=worker_id, lease_token=token, policy=policy)

    async def maintain(self, chore: Chore, grant: MaintenanceGrant | None = None) -> int:
        """Do one batch of the chore: under the grant, or as the only one who maintains here."""
        if grant is None:
            self._grant = grant = await self.take_maintenance() or self._grant
            assert grant is not None
        return await self.store.write(maintain, grant, chore, as_of=self.clock.now(), policies=self.policies)

    async def sweep(self) -> int:
        """Sweep chunks until nothing is left to sweep; return how often there was something."""
        times = 0
        while await self.maintain(Chore.SWEEP_CHUNKS):
            times += 1
        return times

    async def job(self, job_id: JobId) -> ExportJob:
        """Return the export."""
        job = await self.store.read(Bulkhead.EXPORTS, lambda uow: uow.exports.get(job_id))
        assert job is not None
        return job

    async def events(self, job_id: JobId) -> list[str]:
        """Return the names of what happened to the export."""
        history = await self.store.read(Bulkhead.EXPORTS, lambda uow: uow.exports.history(job_id))
        return [entry.event for entry in history]


def contents(database: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table: two equal ones mean that nothing changed, anywhere."""
    with closing(driver.connect(database, read_only=True)) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
        ).fetchall()
        return {
            name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr)  # noqa: S608 - its own names
            for (name,) in tables
        }
