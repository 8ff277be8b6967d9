"""Real workers that are killed, stopped, told to end: nothing is lost, nothing is committed twice."""

import signal

from domain.export import JobId, JobStatus
from tests.crash.conftest import OpenSite
from tests.crash.site import FEW, TASK_COUNT, Site
from tests.processes import Running, eventually_so, fencepost


async def in_the_middle(site: Site, worker: Running) -> JobId:
    """Ask for an export and wait until the worker has staged some of it; return the export's id."""
    worker.event("worker.started")
    job_id = await site.enqueue()
    await eventually_so(lambda: site.progress(job_id, 1))
    return job_id


async def told(site: Site, job_id: JobId) -> list[tuple[str, int]]:
    """Return what happened to the export, each with the number of the attempt."""
    return [(entry.event, entry.attempt) for entry in await site.history(job_id)]


async def test_a_killed_worker_loses_no_export(open_site: OpenSite) -> None:
    """After kill -9 in the middle, another attempt succeeds once the lease is over, with one result and no orphan."""
    async with open_site() as site:
        with fencepost("worker", settings=site.settings, directory=site.directory) as first:
            job_id = await in_the_middle(site, first)
            first.signal(signal.SIGKILL)
            assert first.ended() == -signal.SIGKILL
        job = await site.job(job_id)
        assert (job.status, job.attempt_count) == (JobStatus.RUNNING, 1)
        with fencepost("worker", settings=site.settings, directory=site.directory):
            await eventually_so(lambda: site.has_ended(job_id))
            await eventually_so(lambda: swept(site))
        job, result = await site.job(job_id), await site.result(job_id)
        assert (job.status, job.attempt_count, job.excused_count) == (JobStatus.SUCCEEDED, 2, 0)
        assert await told(site, job_id) == [("enqueue", 0), ("claim", 1), ("claim", 2), ("complete", 2)]
        assert "was lost" in ((await site.history(job_id))[2].detail or "")
        assert result is not None
        assert (result.attempt, result.row_count) == (2, TASK_COUNT)
        await site.file(result)
        assert not await site.has_orphans()
        assert await site.progress(job_id, 1) is None


async def test_a_worker_that_slept_past_its_lease_commits_nothing(open_site: OpenSite) -> None:
    """A worker stopped by SIGSTOP, and continued after another finished its export, finds that it holds nothing."""
    async with open_site() as site:
        with fencepost("worker", settings=site.settings, directory=site.directory) as first:
            job_id = await in_the_middle(site, first)

            async def is_stopped_without_the_lock() -> bool:
                first.signal(signal.SIGSTOP)
                if await site.can_write():
                    return True
                first.signal(signal.SIGCONT)
                return False

            await eventually_so(is_stopped_without_the_lock)
            assert (await site.job(job_id)).status is JobStatus.RUNNING
            with fencepost("worker", settings=site.settings, directory=site.directory):
                await eventually_so(lambda: site.has_ended(job_id))
            before = await told(site, job_id), await site.result(job_id)
            first.signal(signal.SIGCONT)
            first.event("attempt.lost", job_id=job_id)
            first.signal(signal.SIGTERM)
            assert first.ended() == 0
        assert (await told(site, job_id), await site.result(job_id)) == before
        assert before[0] == [("enqueue", 0), ("claim", 1), ("claim", 2), ("complete", 2)]
        with fencepost("worker", settings=site.settings, directory=site.directory):
            await eventually_so(lambda: swept(site))
        assert before[1] is not None
        await site.file(before[1])


async def swept(site: Site) -> bool:
    """Tell whether no bytes are left that no one can need."""
    return not await site.has_orphans()


