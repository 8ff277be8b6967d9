"""What an owner asks of exports: one durable job a key, seen and ended by its owner alone, and its file."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from adapters.sqlite.store import SqliteStore
from domain.account import OwnerId, User
from domain.errors import (
    ChunkDamaged,
    ExportEndedWithoutResult,
    ExportNotReady,
    IdempotencyConflict,
    InvalidInput,
    NoSuchTransition,
    NotFound,
    ResultGone,
)
from domain.export import ErrorCode, GoneReason, JobId, JobStatus
from domain.instants import Instant, later
from domain.parameters import Column, CsvOptions, Delimiter
from domain.policies import Policies
from domain.ports import Attempt, Bulkhead, UnitOfWork
from domain.task import TaskFilter, TaskStatus
from domain.use_cases.exports import (
    ExportView,
    cancel_export,
    delete_result,
    enqueue_export,
    get_export,
    list_exports,
    open_result,
    read_chunk,
)
from tests.builders import an_export_request, an_id
from tests.fakes import START, ManualClock, SequentialRandomness
from tests.use_cases.bench import CHUNKS, Bench, contents

HOUR: Final = timedelta(hours=1)


async def view(bench: Bench, owner: User, job_id: str) -> ExportView:
    """Return the export as its owner sees it."""
    return await bench.store.read(Bulkhead.EXPORTS, get_export, owner.id, job_id)


# ── One job a key ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_new_key_makes_a_durable_job(store: SqliteStore, owner: User, policies: Policies) -> None:
    """Queued, available now, with the deadline and the budget of the policies, and one line of history."""
    request = an_export_request(owner.id, request_id="request-1", traceparent="00-1-2-01")
    made = await store.write(enqueue_export, request, policies=policies)
    job = made.view.job
    assert not made.is_replay
    assert (job.id, job.status, job.version, job.attempt_count) == (request.job_id, JobStatus.QUEUED, 1, 0)
    assert (job.created_at, job.available_at, job.deadline_at) == (START, START, later(START, HOUR))
    assert (job.max_attempts, job.request_id, job.traceparent) == (3, "request-1", "00-1-2-01")
    assert (await store.read(Bulkhead.EXPORTS, get_export, owner.id, job.id)).job == job


async def test_the_same_request_again_is_answered_with_the_same_job(
    store: SqliteStore, database: Path, owner: User, policies: Policies, clock: ManualClock
) -> None:
    """Whatever else the repetition brings along, and whenever it comes, nothing is written."""
    first = await store.write(enqueue_export, an_export_request(owner.id), policies=policies)
    before = contents(database)
    clock.advance(timedelta(days=30))
    again = an_export_request(owner.id, job_id=JobId(an_id(2)), request_id="other", traceparent="other")
    second = await store.write(enqueue_export, again, policies=policies)
    assert second.is_replay
    assert second.view == first.view
    assert contents(database) == before


@pytest.mark.parametrize("status", JobStatus)
async def test_a_replay_shows_the_job_as_it_is_now(bench: Bench, owner: User, status: JobStatus) -> None:
    """Also after it has ended: a key never makes a second job."""
    made = await bench.enqueue(owner)
    await bench.bring(owner, made, status)
    again = await bench.store.write(
        enqueue_export, an_export_request(owner.id, job_id=JobId(an_id(2))), policies=bench.policies
    )
    assert again.is_replay
    assert again.view == await view(bench, owner, made.id)
    assert (again.view.job.id, again.view.job.status) == (made.id, status)


@pytest.mark.parametrize(
    ("parameters", "members"),
    [
        ({"timezone": "Europe/Berlin"}, ("/timezone",)),
        ({"deadline_seconds": 60}, ("/deadline_seconds",)),
        ({"columns": (Column.TITLE, Column.ID)}, ("/columns",)),
        ({"filter": TaskFilter(priority=(1,))}, ("/filter/priority",)),
        (
            {"csv": CsvOptions(delimiter=Delimiter.TAB, bom=True), "timezone": "Asia/Kolkata"},
            ("/csv/bom", "/csv/delimiter", "/timezone"),
        ),
    ],
)
async def test_the_same_key_with_other_parameters_is_refused(
    bench: Bench, database: Path, owner: User, parameters: dict[str, Any], members: tuple[str, ...]
) -> None:
    """The refusal names every member that differs, and nothing changes."""
    await bench.enqueue(owner)
    before = contents(database)
    with pytest.raises(IdempotencyConflict) as refusal:
        await bench.enqueue(owner, **parameters)
    assert refusal.value.members == members
    assert contents(database) == before


async def test_two_spellings_of_one_request_are_the_same_request(bench: Bench, owner: User) -> None:
    """A list in a filter is a set, so neither order nor repetition makes a conflict."""
    first = await bench.enqueue(owner, filter=TaskFilter(status=(TaskStatus.OPEN, TaskStatus.DONE), priority=(2, 1, 2)))
    second = await bench.enqueue(owner, filter=TaskFilter(status=(TaskStatus.DONE, TaskStatus.OPEN), priority=(1, 2)))
    assert second == first


async def test_two_owners_can_use_one_key(bench: Bench, owner: User, neighbour: User) -> None:
    """A key belongs to whoever made it up."""
    mine, other = await bench.enqueue(owner), await bench.enqueue(neighbour, timezone="Europe/Berlin")
    assert mine.id != other.id
    assert (mine.owner_id, other.owner_id) == (owner.id, neighbour.id)


async def test_two_keys_are_two_jobs(bench: Bench, owner: User) -> None:
    """Equal parameters alone make no replay."""
    assert (await bench.enqueue(owner, "key-1")).id != (await bench.enqueue(owner, "key-2")).id


async def test_many_requests_with_one_key_at_once_make_one_job(
    store: SqliteStore, database: Path, owner: User, policies: Policies, randomness: SequentialRandomness
) -> None:
    """Through two processes at the same time: one of them made it, and all answers are of the same job."""
    async with SqliteStore.open(
        database,
        clock=ManualClock(),
        randomness=randomness,
        read_connections=1,
        write_wait_seconds=20,
        read_wait_seconds=5,
    ) as second:
        answers = await asyncio.gather(
            *(
                process.write(
                    enqueue_export, an_export_request(owner.id, job_id=JobId(randomness.new_id())), policies=policies
                )
                for _ in range(20)
                for process in (store, second)
            )
        )
    assert len({answer.view.job.id for answer in answers}) == 1
    assert [answer.is_replay for answer in answers].count(False) == 1
    assert len(contents(database)["export_jobs"]) == len(contents(database)["export_events"]) == 1


@pytest.mark.parametrize("seconds", [10, 86_400])
async def test_a_deadline_that_may_be_asked_for_is_kept(bench: Bench, owner: User, seconds: int) -> None:
    """The shortest and the longest included."""
    job = await bench.enqueue(owner, deadline_seconds=seconds)
    assert job.deadline_at == later(START, timedelta(seconds=seconds))


@pytest.mark.parametrize("seconds", [9, 86_401, 0, -1, 10**30])
async def test_a_deadline_out_of_bounds_is_refused_and_makes_no_job(
    bench: Bench, database: Path, owner: User, seconds: int
) -> None:
    """The refusal names the member and the bounds."""
    with pytest.raises(InvalidInput, match="/deadline_seconds: must be 10 to 86400"):
        await bench.enqueue(owner, deadline_seconds=seconds)
    assert contents(database)["export_jobs"] == []


async def test_parameters_that_contradict_themselves_make_no_job(bench: Bench, database: Path, owner: User) -> None:
    """They are refused before anything is stored."""
    with pytest.raises(InvalidInput, match="/columns"):
        await bench.enqueue(owner, columns=())
    assert contents(database)["export_jobs"] == []


# ── Owners ────────────────────────────────────────────────────────────────────────────────────────────────────────────

VERBS: Final[dict[str, Callable[[UnitOfWork, OwnerId, str], object]]] = {
    "get": get_export,
    "cancel": cancel_export,
    "open": open_result,
    "delete": delete_result,
}


@pytest.mark.parametrize("verb", VERBS)
async def test_another_owners_export_is_not_there(
    bench: Bench, database: Path, owner: User, neighbour: User, verb: str
) -> None:
    """By every verb the same `NotFound` as for one that never was, and nothing changes."""
    job = await bench.succeed(owner)
    before = contents(database)
    texts = []
    for job_id in (job.id, an_id(99), "x"):
        with pytest.raises(NotFound) as refusal:
            await bench.store.write(VERBS[verb], neighbour.id, job_id)
        texts.append(str(refusal.value))
    assert len(set(texts)) == 1
    assert contents(database) == before


async def test_a_list_holds_the_owners_exports_only(bench: Bench, owner: User, neighbour: User) -> None:
    """Newest first, page by page."""
    mine = [await bench.enqueue(owner, f"key-{number}") for number in range(5)]
    await bench.enqueue(neighbour)
    seen: list[str] = []
    before = None
    while True:
        page = await bench.store.read(Bulkhead.EXPORTS, list_exports, owner.id, frozenset(), before=before, limit=2)
        assert len(page.items) <= 2
        seen.extend(found.job.id for found in page.items)
        before = page.following
        if before is None:
            break
    assert seen == [job.id for job in reversed(mine)]


async def test_a_list_can_be_of_some_statuses(bench: Bench, owner: User) -> None:
    """And shows each export as it would be shown alone."""
    done = await bench.succeed(owner, "key-1")
    await bench.enqueue(owner, "key-2")
    page = await bench.store.read(
        Bulkhead.EXPORTS, list_exports, owner.id, frozenset({JobStatus.SUCCEEDED}), before=None, limit=9
    )
    assert page.items == [await view(bench, owner, done.id)]
    assert page.following is None


# ── Status ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_running_export_shows_how_far_it_has_come(bench: Bench, owner: User) -> None:
    """Rows of the current attempt, of all rows of its snapshot; nothing of it before the first chunk, or afterwards."""
    job = await bench.enqueue(owner)
    assert (await view(bench, owner, job.id)).progress is None
    holder = await bench.claim()
    assert (await view(bench, owner, job.id)).progress is None
    await bench.stage(holder, CHUNKS[:1])
    progress = (await view(bench, owner, job.id)).progress
    assert progress is not None
    assert (progress.rows_written, progress.rows_total) == (CHUNKS[0].row_count, 3)
    await bench.release(holder)
    assert (await view(bench, owner, job.id)).progress is None


async def test_a_succeeded_export_shows_its_result(bench: Bench, owner: User) -> None:
    """And no other one has any."""
    job = await bench.enqueue(owner)
    assert (await view(bench, owner, job.id)).result is None
    holder = await bench.claim()
    await bench.stage(holder)
    await bench.complete(holder)
    result = (await view(bench, owner, job.id)).result
    assert result is not None
    assert (result.job_id, result.attempt, result.chunk_count) == (job.id, 1, len(CHUNKS))


# ── Cancelling ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_queued_export_is_cancelled_and_never_claimed(bench: Bench, owner: User) -> None:
    """It ends at once, and its owner is in the history as the one who wanted that."""
    job = await bench.enqueue(owner)
    ended = await bench.cancel(owner, job.id)
    assert (ended.status, ended.last_error_code, ended.finished_at) == (
        JobStatus.CANCELLED,
        ErrorCode.CANCELLED,
        START,
    )
    assert await bench.try_to_claim() is None
    history = await bench.store.read(Bulkhead.EXPORTS, lambda uow: uow.exports.history(job.id))
    assert [(entry.event, entry.actor) for entry in history] == [("enqueue", None), ("cancel", "owner")]


async def test_cancelling_again_changes_nothing(bench: Bench, database: Path, owner: User) -> None:
    """The second request is answered like the first."""
    job = await bench.enqueue(owner)
    ended = await bench.cancel(owner, job.id)
    before = contents(database)
    assert await bench.cancel(owner, job.id) == ended
    assert contents(database) == before


@pytest.mark.parametrize("status", [JobStatus.SUCCEEDED, JobStatus.FAILED])
async def test_an_export_that_ended_otherwise_cannot_be_cancelled(
    bench: Bench, database: Path, owner: User, status: JobStatus
) -> None:
    """It is told how it ended, and nothing changes."""
    job = await bench.enqueue(owner)
    await bench.bring(owner, job, status)
    before = contents(database)
    with pytest.raises(NoSuchTransition):
        await bench.cancel(owner, job.id)
    assert contents(database) == before


# ── The file ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_file_is_read_chunk_by_chunk(bench: Bench, owner: User) -> None:
    """Opened once, each chunk is what the attempt staged."""
    job = await bench.succeed(owner)
    result = await bench.store.read(Bulkhead.EXPORTS, open_result, owner.id, job.id)
    read = [await bench.store.read(Bulkhead.DOWNLOADS, read_chunk, result, seq) for seq in range(result.chunk_count)]
    assert read == CHUNKS
    assert sum(len(chunk.text()) for chunk in read) == result.byte_count


async def test_a_chunk_that_is_not_what_was_stored_is_never_returned(bench: Bench, owner: User) -> None:
    """Damaged bytes, and bytes that are gone, are `ChunkDamaged`."""
    await bench.enqueue(owner)
    holder = await bench.claim()
    await bench.stage(holder, [replace(CHUNKS[0], payload=b"\0" + CHUNKS[0].payload[1:]), CHUNKS[1]])
    job = await bench.complete(holder)
    result = await bench.store.read(Bulkhead.EXPORTS, open_result, owner.id, job.id)
    for seq in (0, 2):
        with pytest.raises(ChunkDamaged):
            await bench.store.read(Bulkhead.DOWNLOADS, read_chunk, result, seq)
    assert await bench.store.read(Bulkhead.DOWNLOADS, read_chunk, result, 1) == CHUNKS[1]


async def test_an_export_that_has_not_ended_has_no_file_yet(bench: Bench, owner: User) -> None:
    """Queued or running, opened or deleted: not ready."""
    job = await bench.enqueue(owner)
    for _ in range(2):
        for verb in (open_result, delete_result):
            with pytest.raises(ExportNotReady):
                await bench.store.write(verb, owner.id, job.id)
        await bench.try_to_claim()


@pytest.mark.parametrize(
    ("status", "code"),
    [(JobStatus.FAILED, ErrorCode.RESULT_TOO_LARGE), (JobStatus.CANCELLED, ErrorCode.CANCELLED)],
)
async def test_an_export_that_failed_has_no_file_and_says_why(
    bench: Bench, owner: User, status: JobStatus, code: ErrorCode
) -> None:
    """Opened or deleted, the refusal carries the export's stable code."""
    job = await bench.enqueue(owner)
    await bench.bring(owner, job, status)
    for verb in (open_result, delete_result):
        with pytest.raises(ExportEndedWithoutResult) as refusal:
            await bench.store.write(verb, owner.id, job.id)
        assert refusal.value.code == code


