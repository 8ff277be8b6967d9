"""The loop around the attempts: pace, circuit breaker, end."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from domain.errors import StoreBusy, StoreFull
from domain.export import JobId, JobStatus
from domain.use_cases.maintenance import Chore
from domain.use_cases.work import claim_export, has_work, stage_chunk
from tests.entrypoints.worker.bench import Bench, bench
from tests.processes import eventually_so

LIMIT_SECONDS = 20


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[Bench]:
    """Opens a bench whose worker looks for work a hundred times a second."""
    with anyio.fail_after(LIMIT_SECONDS):
        async with bench(tmp_path, lease_seconds=60) as opened:
            yield opened


async def succeeded(at: Bench, job_id: JobId) -> bool:
    """Tell whether the export has a result."""
    return (await at.job(job_id)).status is JobStatus.SUCCEEDED


async def test_an_idle_worker_takes_no_write_lock(at: Bench) -> None:
    """Beside one look at what there is to maintain, a worker without work only reads."""
    looked = asyncio.Event()
    for _ in range(len(Chore) + 2):
        at.store.run_before(has_work, lambda: None)
    at.store.run_before(has_work, looked.set)
    running = asyncio.create_task(at.worker.run())
    await looked.wait()
    at.stopping.set()
    await running
    assert at.store.written == ["take_maintenance", *["maintain"] * len(Chore)]


async def test_a_worker_goes_on_from_one_export_to_the_next(at: Bench) -> None:
    """Everything that is queued is processed, one after another, and told to stop it ends."""
    jobs = [await at.enqueue() for _ in range(3)]
    running = asyncio.create_task(at.worker.run())

    async def all_done() -> bool:
        return all([await succeeded(at, job_id) for job_id in jobs])

    await eventually_so(all_done)
    at.stopping.set()
    await running


async def test_a_stopping_worker_claims_nothing(at: Bench) -> None:
    """Once it was told to stop, what is queued stays queued."""
    job_id = await at.enqueue()
    at.stopping.set()
    await at.worker.run()
    assert await at.events(job_id) == ["enqueue"]


async def test_a_store_that_fails_slows_the_worker_down_and_does_not_end_it(at: Bench) -> None:
    """A claim that cannot be granted is tried again after a pause."""
    job_id = await at.enqueue()
    at.store.fail_before(claim_export, StoreBusy("the write lock was not to be had"))
    running = asyncio.create_task(at.worker.run())
    await eventually_so(lambda: succeeded(at, job_id))
    at.stopping.set()
    await running
    assert await at.events(job_id) == ["enqueue", "claim", "complete"]


# ── Circuit breaker ───────────────────────────────────────────────────────────────────────────────────────────────────


async def end(at: Bench, running: "asyncio.Task[None]") -> None:
    """Tell the worker to stop, and wait for that."""
    at.stopping.set()
    await running


@pytest.mark.usefixtures("json_logs")
async def test_a_full_disk_does_not_march_the_queue_through_its_retries(
    at: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    """After three attempts in a row that failed for their surroundings the worker claims nothing, time standing still.

    It goes on to look after itself: the polls of twenty rests pass, and no fourth export is touched.
    """
    for _ in range(20):
        await at.enqueue()
    at.store.fail_before(stage_chunk, *[StoreFull("no space")] * 20)
    running = asyncio.create_task(at.worker.run())
    await eventually_so(lambda: is_left(at, 17))
    await anyio.sleep(20 * at.app.settings.worker_poll_seconds)
    await end(at, running)
    assert at.store.faults_left(stage_chunk) == 17
    assert capfd.readouterr().err.count('"event":"breaker.opened"') == 1


async def is_left(at: Bench, count: int) -> bool:
    """Tell whether that many faults or fewer are still to come."""
    return at.store.faults_left(stage_chunk) <= count


@pytest.mark.usefixtures("json_logs")
async def test_an_open_breaker_lets_one_trial_through_after_each_pause_and_closes_on_success(
    at: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    """A trial that fails costs one attempt and opens it for longer; one that succeeds lets everything through again."""
    jobs = [await at.enqueue() for _ in range(6)]
    at.store.fail_before(stage_chunk, *[StoreFull("no space")] * 4)
    running = asyncio.create_task(at.worker.run())
    await eventually_so(lambda: is_left(at, 1))
    at.let_pass(1.6)
    await eventually_so(lambda: is_left(at, 0))
    await anyio.sleep(20 * at.app.settings.worker_poll_seconds)
    assert [await at.events(job_id) for job_id in jobs[4:]] == [["enqueue"], ["enqueue"]]
    at.let_pass(3.1)

    async def all_done() -> bool:
        return all([await succeeded(at, job_id) for job_id in jobs])

    await eventually_so(all_done)
    await end(at, running)
    written = capfd.readouterr().err
    assert (written.count('"event":"breaker.opened"'), written.count('"event":"breaker.closed"')) == (1, 1)
    assert [(await at.job(job_id)).excused_count for job_id in jobs] == [1, 1, 1, 1, 0, 0]


async def test_a_store_that_cannot_be_asked_opens_the_breaker(at: Bench) -> None:
    """Claims that fail count as attempts do: the worker stops asking, too."""
    await at.enqueue()
    at.store.fail_before(has_work, *[StoreBusy("locked")] * 9)
    running = asyncio.create_task(at.worker.run())

    async def is_open() -> bool:
        return at.store.faults_left(has_work) <= 6

    await eventually_so(is_open)
    await anyio.sleep(20 * at.app.settings.worker_poll_seconds)
    await end(at, running)
    assert at.store.faults_left(has_work) == 6