async def test_cancelling_stops_a_worker_in_the_middle(open_site: OpenSite) -> None:
    """The worker gives a cancelled export up within a second or so, commits nothing, and goes on to the next."""
    async with open_site() as site:
        with fencepost("worker", settings=site.settings, directory=site.directory) as worker:
            job_id = await in_the_middle(site, worker)
            await site.cancel(job_id)
            worker.event("attempt.lost", within=3, job_id=job_id)
            following = await site.enqueue(FEW)
            await eventually_so(lambda: site.has_ended(following))
        assert await told(site, job_id) == [("enqueue", 0), ("claim", 1), ("cancel", 1)]
        assert await site.result(job_id) is None
        assert (await site.job(following)).status is JobStatus.SUCCEEDED


async def test_a_worker_told_to_end_finishes_its_export(open_site: OpenSite) -> None:
    """SIGTERM in the middle: the export succeeds, nothing else is claimed, and the process ends with status 0."""
    async with open_site(drain_seconds=20) as site:
        with fencepost("worker", settings=site.settings, directory=site.directory) as worker:
            job_id = await in_the_middle(site, worker)
            following = await site.enqueue()
            worker.signal(signal.SIGTERM)
            assert worker.ended() == 0
            worker.event("worker.stopped")
        assert (await site.job(job_id)).status is JobStatus.SUCCEEDED
        assert await told(site, following) == [("enqueue", 0)]


async def test_a_worker_without_time_gives_its_export_back(open_site: OpenSite) -> None:
    """SIGTERM with too little time left: the export is queued again at once, and the attempt is excused."""
    async with open_site(drain_seconds=0.1) as site:
        with fencepost("worker", settings=site.settings, directory=site.directory) as worker:
            job_id = await in_the_middle(site, worker)
            worker.signal(signal.SIGTERM)
            assert worker.ended() == 0
        job = await site.job(job_id)
        assert (job.status, job.attempt_count, job.excused_count) == (JobStatus.QUEUED, 1, 1)
        assert await told(site, job_id) == [("enqueue", 0), ("claim", 1), ("release", 1)]
        with fencepost("worker", settings=site.settings, directory=site.directory):
            await eventually_so(lambda: swept(site))
        assert await site.progress(job_id, 1) is None


async def test_a_second_signal_ends_a_worker_at_once(open_site: OpenSite) -> None:
    """The second SIGTERM does not wait for anything, and leaves the row to its lease."""
    async with open_site(drain_seconds=20) as site:
        with fencepost("worker", settings=site.settings, directory=site.directory) as worker:
            job_id = await in_the_middle(site, worker)
            worker.signal(signal.SIGTERM)
            worker.event("worker.draining")
            worker.signal(signal.SIGTERM)
            assert worker.ended() == 128 + signal.SIGTERM
        job = await site.job(job_id)
        assert (job.status, job.attempt_count) == (JobStatus.RUNNING, 1)
        assert await told(site, job_id) == [("enqueue", 0), ("claim", 1)]


async def test_an_idle_worker_ends_at_once(open_site: OpenSite) -> None:
    """Ctrl-C on a worker without work: status 0, and no traceback."""
    async with open_site() as site:
        with fencepost("worker", settings=site.settings, directory=site.directory) as worker:
            worker.event("worker.started")
            worker.signal(signal.SIGINT)
            assert worker.ended() == 0
            assert not [line for line in worker.lines if not line.startswith("{")]


async def test_two_workers_share_the_queue(open_site: OpenSite) -> None:
    """Each export is processed once, whichever worker takes it, and both take some."""
    async with open_site() as site:
        with (
            fencepost("worker", "--id", "first", settings=site.settings, directory=site.directory) as first,
            fencepost("worker", "--id", "second", settings=site.settings, directory=site.directory) as second,
        ):
            first.event("worker.started")
            second.event("worker.started")
            jobs = [await site.enqueue(FEW) for _ in range(16)]

            async def all_ended() -> bool:
                return all([await site.has_ended(job_id) for job_id in jobs])

            await eventually_so(all_ended)
        for job_id in jobs:
            assert await told(site, job_id) == [("enqueue", 0), ("claim", 1), ("complete", 1)]
        workers = {(await site.history(job_id))[1].worker_id for job_id in jobs}
        assert workers == {"first", "second"}
