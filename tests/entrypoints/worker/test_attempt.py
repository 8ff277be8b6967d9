"""One attempt: what it commits, when it stops, and what it leaves when it may not write any more."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from domain.errors import (
    OutcomeUnknown,
    OwnershipViolation,
    PoolExhausted,
    ResultTooLarge,
    StoreBusy,
    StoreFull,
)
from domain.export import ErrorCode, JobStatus
from domain.use_cases.accounts import disable_user
from domain.use_cases.exports import read_chunk
from domain.use_cases.work import (
    claim_export,
    complete_export,
    fail_export,
    release_export,
    stage_chunk,
    still_holds,
    was_committed,
)
from entrypoints.attempt import Interruption, Outcome
from tests.entrypoints.worker.bench import Bench, bench
from tests.processes import eventually_so

# A guard that does not act would make a test hang: it fails instead.
LIMIT_SECONDS = 20


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[Bench]:
    """Opens a bench with short limits; time stands still unless the test moves it."""
    with anyio.fail_after(LIMIT_SECONDS):
        async with bench(tmp_path, lease_seconds=60, drain_seconds=20) as opened:
            yield opened


async def forever(_: int) -> None:
    """Do not come back."""
    await anyio.Event().wait()


async def test_an_attempt_commits_the_file_and_the_success_together(at: Bench) -> None:
    """After one attempt the export has succeeded and every chunk of its result is there and undamaged."""
    job_id = await at.enqueue()
    assert await at.worker.process_next() is Outcome.SUCCEEDED
    job, result = await at.job(job_id), await at.result(job_id)
    assert (job.status, job.attempt_count, job.lease_token) == (JobStatus.SUCCEEDED, 1, None)
    assert result is not None
    assert (result.row_count, result.chunk_count) == (25, 3)
    for seq in range(result.chunk_count):
        await at.look(lambda uow, seq=seq: read_chunk(uow, result, seq))  # type: ignore[misc]  # no lambda with a default is inferred
    assert await at.events(job_id) == ["enqueue", "claim", "complete"]


async def test_nothing_to_do_is_not_an_attempt(at: Bench) -> None:
    """Without work the worker claims nothing and takes no write lock."""
    assert await at.worker.process_next() is None
    assert at.store.written == []


async def test_an_attempt_stops_itself_when_its_lease_has_run_out(at: Bench) -> None:
    """When the worker's own clock passes the lease the computation is ended, and nothing is written any more."""
    job_id = await at.enqueue()

    async def outlive(seq: int) -> None:
        if seq == 1:
            at.let_pass(60)
            await forever(seq)

    at.before_chunk = outlive
    assert await at.worker.process_next() is Outcome.LOST
    assert at.renderer.open_count == 0
    assert (await at.job(job_id)).status is JobStatus.RUNNING
    assert await at.events(job_id) == ["enqueue", "claim"]
    at.before_chunk = None
    assert await at.worker.process_next() is Outcome.SUCCEEDED
    assert (await at.job(job_id)).attempt_count == 2


async def test_the_lease_is_measured_from_before_the_claim(at: Bench) -> None:
    """A claim that waited half a lease for the write lock leaves the other half: the worker errs on the safe side."""
    job_id = await at.enqueue()
    at.store.run_before(claim_export, lambda: at.let_pass(30))

    async def outlive(seq: int) -> None:
        at.let_pass(31)
        await forever(seq)

    at.before_chunk = outlive
    assert await at.worker.process_next() is Outcome.LOST
    lease_until = (await at.job(job_id)).lease_until
    assert lease_until is not None
    assert lease_until > at.clock.now()


