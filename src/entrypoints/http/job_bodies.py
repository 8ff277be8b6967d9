"""Any owner's export, and the queue, as operators see them: pure functions, for the API and the command line alike."""

from datetime import timedelta
from typing import Final

from msgspec.structs import asdict

from domain.export import ExportResult, HistoryEntry, JobStatus
from domain.instants import Instant, format_instant
from domain.ports import Happened
from domain.use_cases import operations
from domain.use_cases.operations import JobView, RequeuedBatch
from entrypoints.http.export_bodies import EXAMPLE_VIEW, request_of
from entrypoints.http.job_schemas import (
    BatchReport,
    HistoryLine,
    Job,
    JobCounts,
    JobLinks,
    JobRecord,
    JobResult,
    QueueLimit,
    QueueRate,
    QueueStatus,
    QueueWorker,
    RequeueOutcome,
)
from entrypoints.http.schemas import ExportProgress
from entrypoints.http.wire import moment_of


def job_body(view: JobView, *, now: Instant, base_url: str = "") -> Job:
    """Return the body of a job at the instant `now`, its links behind `base_url`."""
    job, address = view.job, f"{base_url}/v1/operations/jobs/{view.job.id}"
    return Job(
        id=job.id,
        owner=view.owner,
        status=job.status,
        created_at=format_instant(job.created_at),
        available_at=format_instant(job.available_at),
        started_at=moment_of(job.started_at),
        finished_at=moment_of(job.finished_at),
        deadline_at=format_instant(job.deadline_at),
        attempt_count=job.attempt_count,
        excused_count=job.excused_count,
        max_attempts=job.max_attempts,
        worker_id=job.worker_id,
        lease_until=moment_of(job.lease_until),
        error_code=job.last_error_code,
        request_id=job.request_id,
        request=request_of(job),
        progress=ExportProgress(view.progress.rows_written, view.progress.rows_total) if view.progress else None,
        result=_result(view.result, now) if view.result else None,
        links=JobLinks(
            self=address,
            requeue=f"{address}/requeue" if job.status is JobStatus.FAILED else None,
            cancel=None if job.status.is_terminal else f"{address}/cancel",
        ),
    )


def record_body(record: operations.JobRecord, *, now: Instant, base_url: str = "") -> JobRecord:
    """Return the body of a job with its history."""
    body = job_body(record.view, now=now, base_url=base_url)
    return JobRecord(**asdict(body), history=[_line(entry) for entry in record.history])


def batch_body(batch: RequeuedBatch, *, dry_run: bool, has_more: bool) -> BatchReport:
    """Return what became of a batch."""
    refused = sum(outcome.refusal is not None for outcome in batch.outcomes)
    return BatchReport(
        dry_run=dry_run,
        requeued=len(batch.outcomes) - refused,
        refused=refused,
        outcomes=[RequeueOutcome(outcome.job_id, outcome.refusal) for outcome in batch.outcomes],
        halted_by=None if batch.halt is None else batch.halt.limit,
        has_more=has_more,
    )


def queue_body(status: operations.QueueStatus) -> QueueStatus:
    """Return the body of the queue's status."""
    return QueueStatus(
        at=format_instant(status.at),
        counts=JobCounts(**{name.value: count for name, count in status.counts.items()}),
        oldest_available_at=moment_of(status.oldest_available_at),
        oldest_claim_at=moment_of(status.oldest_claim_at),
        rates=[
            QueueRate(
                rate.window // timedelta(seconds=1),
                rate.happened.enqueued_count,
                rate.happened.requeued_count,
                rate.happened.succeeded_count,
                rate.happened.failed_count,
                rate.happened.cancelled_count,
            )
            for rate in status.rates
        ],
        limits=[QueueLimit(use.name, use.used, use.limit, round(use.share, 4)) for use in status.limits],
        workers=[
            QueueWorker(worker.worker_id, format_instant(worker.last_seen_at), worker.running_count)
            for worker in status.workers
        ],
    )


def _result(found: ExportResult, now: Instant) -> JobResult:
    gone = found.gone(now)
    return JobResult(
        attempt=found.attempt,
        bytes=found.byte_count,
        rows=found.row_count,
        sha256=found.sha256,
        snapshot_at=format_instant(found.snapshot_at),
        expires_at=format_instant(found.expires_at),
        gone_at=format_instant(gone[1]) if gone else None,
        gone_reason=gone[0] if gone else None,
    )


def _line(entry: HistoryEntry) -> HistoryLine:
    return HistoryLine(
        version=entry.version,
        event=entry.event,
        status=entry.status,
        attempt=entry.attempt,
        at=format_instant(entry.at),
        worker_id=entry.worker_id,
        code=entry.code,
        detail=entry.detail,
        error_class=entry.error_class,
        fingerprint=entry.fingerprint,
        actor=entry.actor,
        reason=entry.reason,
    )


# The export of the other examples, as operators meet it, and a queue in which it waits.
_ACCEPTED: Final = EXAMPLE_VIEW.job
_VIEW: Final = JobView(_ACCEPTED, "ann")
JOB_EXAMPLE: Final = job_body(_VIEW, now=_ACCEPTED.created_at)
RECORD_EXAMPLE: Final = record_body(
    operations.JobRecord(
        _VIEW,
        [
            HistoryEntry(
                job_id=_ACCEPTED.id,
                version=_ACCEPTED.version,
                event="enqueue",
                status=_ACCEPTED.status,
                attempt=0,
                at=_ACCEPTED.created_at,
            )
        ],
    ),
    now=_ACCEPTED.created_at,
)
BATCH_EXAMPLE: Final = batch_body(RequeuedBatch([operations.Requeued(_ACCEPTED.id)]), dry_run=True, has_more=False)
QUEUE_EXAMPLE: Final = queue_body(
    operations.QueueStatus(
        at=_ACCEPTED.created_at,
        counts={status: int(status is JobStatus.QUEUED) for status in JobStatus},
        oldest_available_at=_ACCEPTED.available_at,
        oldest_claim_at=None,
        rates=[operations.Rate(window, Happened(1, 0, 0, 0, 0)) for window in operations.WINDOWS],
        limits=[operations.LimitUse("max_pending", 1, 1000, 0.001)],
        workers=[],
    )
)
