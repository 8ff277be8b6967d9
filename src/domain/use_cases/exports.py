"""What an owner asks of exports: one durable request, its status, its file."""

from datetime import timedelta
from typing import Final

from msgspec import Struct

from domain import parameters as parameters_of
from domain.account import OwnerId
from domain.admission import wait_for_status
from domain.errors import (
    ChunkDamaged,
    ExportEndedWithoutResult,
    ExportNotReady,
    IdempotencyConflict,
    InputError,
    InvalidInput,
    NotFound,
    ResultGone,
)
from domain.events import Cancel, Enqueue, RemoveResult
from domain.export import Chunk, ErrorCode, ExportJob, ExportResult, GoneReason, JobId, JobStatus, Progress
from domain.instants import between, later
from domain.lifecycle import advance, enqueue
from domain.pages import Page, Position, page_of
from domain.parameters import ExportParameters
from domain.policies import Policies
from domain.ports import Attempt, UnitOfWork
from domain.use_cases.admission import load_ahead, require_quota, require_room

OWNER: Final = "owner"


class ExportRequest(Struct, frozen=True, kw_only=True):
    """An owner's request for one file, with the ids that its row gets if it is new."""

    owner_id: OwnerId
    request_key: str
    parameters: ExportParameters
    job_id: JobId
    request_id: str | None = None
    traceparent: str | None = None


class ExportView(Struct, frozen=True):
    """An export as its owner may see it, all of one instant."""

    job: ExportJob
    result: ExportResult | None = None
    progress: Progress | None = None


class Watched(Struct, frozen=True):
    """An export, and when its owner should look at it again; None once nothing about it changes by itself."""

    view: ExportView
    look_again_after: timedelta | None


class Enqueued(Struct, frozen=True):
    """The answer to a request: the export, and whether an earlier request under the same key had made it."""

    view: ExportView
    is_replay: bool
    look_again_after: timedelta | None


def enqueue_export(uow: UnitOfWork, request: ExportRequest, *, policies: Policies) -> Enqueued:
    """Make a durable job of the request, or return the one that its key made before.

    Key and job are one row, so there is no moment at which one exists without the other. What was accepted before is
    answered however much waits; only a new job is refused. This transaction has the write lock, so that no other
    comes between the counting and the row.

    Raises:
        InvalidInput: the parameters contradict themselves, or the deadline is out of bounds.
        IdempotencyConflict: the key was used with other parameters.
        QuotaExceeded: the owner has as many active exports as one owner may have.
        AdmissionRefused: no new export is accepted now.
    """
    text = parameters_of.encode(request.parameters)
    earlier = uow.exports.find_by_key(request.owner_id, request.request_key)
    if earlier is not None:
        stored = parameters_of.renewed(earlier.parameters_json)
        if stored != text:
            raise IdempotencyConflict(members=parameters_of.differing_members(stored, text))
        return Enqueued(_view(uow, earlier), is_replay=True, look_again_after=_look_again_after(uow, earlier, policies))
    time_to_deadline = _time_to_deadline(request.parameters, policies)
    require_quota(uow, request.owner_id, policies.admission)
    require_room(uow, policies.admission)
    made = enqueue(
        Enqueue(
            now=uow.now,
            job_id=request.job_id,
            owner_id=request.owner_id,
            request_key=request.request_key,
            parameters_json=text,
            parameters_digest=parameters_of.digest(text),
            deadline_at=later(uow.now, time_to_deadline),
            max_attempts=policies.retry.max_attempts,
            request_id=request.request_id,
            traceparent=request.traceparent,
        )
    )
    uow.exports.save(made)
    look_again_after = _look_again_after(uow, made.after, policies)
    return Enqueued(_view(uow, made.after), is_replay=False, look_again_after=look_again_after)


def _time_to_deadline(parameters: ExportParameters, policies: Policies) -> timedelta:
    policy = policies.deadline
    if parameters.deadline_seconds is None:
        return policy.default
    shortest, longest = policy.shortest.total_seconds(), policy.longest.total_seconds()
    # Compared as numbers: `timedelta` cannot hold every integer that a request can state.
    if not shortest <= parameters.deadline_seconds <= longest:
        raise InvalidInput(InputError("/deadline_seconds", f"must be {shortest:.0f} to {longest:.0f}"))
    return timedelta(seconds=parameters.deadline_seconds)


def get_export(uow: UnitOfWork, owner_id: OwnerId, job_id: str) -> ExportView:
    """Return the owner's export.

    Raises:
        NotFound: the owner has no such export.
    """
    return _view(uow, _owned(uow, owner_id, job_id))