@pytest.mark.usefixtures("json_logs")
async def test_the_lease_is_never_taken_to_outlast_the_deadline(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A claim close to the deadline holds until the deadline only, and the worker stops by itself by then."""
    # The clock moves while the guard rests: in the middle of its question, the store would be the first to notice.
    async with bench(tmp_path, lease_seconds=60, holding_check_seconds=1) as at:
        job_id = await at.enqueue()
        at.let_pass(3600 - 5)

        async def outlive(_: int) -> None:
            at.let_pass(5)
            await forever(0)

        at.before_chunk = outlive
        with anyio.fail_after(LIMIT_SECONDS):
            assert await at.worker.process_next() is Outcome.LOST
        assert Interruption.LEASE_OVER in capfd.readouterr().err
        assert await at.worker.process_next() is None
        job = await at.job(job_id)
        assert (job.status, job.last_error_code) == (JobStatus.FAILED, ErrorCode.DEADLINE_EXCEEDED)


async def test_a_stale_worker_stages_nothing(tmp_path: Path) -> None:
    """A worker that slept past its lease, with another claim in between, is refused by the fence itself."""
    async with bench(tmp_path, lease_seconds=60, holding_check_seconds=60) as at:
        job_id = await at.enqueue()

        async def sleep_past_the_lease(seq: int) -> None:
            if seq == 1:
                at.let_pass(60)
                await at.claim_elsewhere()

        at.before_chunk = sleep_past_the_lease
        with anyio.fail_after(LIMIT_SECONDS):
            assert await at.worker.process_next() is Outcome.LOST
        job = await at.job(job_id)
        assert (job.status, job.worker_id, job.attempt_count) == (JobStatus.RUNNING, "another worker", 2)
        assert await at.chunk(job_id, 1, 1) is None
        assert await at.result(job_id) is None
        assert await at.events(job_id) == ["enqueue", "claim", "claim"]


async def test_a_stale_worker_cannot_complete(tmp_path: Path) -> None:
    """When the lease passes after the last chunk was staged, the completion is refused and no result appears."""
    async with bench(tmp_path, lease_seconds=60, holding_check_seconds=60) as at:
        job_id = await at.enqueue()
        at.store.run_before(complete_export, lambda: at.let_pass(60))
        with anyio.fail_after(LIMIT_SECONDS):
            assert await at.worker.process_next() is Outcome.LOST
        assert (await at.job(job_id)).status is JobStatus.RUNNING
        assert await at.result(job_id) is None


async def test_cancelling_stops_the_computation(at: Bench) -> None:
    """A cancelled export's computation is ended by the guard, though it never comes to its next chunk by itself."""
    job_id = await at.enqueue()

    async def cancel_and_hang(seq: int) -> None:
        await at.cancel(job_id)
        await forever(seq)

    at.before_chunk = cancel_and_hang
    assert await at.worker.process_next() is Outcome.LOST
    assert at.renderer.open_count == 0
    assert (await at.job(job_id)).status is JobStatus.CANCELLED
    assert await at.events(job_id) == ["enqueue", "claim", "cancel"]


async def test_a_guard_that_cannot_ask_does_not_stop_the_work(at: Bench) -> None:
    """Not to know whether the job is still held is no reason to give it up."""
    await at.enqueue()
    at.store.fail_before(still_holds, *[PoolExhausted("no read connection")] * 3)

    async def guard_has_failed() -> bool:
        return at.store.faults_left(still_holds) == 0

    async def wait_for_the_guard(_: int) -> None:
        await eventually_so(guard_has_failed)

    at.before_chunk = wait_for_the_guard
    assert await at.worker.process_next() is Outcome.SUCCEEDED


# ── Stopping ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_stopping_worker_finishes_what_it_can(at: Bench) -> None:
    """Told to stop in the middle, an attempt that needs less than the drain time still succeeds."""
    await at.enqueue()

    async def stop(_: int) -> None:
        at.stopping.set()
        await anyio.sleep(0.05)

    at.before_chunk = stop
    assert await at.worker.process_next() is Outcome.SUCCEEDED


async def test_a_stopping_worker_gives_back_what_it_cannot_finish(at: Bench) -> None:
    """After the drain time the job is queued again, available at once, and the attempt does not count."""
    job_id = await at.enqueue()

    async def stop_and_hang(seq: int) -> None:
        at.stopping.set()
        await anyio.sleep(0.05)
        at.let_pass(20)
        await forever(seq)

    at.before_chunk = stop_and_hang
    assert await at.worker.process_next() is Outcome.RELEASED
    job = await at.job(job_id)
    assert (job.status, job.attempt_count, job.excused_count) == (JobStatus.QUEUED, 1, 1)
    assert job.available_at <= at.clock.now()
    assert await at.events(job_id) == ["enqueue", "claim", "release"]


async def test_what_cannot_be_given_back_is_left_to_its_lease(at: Bench) -> None:
    """A worker that cannot release ends all the same, and resets nothing."""
    job_id = await at.enqueue()
    at.store.fail_before(release_export, StoreBusy("the write lock was not to be had"))

    async def stop_and_hang(seq: int) -> None:
        at.stopping.set()
        await anyio.sleep(0.05)
        at.let_pass(20)
        await forever(seq)

    at.before_chunk = stop_and_hang
    assert await at.worker.process_next() is Outcome.LOST
    job = await at.job(job_id)
    assert (job.status, job.attempt_count, job.excused_count) == (JobStatus.RUNNING, 1, 0)


# ── Failures ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("error", "outcome", "expected"),
    [
        (ValueError("task text"), Outcome.FAILED, (JobStatus.QUEUED, None, 0)),
        (StoreFull("no space"), Outcome.EXCUSED, (JobStatus.QUEUED, None, 1)),
        (ResultTooLarge("too many"), Outcome.FAILED, (JobStatus.FAILED, ErrorCode.RESULT_TOO_LARGE, 0)),
        (OwnershipViolation("a row"), Outcome.FAILED, (JobStatus.FAILED, ErrorCode.OWNERSHIP_VIOLATION, 0)),
    ],
    ids=["defect", "environment", "permanent", "ownership"],
)
async def test_each_kind_of_failure_is_recorded_as_the_protocol_has_it(
    at: Bench, error: Exception, outcome: Outcome, expected: tuple[JobStatus, ErrorCode | None, int]
) -> None:
    """A defect is tried again, the environment is excused, and what no retry mends ends the export under its code."""
    job_id = await at.enqueue()

    async def fail(seq: int) -> None:
        if seq == 1:
            raise error

    at.before_chunk = fail
    assert await at.worker.process_next() is outcome
    job = await at.job(job_id)
    assert (job.status, job.last_error_code, job.excused_count) == expected
    if job.status is JobStatus.QUEUED:
        assert job.available_at > at.clock.now()
    last = (await at.history(job_id))[-1]
    assert last.event == "fail"
    assert last.error_class == type(error).__name__
    assert "task text" not in (last.detail or "")


