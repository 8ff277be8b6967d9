"""Every way in which an attempt can fail, through the real worker, store and renderer: what becomes of the export.

The faults are real where a test can make them: a lock that another connection holds, a disk that takes no more bytes, a
row that was spoilt, an owner who was disabled, a limit that is too low, a clock that passed the deadline. Only what
would need broken code is thrown in at the ports.
"""

import resource
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final, Protocol

import anyio
import pytest
from msgspec import Struct
from msgspec.structs import asdict

from adapters.sqlite import driver
from domain.account import TOKEN_PREFIX
from domain.errors import OwnershipViolation, PoolExhausted, StoreFull, StoreUnavailable
from domain.export import ErrorCode, ExportJob, FailureKind, JobId, JobStatus
from domain.instants import between
from domain.use_cases.accounts import disable_user
from domain.use_cases.work import fail_export, prepare_attempt, stage_chunk
from entrypoints.attempt import Outcome
from tests.entrypoints.worker.bench import Bench, bench

LIMIT_SECONDS: Final = 30
LEASE_SECONDS: Final = 60
FLOOR: Final = timedelta(seconds=2)
CAP: Final = timedelta(seconds=8)
ATTEMPTS: Final = 5
TRY: Final = timedelta(seconds=2)
DEADLINE: Final = timedelta(hours=1)

Fault = Callable[[Bench, JobId], Awaitable[None]]


class OpenBench(Protocol):
    """Opens a bench, configured as it states."""

    def __call__(self, **configured: float) -> AbstractAsyncContextManager[Bench]:
        """Open it."""


@pytest.fixture
async def open_bench(tmp_path: Path) -> AsyncIterator[OpenBench]:
    """Opens benches whose backoffs are two, four and then eight seconds; a test that hangs fails instead."""
    stated: dict[str, float] = {
        "lease_seconds": LEASE_SECONDS,
        "max_attempts": ATTEMPTS,
        "retry_floor_seconds": FLOOR.total_seconds(),
        "retry_cap_seconds": CAP.total_seconds(),
        "attempt_seconds": TRY.total_seconds(),
        "write_wait_seconds": 0.05,
    }
    with anyio.fail_after(LIMIT_SECONDS):
        yield lambda **configured: bench(tmp_path, **(stated | configured))


# ── Faults ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def opened(at: Bench) -> Iterator[driver.Connection]:
    """Open a connection that is no worker's."""
    with closing(driver.connect(at.app.settings.database_path)) as connection:
        yield connection


async def a_lock(at: Bench, _: JobId) -> None:
    """Let another connection hold the write lock from the second chunk on, until the failure is to be recorded."""
    other = driver.connect(at.app.settings.database_path)

    async def lock(seq: int) -> None:
        if seq == 1:
            other.execute("BEGIN IMMEDIATE")

    at.before_chunk = lock
    at.store.run_before(fail_export, other.close)


