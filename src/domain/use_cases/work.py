"""What a worker does to exports: each step one short transaction, fenced by the lease that the claim granted."""

from typing import ClassVar, Final

from domain import parameters as parameters_of
from domain.discreet import Discreet
from domain.errors import NotFound, NotHolding, OwnerDisabled
from domain.events import Claim, Complete, Expire, Fail, Held, Release
from domain.export import (
    Chunk,
    ExportJob,
    ExportResult,
    Failure,
    JobId,
    LeaseToken,
    RenderedFile,
)
from domain.gzip_member import gzip_byte_count
from domain.instants import later
from domain.lifecycle import Transition, advance, budget_is_spent, deadline_has_passed, holds, require_holding
from domain.parameters import ExportParameters
from domain.policies import LeasePolicy, Policies
from domain.ports import Attempt, UnitOfWork
from domain.use_cases.accounts import owner_is_enabled

# Jobs that can never succeed are ended on the way, so that liveness does not wait for maintenance. One look shows one
# waiting job of each owner, so a claim looks again after it ended some; the bound keeps the write lock short.
_CANDIDATES: Final = 8
_MOST_ENDED: Final = 32


class Holder(Discreet, frozen=True):
    """An attempt's right to write: what it presents with every step."""

    shown: ClassVar[tuple[str, ...]] = ("job_id", "attempt")
    job_id: JobId
    attempt: int
    lease_token: LeaseToken


def has_work(uow: UnitOfWork, *, lease: LeasePolicy) -> bool:
    """Tell whether a claim would find something. For a read transaction: an idle worker never takes the write lock."""
    return uow.queue.has_candidates(
        longest_lease_until=later(uow.now, lease.longest_lease), running_limit=lease.running_per_owner
    )


def claim_export(uow: UnitOfWork, *, worker_id: str, lease_token: LeaseToken, lease: LeasePolicy) -> ExportJob | None:
    """Take the next available export under a fresh lease, ending on the way those that can never succeed.

    Returns None when there is nothing to take, or so much to end that the next claim has to go on with it.
    """
    event = Claim(
        now=uow.now,
        worker_id=worker_id,
        lease_token=lease_token,
        lease=lease.lease,
        longest_lease=lease.longest_lease,
    )
    ended_count = 0
    while ended_count < _MOST_ENDED:
        candidates = uow.queue.candidates(
            longest_lease_until=later(uow.now, lease.longest_lease),
            running_limit=lease.running_per_owner,
            limit=_CANDIDATES,
        )
        if not candidates:
            break
        for job in candidates:
            if not (deadline_has_passed(job, event) or budget_is_spent(job, event)):
                return _saved(uow, advance(job, event))
            uow.exports.save(advance(job, Expire(now=uow.now, longest_lease=lease.longest_lease)))
            ended_count += 1
    return None


def holder_of(job: ExportJob) -> Holder:
    """Return the right to write of the attempt that a claim has just begun."""
    if job.lease_token is None:
        raise NotHolding(job_id=job.id, event="hold", status=job.status.value, rule="not: has a lease")
    return Holder(job.id, job.attempt_count, job.lease_token)


def prepare_attempt(uow: UnitOfWork, job: ExportJob) -> ExportParameters:
    """Return what the claimed export is to contain.

    Raises:
        InvalidParameters: the stored text cannot be read any more.
        OwnerDisabled: the owner was disabled meanwhile.
    """
    if not owner_is_enabled(uow, job.owner_id):
        raise OwnerDisabled("the owner was disabled after the export was accepted")
    return parameters_of.decode(job.parameters_json)


def still_holds(uow: UnitOfWork, holder: Holder, *, lease: LeasePolicy) -> bool:
    """Tell whether the attempt may still write. For a read transaction, between batches of work."""
    job = uow.exports.get(holder.job_id)
    return job is not None and holds(job, _held(uow, holder, lease))