async def test_a_file_can_be_read_until_it_expires_and_not_after(bench: Bench, owner: User, clock: ManualClock) -> None:
    """One millisecond decides, without anyone having swept."""
    job = await bench.succeed(owner)
    clock.advance(bench.policies.result.retention - timedelta(milliseconds=1))
    assert (await bench.store.read(Bulkhead.EXPORTS, open_result, owner.id, job.id)).job_id == job.id
    expired_at = clock.advance(timedelta(milliseconds=1))
    with pytest.raises(ResultGone) as refusal:
        await bench.store.read(Bulkhead.EXPORTS, open_result, owner.id, job.id)
    assert (refusal.value.reason, refusal.value.at) == (GoneReason.EXPIRED, expired_at)


async def test_an_expired_file_can_still_be_deleted(
    bench: Bench, database: Path, owner: User, clock: ManualClock
) -> None:
    """Once: its owner does not have to wait until its bytes are removed by others."""
    job = await bench.succeed(owner)
    deleted_at = clock.advance(bench.policies.result.retention + timedelta(days=1))
    await bench.store.write(delete_result, owner.id, job.id)
    assert await bench.sweep() > 0
    assert contents(database)["export_result_chunks"] == []
    for verb in (open_result, delete_result):
        with pytest.raises(ResultGone) as refusal:
            await bench.store.write(verb, owner.id, job.id)
        assert (refusal.value.reason, refusal.value.at) == (GoneReason.DELETED, deleted_at)