@pytest.mark.usefixtures("json_logs")
async def test_an_ownership_violation_raises_an_alarm(at: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    """A row of another owner is an error event of its own name."""
    await at.enqueue()

    async def fail(_: int) -> None:
        raise OwnershipViolation("a task of another owner was read")

    at.before_chunk = fail
    await at.worker.process_next()
    alarms = [line for line in capfd.readouterr().err.splitlines() if '"event":"ownership.violated"' in line]
    assert len(alarms) == 1
    assert '"level":"error"' in alarms[0]


async def test_the_export_of_a_disabled_owner_fails_for_good(at: Bench) -> None:
    """An owner who was disabled after the request gets no file, and no retry."""
    job_id = await at.enqueue()
    await at.store.write(disable_user, "ann")
    assert await at.worker.process_next() is Outcome.FAILED
    job = await at.job(job_id)
    assert (job.status, job.last_error_code) == (JobStatus.FAILED, ErrorCode.OWNER_DISABLED)


async def test_a_failure_is_recorded_once_the_store_can_be_written_again(at: Bench) -> None:
    """The full disk that ended the attempt also refuses its failure: the worker tries again while it holds."""
    job_id = await at.enqueue()
    at.store.fail_before(stage_chunk, StoreFull("no space"))
    at.store.fail_before(fail_export, StoreFull("no space"))
    assert await at.worker.process_next() is Outcome.EXCUSED
    assert (await at.job(job_id)).excused_count == 1


async def test_a_failure_that_cannot_be_recorded_is_left_to_the_lease(at: Bench) -> None:
    """When the lease ends first, the worker goes on to other work and the row is untouched."""
    job_id = await at.enqueue()
    at.store.fail_before(stage_chunk, StoreFull("no space"))

    def no_space_until_the_lease_is_over() -> None:
        at.let_pass(60)
        raise StoreFull("no space")

    at.store.run_before(fail_export, no_space_until_the_lease_is_over)
    assert await at.worker.process_next() is Outcome.EXCUSED
    assert await at.events(job_id) == ["enqueue", "claim"]


async def test_a_completion_that_happened_though_its_commit_failed_is_a_success(at: Bench) -> None:
    """After an unknown outcome the worker reads which it was; what was committed is not tried again."""
    job_id = await at.enqueue()
    at.store.fail_after(complete_export, OutcomeUnknown("the commit reported an error"))
    assert await at.worker.process_next() is Outcome.SUCCEEDED
    assert await at.events(job_id) == ["enqueue", "claim", "complete"]


async def test_a_completion_that_did_not_happen_is_tried_again(at: Bench) -> None:
    """After an unknown outcome that was none, the attempt is excused and the export comes back."""
    job_id = await at.enqueue()
    at.store.fail_before(complete_export, OutcomeUnknown("the commit reported an error"))
    at.store.fail_before(was_committed, PoolExhausted("no read connection"))
    assert await at.worker.process_next() is Outcome.EXCUSED
    job = await at.job(job_id)
    assert (job.status, job.excused_count) == (JobStatus.QUEUED, 1)
    assert await at.result(job_id) is None


@pytest.mark.usefixtures("json_logs")
async def test_the_lease_token_is_in_no_log_line(at: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever happens to an attempt, its secret stays between it and the database."""
    job_id = await at.enqueue()
    tokens = []

    async def note_and_fail(_: int) -> None:
        tokens.append((await at.job(job_id)).lease_token)
        raise ValueError(f"the token is {tokens[0]}")

    at.before_chunk = note_and_fail
    assert await at.worker.process_next() is Outcome.FAILED
    written = capfd.readouterr()
    assert '"event":"attempt.failed"' in written.err
    assert tokens[0] is not None
    assert tokens[0] not in written.err + written.out