def watch_export(uow: UnitOfWork, owner_id: OwnerId, job_id: str, *, policies: Policies) -> Watched:
    """Return the owner's export, and when to look again: computed from what waits and how fast that is done.

    Raises:
        NotFound: the owner has no such export.
    """
    job = _owned(uow, owner_id, job_id)
    return Watched(_view(uow, job), _look_again_after(uow, job, policies))


def list_exports(
    uow: UnitOfWork, owner_id: OwnerId, status: frozenset[JobStatus], *, before: Position | None, limit: int
) -> Page[ExportView]:
    """Return one page of the owner's exports, newest first; no status means any."""
    page = page_of(uow.exports.page(owner_id, status, before=before, limit=limit + 1), limit=limit)
    return Page([_view(uow, job) for job in page.items], page.following)


def cancel_export(uow: UnitOfWork, owner_id: OwnerId, job_id: str) -> ExportView:
    """End the owner's export without a file; a running attempt is fenced off by the same commit. Idempotent.

    Raises:
        NotFound: the owner has no such export.
        NoSuchTransition: it has succeeded or failed already.
    """
    job = _owned(uow, owner_id, job_id)
    if job.status is JobStatus.CANCELLED:
        return _view(uow, job)
    step = advance(job, Cancel(now=uow.now, actor=OWNER))
    uow.exports.save(step)
    return _view(uow, step.after)


def open_result(uow: UnitOfWork, owner_id: OwnerId, job_id: str) -> ExportResult:
    """Return the result of the owner's export, whose chunks `read_chunk` then reads one by one.

    Raises:
        NotFound: the owner has no such export.
        ExportNotReady: it has not ended yet.
        ExportEndedWithoutResult: it failed or was cancelled.
        ResultGone: the result expired or was deleted.
    """
    result = _result(uow, _owned(uow, owner_id, job_id))
    if (gone := result.gone(uow.now)) is not None:
        reason, at = gone
        raise ResultGone(reason=reason.value, at=at)
    return result


def read_chunk(uow: UnitOfWork, result: ExportResult, seq: int) -> Chunk:
    """Return one chunk of a result that was opened, checked against its digest.

    Raises:
        ChunkDamaged: the stored bytes are not those that were staged, or are gone.
    """
    chunk = uow.result_store.read(Attempt(result.job_id, result.attempt), seq)
    if chunk is None:
        raise ChunkDamaged(f"chunk {seq} is gone")
    chunk.verify()
    return chunk


def delete_result(uow: UnitOfWork, owner_id: OwnerId, job_id: str) -> ExportResult:
    """Make the result unreadable from this commit on; its bytes are left to maintenance.

    One that has expired is deleted as well, while its bytes are still there.

    Raises:
        NotFound, ExportNotReady, ExportEndedWithoutResult: as `open_result`.
        ResultGone: it was deleted before, or its bytes were removed after it had expired.
    """
    job = _owned(uow, owner_id, job_id)
    result = _result(uow, job)
    if result.gone_reason is not None and result.gone_at is not None:
        has_bytes = uow.result_store.read(Attempt(result.job_id, result.attempt), 0) is not None
        if result.gone_reason is GoneReason.DELETED or not has_bytes:
            raise ResultGone(reason=result.gone_reason.value, at=result.gone_at)
    step = advance(job, RemoveResult(now=uow.now, actor=OWNER, reason=GoneReason.DELETED))
    uow.exports.save(step)
    uow.results.mark_gone(result.job_id, reason=GoneReason.DELETED)
    return result


def _owned(uow: UnitOfWork, owner_id: OwnerId, job_id: str) -> ExportJob:
    job = uow.exports.find(owner_id, job_id)
    if job is None:
        raise NotFound("there is no such export")
    return job


def _look_again_after(uow: UnitOfWork, job: ExportJob, policies: Policies) -> timedelta | None:
    if job.status.is_terminal:
        return None
    ahead_count, drained = load_ahead(uow, job, policies.admission)
    return wait_for_status(ahead_count, drained, between(job.created_at, uow.now), policies.admission)


def _result(uow: UnitOfWork, job: ExportJob) -> ExportResult:
    if not job.status.is_terminal:
        raise ExportNotReady(f"the export is {job.status.value}")
    result = uow.results.find(job.id) if job.status is JobStatus.SUCCEEDED else None
    if result is None:
        raise ExportEndedWithoutResult(code=job.last_error_code or ErrorCode.INTERNAL_ERROR)
    return result


def _view(uow: UnitOfWork, job: ExportJob) -> ExportView:
    match job.status:
        case JobStatus.SUCCEEDED:
            return ExportView(job, result=uow.results.find(job.id))
        case JobStatus.RUNNING:
            return ExportView(job, progress=uow.result_store.progress(Attempt(job.id, job.attempt_count)))
        case _:
            return ExportView(job)
