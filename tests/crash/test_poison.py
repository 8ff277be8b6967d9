"""An export that takes its worker with it, each time: it ends, and nobody else waits for that."""

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

import pytest

from domain.account import OwnerId
from domain.export import ErrorCode, JobStatus
from tests.crash.conftest import OpenSite
from tests.crash.site import FEW, Site
from tests.processes import Running, environment_for, eventually, eventually_so, running
from tests.tree import ROOT

ATTEMPTS: Final = 2


@contextmanager
def workers(site: Site, death: str, poisonous: OwnerId, *, count: int) -> Iterator[list[Running]]:
    """Start workers that the owner's exports kill, and wait until all of them look for work."""
    environment = environment_for(site.settings, PYTHONPATH=str(ROOT))
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                running(
                    [sys.executable, "-m", "tests.crash.poisoned_worker", death, str(poisonous), f"worker-{number}"],
                    environment=environment,
                    directory=site.directory,
                )
            )
            for number in range(1, count + 1)
        ]
        for worker in started:
            worker.event("worker.started")
        yield started


def ends(crew: list[Running]) -> list[int]:
    """Return the exit statuses of the workers that ended."""
    return [worker.ended() for worker in crew if worker.has_ended]


def have_ended(crew: list[Running], count: int) -> bool:
    """Tell whether so many of the workers ended."""
    return len(ends(crew)) == count


@pytest.mark.parametrize(
    ("death", "by"),
    [("killed", signal.SIGKILL), ("segmentation fault", signal.SIGSEGV), ("aborted", signal.SIGABRT)],
)
async def test_an_export_that_kills_every_worker_ends_when_its_attempts_are_used(
    open_site: OpenSite, death: str, by: signal.Signals
) -> None:
    """Each death uses an attempt, the last one is final, and between the deaths other owners' exports succeed."""
    async with open_site(lease_seconds=2, attempt_seconds=1, max_attempts=ATTEMPTS) as site:
        poisonous = await site.add_owner("poisonous")
        with workers(site, death, poisonous, count=ATTEMPTS + 1) as crew:
            poison = await site.enqueue(FEW, owner_id=poisonous)
            served = []
            for deaths in range(1, ATTEMPTS + 1):
                eventually(partial(have_ended, crew, deaths))
                served.append(await site.enqueue(FEW))
                await eventually_so(partial(site.has_ended, served[-1]))
            await eventually_so(lambda: site.has_ended(poison))
            assert ends(crew) == [-by] * ATTEMPTS
        job = await site.job(poison)
        assert (job.status, job.last_error_code) == (JobStatus.FAILED, ErrorCode.ATTEMPTS_EXHAUSTED)
        assert (job.attempt_count, job.excused_count) == (ATTEMPTS, 0)
        history = await site.history(poison)
        assert [entry.event for entry in history] == ["enqueue", "claim", "claim", "expire"]
        for job_id, (before, after) in zip(served, ((history[1], history[2]), (history[2], history[3])), strict=True):
            done = await site.job(job_id)
            assert (done.status, done.attempt_count) == (JobStatus.SUCCEEDED, 1)
            assert done.finished_at is not None
            assert before.at < done.finished_at < after.at


async def test_an_export_that_asks_for_too_much_memory_ends_and_its_worker_goes_on(open_site: OpenSite) -> None:
    """Where the system refuses the memory instead of killing, it is a defect like others: tried again, then final."""
    async with open_site(max_attempts=ATTEMPTS, retry_floor_seconds=0.1) as site:
        poisonous = await site.add_owner("poisonous")
        with workers(site, "out of memory", poisonous, count=1) as (worker,):
            poison = await site.enqueue(FEW, owner_id=poisonous)
            await eventually_so(lambda: site.has_ended(poison))
            following = await site.enqueue(FEW)
            await eventually_so(lambda: site.has_ended(following))
            assert not worker.has_ended
        job, last = await site.job(poison), (await site.history(poison))[-1]
        assert (job.status, job.last_error_code) == (JobStatus.FAILED, ErrorCode.INTERNAL_ERROR)
        assert (job.attempt_count, last.error_class) == (ATTEMPTS, "MemoryError")
        assert (await site.job(following)).status is JobStatus.SUCCEEDED