async def test_a_deleted_file_is_gone_at_once_and_its_bytes_with_the_sweep(
    bench: Bench, database: Path, owner: User, clock: ManualClock
) -> None:
    """The export stays, succeeded, with the deletion in its history and a new version; the file does not come back."""
    job = await bench.succeed(owner)
    clock.advance(timedelta(seconds=5))
    result = await bench.store.write(delete_result, owner.id, job.id)
    with pytest.raises(ResultGone) as refusal:
        await bench.store.read(Bulkhead.EXPORTS, open_result, owner.id, job.id)
    assert (refusal.value.reason, refusal.value.at) == (GoneReason.DELETED, Instant(START + 5000))
    after = await bench.job(job.id)
    assert (after.status, after.version) == (JobStatus.SUCCEEDED, job.version + 1)
    assert (await bench.events(job.id))[-1] == "remove_result"
    assert await bench.sweep() > 0
    assert contents(database)["export_result_chunks"] == contents(database)["unpublished_attempts"] == []
    with pytest.raises(ChunkDamaged):
        await bench.store.read(Bulkhead.DOWNLOADS, read_chunk, result, 0)


async def test_a_file_is_deleted_once(bench: Bench, database: Path, owner: User) -> None:
    """The second request is told that it is gone, and changes nothing."""
    job = await bench.succeed(owner)
    await bench.store.write(delete_result, owner.id, job.id)
    before = contents(database)
    with pytest.raises(ResultGone):
        await bench.store.write(delete_result, owner.id, job.id)
    assert contents(database) == before


async def test_a_key_whose_file_was_deleted_makes_no_new_job(bench: Bench, owner: User) -> None:
    """A replay shows the export, and that its file is gone."""
    job = await bench.succeed(owner)
    await bench.store.write(delete_result, owner.id, job.id)
    again = await bench.enqueue(owner)
    assert again == await bench.job(job.id)
    shown = (await view(bench, owner, job.id)).result
    assert shown is not None
    assert shown.gone(START) == (GoneReason.DELETED, START)


async def test_an_attempts_bytes_are_nobodys_to_read_before_it_completes(bench: Bench, owner: User) -> None:
    """There is no result that names them."""
    job = await bench.enqueue(owner)
    holder = await bench.claim()
    await bench.stage(holder)
    assert await bench.store.read(Bulkhead.EXPORTS, lambda uow: uow.results.find(job.id)) is None
    with pytest.raises(ExportNotReady):
        await bench.store.read(Bulkhead.EXPORTS, open_result, owner.id, job.id)
    staged = await bench.store.read(
        Bulkhead.EXPORTS, lambda uow: uow.result_store.staged(Attempt(job.id, holder.attempt))
    )
    assert staged is not None