async def a_full_disk(at: Bench, _: JobId) -> None:
    """Let the system refuse to write past the first bytes of any file, until the failure is to be recorded."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    async def fill(seq: int) -> None:
        if seq == 1:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))

    at.before_chunk = fill
    at.store.run_before(fail_export, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard)))


async def a_full_store(at: Bench, _: JobId) -> None:
    """Let the store say that it is full."""
    at.store.fail_before(stage_chunk, StoreFull("the disk or the database's quota is full"))


async def a_store_that_is_gone(at: Bench, _: JobId) -> None:
    """Let the place of the result refuse a chunk."""
    at.store.fail_before(stage_chunk, StoreUnavailable("the database cannot be used"))


async def no_free_connection(at: Bench, _: JobId) -> None:
    """Let no connection be free when the attempt begins."""
    at.store.fail_before(prepare_attempt, PoolExhausted("no read connection became free"))


async def unreadable_parameters(at: Bench, job_id: JobId) -> None:
    """Spoil what was accepted, in the row."""
    with opened(at) as connection:
        connection.execute("UPDATE export_jobs SET parameters_json = '{\"columns\":7' WHERE id = ?", [job_id])


async def senseless_parameters(at: Bench, job_id: JobId) -> None:
    """Leave parameters that can be read and contradict what there is now."""
    with opened(at) as connection:
        connection.execute('UPDATE export_jobs SET parameters_json = \'{"columns":["colour"]}\' WHERE id = ?', [job_id])


async def a_disabled_owner(at: Bench, _: JobId) -> None:
    """Disable the owner after the request."""
    await at.store.write(disable_user, "ann")


async def nothing_else(at: Bench, job_id: JobId) -> None:
    """Leave it to the configuration."""


def raising(error: Callable[[], Exception]) -> Fault:
    """Return the fault that such an error is raised in the middle of the file."""

    async def make(at: Bench, _: JobId) -> None:
        async def fail(seq: int) -> None:
            if seq == 1:
                raise error()

        at.before_chunk = fail

    return make


another_owners_row: Final = raising(lambda: OwnershipViolation("a task of another owner was read"))
a_defect: Final = raising(ZeroDivisionError)
a_lack_of_memory: Final = raising(MemoryError)
several_at_once: Final = raising(
    lambda: ExceptionGroup("several", [StoreFull("full"), ExceptionGroup("more", [KeyError("x")])])
)


# ── The table ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Row(Struct, frozen=True):
    """A fault and what it means: `kind`, the class and code that operators see, what the owner sees at the end."""

    fault: Fault
    kind: FailureKind
    error_class: str
    code: ErrorCode | None
    configured: dict[str, float] = {}


ENVIRONMENT, PERMANENT, TRANSIENT = FailureKind.ENVIRONMENT, FailureKind.PERMANENT, FailureKind.TRANSIENT
TABLE: Final = (
    Row(a_lock, ENVIRONMENT, "StoreBusy", None),
    Row(a_full_disk, ENVIRONMENT, "OutcomeUnknown", None),
    Row(a_full_store, ENVIRONMENT, "StoreFull", None),
    Row(a_store_that_is_gone, ENVIRONMENT, "StoreUnavailable", None),
    Row(no_free_connection, ENVIRONMENT, "PoolExhausted", None),
    Row(unreadable_parameters, PERMANENT, "InvalidParameters", ErrorCode.INVALID_PARAMETERS),
    Row(senseless_parameters, PERMANENT, "InvalidParameters", ErrorCode.INVALID_PARAMETERS),
    Row(a_disabled_owner, PERMANENT, "OwnerDisabled", ErrorCode.OWNER_DISABLED),
    Row(another_owners_row, PERMANENT, "OwnershipViolation", ErrorCode.OWNERSHIP_VIOLATION),
    Row(nothing_else, PERMANENT, "ResultTooLarge", ErrorCode.RESULT_TOO_LARGE, {"result_max_rows": 24}),
    Row(nothing_else, PERMANENT, "ResultTooLarge", ErrorCode.RESULT_TOO_LARGE, {"result_max_bytes": 1_000_000}),
    Row(a_defect, TRANSIENT, "ZeroDivisionError", ErrorCode.INTERNAL_ERROR),
    Row(a_lack_of_memory, TRANSIENT, "MemoryError", ErrorCode.INTERNAL_ERROR),
    Row(several_at_once, TRANSIENT, "KeyError", ErrorCode.INTERNAL_ERROR),
)


def name_of(row: Row) -> str:
    """Return what a case is called."""
    return " ".join([row.kind, row.error_class, row.fault.__name__, *row.configured])


@pytest.mark.parametrize("row", TABLE, ids=name_of)
async def test_an_attempt_that_fails_leaves_what_the_table_says(open_bench: OpenBench, row: Row) -> None:
    """Status, code, counts and the instant of the next try follow from the kind of failure; the evidence is kept."""
    async with open_bench(**row.configured) as at:
        job_id = await at.enqueue()
        await row.fault(at, job_id)
        outcome = await at.worker.process_next()
        job, last = await at.job(job_id), (await at.history(job_id))[-1]
        assert outcome is (Outcome.EXCUSED if row.kind is ENVIRONMENT else Outcome.FAILED)
        assert (job.attempt_count, job.excused_count) == (1, int(row.kind is ENVIRONMENT))
        assert (last.event, last.attempt, last.at, last.worker_id) == ("fail", 1, at.clock.now(), "worker under test")
        assert (last.error_class, last.code) == (row.error_class, row.code)
        assert (last.detail or "").partition(":")[0] == row.kind.value
        assert last.fingerprint is not None
        assert (job.lease_token, job.lease_until, job.worker_id) == (None, None, None)
        assert await at.result(job_id) is None
        if row.kind is PERMANENT:
            assert (job.status, job.last_error_code, job.finished_at) == (JobStatus.FAILED, row.code, at.clock.now())
        else:
            assert (job.status, job.last_error_code, job.finished_at) == (JobStatus.QUEUED, None, None)
            assert_backed_off(at, job, FLOOR)


def assert_backed_off(at: Bench, job: ExportJob, backoff: timedelta) -> None:
    """Assert that the next try begins after the backoff, and after no more than a half of it in jitter."""
    assert backoff <= between(at.clock.now(), job.available_at) <= backoff * 1.5


@pytest.mark.parametrize("row", [row for row in TABLE if row.kind is not PERMANENT], ids=name_of)
async def test_what_has_passed_by_the_next_try_fails_nothing(open_bench: OpenBench, row: Row) -> None:
    """Not before its backoff is over the export is tried again, and then it succeeds."""
    async with open_bench(**row.configured) as at:
        job_id = await at.enqueue()
        await row.fault(at, job_id)
        await at.worker.process_next()
        at.before_chunk = None
        wait = between(at.clock.now(), (await at.job(job_id)).available_at)
        at.let_pass((wait - timedelta(milliseconds=1)).total_seconds())
        assert await at.worker.process_next() is None
        at.let_pass(0.001)
        assert await at.worker.process_next() is Outcome.SUCCEEDED
        job = await at.job(job_id)
        assert (job.status, job.last_error_code, job.attempt_count) == (JobStatus.SUCCEEDED, None, 2)
        assert await at.events(job_id) == ["enqueue", "claim", "fail", "claim", "complete"]


# ── What stays ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def try_again(at: Bench, job_id: JobId) -> Outcome | None:
    """Wait until the export is available, and let the worker take the next one."""
    at.let_pass(max(between(at.clock.now(), (await at.job(job_id)).available_at), timedelta()).total_seconds())
    return await at.worker.process_next()


async def test_a_defect_that_stays_ends_the_export_when_its_attempts_are_used(open_bench: OpenBench) -> None:
    """Each try waits twice as long as the one before, up to the cap, and the last failure is final."""
    async with open_bench() as at:
        job_id = await at.enqueue()
        await a_defect(at, job_id)
        for attempt, backoff in enumerate([FLOOR, FLOOR * 2, CAP, CAP], start=1):
            assert await try_again(at, job_id) is Outcome.FAILED
            job = await at.job(job_id)
            assert (job.status, job.attempt_count) == (JobStatus.QUEUED, attempt)
            assert_backed_off(at, job, backoff)
        assert await try_again(at, job_id) is Outcome.FAILED
        job = await at.job(job_id)
        assert (job.status, job.last_error_code) == (JobStatus.FAILED, ErrorCode.INTERNAL_ERROR)
        assert (job.attempt_count, job.excused_count) == (ATTEMPTS, 0)
        assert len({entry.fingerprint for entry in await at.history(job_id) if entry.event == "fail"}) == 1


async def test_surroundings_that_stay_broken_end_the_export_at_its_deadline_and_not_before(
    open_bench: OpenBench,
) -> None:
    """Far more attempts than the budget has are excused; the last one is where no other could be done in time."""
    async with open_bench(deadline_seconds=300) as at:
        job_id, began = await at.enqueue(), at.clock.now()
        job = await at.job(job_id)
        while not job.status.is_terminal:
            at.store.fail_before(stage_chunk, StoreFull("full"))
            assert await try_again(at, job_id) is Outcome.EXCUSED
            job = await at.job(job_id)
        assert (job.status, job.last_error_code) == (JobStatus.FAILED, ErrorCode.DEADLINE_EXCEEDED)
        assert job.attempt_count > 3 * ATTEMPTS
        assert job.excused_count == job.attempt_count - 1
        assert job.finished_at is not None
        left = timedelta(seconds=300) - between(began, job.finished_at)
        assert timedelta() < left <= CAP * 1.5 + TRY
        assert (await at.history(job_id))[-1].error_class == "StoreFull"


async def test_no_try_is_promised_that_could_not_be_done_before_the_deadline(open_bench: OpenBench) -> None:
    """With time left for the backoff but not for the work after it, the export ends with the failure."""
    async with open_bench() as at:
        job_id = await at.enqueue()
        at.let_pass((DEADLINE - FLOOR - TRY).total_seconds())
        await a_defect(at, job_id)
        assert await at.worker.process_next() is Outcome.FAILED
        job, last = await at.job(job_id), (await at.history(job_id))[-1]
        assert (job.status, job.last_error_code) == (JobStatus.FAILED, ErrorCode.DEADLINE_EXCEEDED)
        assert (last.event, last.error_class) == ("fail", "ZeroDivisionError")


async def test_a_deadline_that_passes_during_the_work_ends_the_export(open_bench: OpenBench) -> None:
    """The lease ends with the deadline: the attempt may write nothing, and the next claim ends the export."""
    async with open_bench() as at:
        job_id = await at.enqueue()
        at.let_pass(DEADLINE.total_seconds() - 1)

        async def outlive(seq: int) -> None:
            if seq == 1:
                at.let_pass(1)

        at.before_chunk = outlive
        assert await at.worker.process_next() is Outcome.LOST
        assert await at.worker.process_next() is None
        job = await at.job(job_id)
        assert (job.status, job.last_error_code) == (JobStatus.FAILED, ErrorCode.DEADLINE_EXCEEDED)
        assert await at.events(job_id) == ["enqueue", "claim", "expire"]


async def test_an_export_that_loses_every_worker_ends_when_its_attempts_are_used(open_bench: OpenBench) -> None:
    """A lost attempt counts, is free again when its lease is over and not before, and after the last one it is over."""
    async with open_bench() as at:
        job_id = await at.enqueue()
        for attempt in range(1, ATTEMPTS + 1):
            assert (await at.claim_elsewhere()).attempt_count == attempt
            at.let_pass(LEASE_SECONDS - 0.001)
            assert await at.worker.process_next() is None
            at.let_pass(0.001)
        assert await at.worker.process_next() is None
        job = await at.job(job_id)
        assert (job.status, job.last_error_code) == (JobStatus.FAILED, ErrorCode.ATTEMPTS_EXHAUSTED)
        assert (job.attempt_count, job.excused_count) == (ATTEMPTS, 0)


async def test_a_cancelled_export_is_cancelled_whatever_its_attempt_meets(open_bench: OpenBench) -> None:
    """The failure of an attempt that no longer holds is recorded nowhere."""
    async with open_bench() as at:
        job_id = await at.enqueue()

        async def cancel_and_fail(seq: int) -> None:
            if seq == 1:
                await at.cancel(job_id)
                raise ZeroDivisionError

        at.before_chunk = cancel_and_fail
        assert await at.worker.process_next() is Outcome.LOST
        job = await at.job(job_id)
        assert (job.status, job.last_error_code) == (JobStatus.CANCELLED, ErrorCode.CANCELLED)
        assert await at.events(job_id) == ["enqueue", "claim", "cancel"]


# ── What is not kept ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("json_logs")
async def test_no_secret_and_no_task_text_is_kept_of_a_failure(
    open_bench: OpenBench, capfd: pytest.CaptureFixture[str]
) -> None:
    """What stands in the message, in its causes and in the variables around it is in no row and no line of the log."""
    async with open_bench() as at:
        job_id = await at.enqueue()
        planted = [f"{TOKEN_PREFIX}{'s3cr3t' * 8}", "see a doctor about it", "hunter2-password"]

        async def fail(seq: int) -> None:
            if seq == 1:
                token, title, password = planted
                planted.append(str((await at.job(job_id)).lease_token))
                error = ValueError(f"{title}: {planted}")
                error.add_note(password)
                raise error from KeyError(token)

        at.before_chunk = fail
        assert await at.worker.process_next() is Outcome.FAILED
        kept = [str(asdict(entry)) for entry in await at.history(job_id)]
        with opened(at) as connection:
            kept += [str(row) for row in connection.execute("SELECT * FROM export_events")]
        kept.append(capfd.readouterr().err)
        assert len(planted) == 4
        assert "ValueError" in kept[-1]
        assert [(secret, text) for secret in planted for text in kept if secret in text] == []