def stage_chunk(uow: UnitOfWork, holder: Holder, chunk: Chunk, *, rows_total: int, lease: LeasePolicy) -> None:
    """Keep one chunk of the attempt's file, invisible until it completes.

    Raises:
        NotHolding: the attempt may not write any more.
    """
    _held_job(uow, holder, lease)
    uow.result_store.stage(Attempt(holder.job_id, holder.attempt), chunk, rows_total=rows_total)


def complete_export(uow: UnitOfWork, holder: Holder, file: RenderedFile, *, policies: Policies) -> ExportJob:
    """Commit the attempt's file as the one result, and the success with it: both or neither.

    Raises:
        NotHolding: the attempt may not write any more.
        GuardRefused: the store does not hold every chunk that the attempt staged.
    """
    job = _held_job(uow, holder, policies.lease)
    event = Complete(
        now=uow.now,
        lease_token=holder.lease_token,
        longest_lease=policies.lease.longest_lease,
        expected=file.staged,
        found=uow.result_store.staged(Attempt(holder.job_id, holder.attempt)),
    )
    step = advance(job, event)
    uow.exports.save(step)
    uow.results.publish(
        ExportResult(
            job_id=holder.job_id,
            attempt=holder.attempt,
            content_type=file.media_type,
            chunk_count=file.staged.chunk_count,
            byte_count=file.staged.byte_count,
            sha256=file.digests.sha256,
            gzip_byte_count=gzip_byte_count(file.staged.payload_byte_count),
            gzip_sha256=file.digests.gzip_sha256,
            crc32=file.digests.crc32,
            row_count=file.staged.row_count,
            formula_escaped_count=file.formula_escaped_count,
            snapshot_at=file.snapshot_at,
            created_at=uow.now,
            expires_at=policies.result.expires_at(uow.now),
        )
    )
    return step.after


def was_committed(uow: UnitOfWork, holder: Holder) -> bool:
    """Tell whether the attempt's completion happened. For a read transaction, after a commit that reported an error."""
    result = uow.results.find(holder.job_id)
    return result is not None and result.attempt == holder.attempt


def fail_export(uow: UnitOfWork, holder: Holder, failure: Failure, *, jitter: float, policies: Policies) -> ExportJob:
    """Record that the attempt failed: the export is tried again or ends, as the protocol has it.

    Raises:
        NotHolding: the attempt may not write any more.
    """
    job = _held_job(uow, holder, policies.lease)
    retry_at = later(uow.now, policies.retry.delay(holder.attempt, jitter=jitter))
    event = Fail(
        now=uow.now,
        lease_token=holder.lease_token,
        longest_lease=policies.lease.longest_lease,
        failure=failure,
        retry_at=retry_at,
        retry_ends_at=later(retry_at, policies.retry.attempt),
    )
    return _saved(uow, advance(job, event))


def release_export(uow: UnitOfWork, holder: Holder, *, lease: LeasePolicy) -> ExportJob:
    """Give the export back unharmed, because this worker is draining.

    Raises:
        NotHolding: the attempt may not write any more.
    """
    event = Release(now=uow.now, lease_token=holder.lease_token, longest_lease=lease.longest_lease)
    return _saved(uow, advance(_held_job(uow, holder, lease), event))


def _held(uow: UnitOfWork, holder: Holder, lease: LeasePolicy) -> Held:
    return Held(now=uow.now, lease_token=holder.lease_token, longest_lease=lease.longest_lease)


def _held_job(uow: UnitOfWork, holder: Holder, lease: LeasePolicy) -> ExportJob:
    # Whoever lost the job is told so, whichever status it has by now: a cancelled export is no defect of the attempt.
    job = uow.exports.get(holder.job_id)
    if job is None:
        raise NotFound("the export was removed")
    require_holding(job, _held(uow, holder, lease))
    return job


def _saved(uow: UnitOfWork, step: Transition) -> ExportJob:
    uow.exports.save(step)
    return step.after
