"""An export as the API shows it: one pure function of the job, its result and the moment."""

from typing import Final

from domain import parameters
from domain.account import OwnerId
from domain.errors import InvalidParameters
from domain.export import ErrorCode, ExportJob, JobId, JobStatus
from domain.instants import Instant, format_instant, parse_instant
from domain.parameters import COLUMN_TYPES, ExportParameters
from domain.use_cases.exports import ExportView
from entrypoints.http.headers import etag
from entrypoints.http.problem_types import EXPORT_ERRORS
from entrypoints.http.problems import problem_uri
from entrypoints.http.schemas import (
    Export,
    ExportError,
    ExportLinks,
    ExportProgress,
    ExportResult,
    ResultColumn,
    ResultGone,
    ShownFilter,
    ShownRequest,
)
from entrypoints.http.wire import moment_of


def export_body(view: ExportView, *, now: Instant, base_url: str) -> Export:
    """Return the body of an export at the instant `now`, its links behind `base_url`."""
    job, address = view.job, f"{base_url}/v1/exports/{view.job.id}"
    asked = _readable_parameters(job)
    gone = view.result.gone(now) if view.result else None
    return Export(
        id=job.id,
        status=job.status,
        created_at=format_instant(job.created_at),
        started_at=moment_of(job.started_at),
        finished_at=moment_of(job.finished_at),
        deadline_at=format_instant(job.deadline_at),
        attempt_count=job.attempt_count,
        max_attempts=job.max_attempts,
        progress=ExportProgress(view.progress.rows_written, view.progress.rows_total) if view.progress else None,
        request=request_of(job),
        result=None if gone else _result(view, asked, address),
        result_gone=ResultGone(at=format_instant(gone[1]), reason=gone[0]) if gone else None,
        error=_error(job, base_url),
        links=ExportLinks(
            self=address,
            result=f"{address}/result" if view.result and not gone else None,
            cancel=None if job.status.is_terminal else f"{address}/cancel",
        ),
    )


def request_of(job: ExportJob) -> ShownRequest | None:
    """Return what was asked for, as it was understood; None where this version of the service cannot read it."""
    asked = _readable_parameters(job)
    return _shown_request(asked) if asked else None


def etag_of(view: ExportView, *, now: Instant) -> str:
    """Return the entity tag of the body: the version, with what can change in it while the version stays."""
    if view.result is not None and view.result.gone(now) is not None:
        return etag(f"{view.job.version}.gone")
    if view.progress is not None:
        return etag(f"{view.job.version}.{view.progress.rows_written}")
    return etag(view.job.version)


def _result(view: ExportView, asked: ExportParameters | None, address: str) -> ExportResult | None:
    found = view.result
    if found is None:
        return None
    return ExportResult(
        url=f"{address}/result",
        media_type=found.content_type,
        bytes=found.byte_count,
        rows=found.row_count,
        columns=[ResultColumn(column, COLUMN_TYPES[column]) for column in asked.columns] if asked else [],
        sha256=found.sha256,
        formula_escaped_cells=found.formula_escaped_count,
        snapshot_at=format_instant(found.snapshot_at),
        expires_at=format_instant(found.expires_at),
    )


def _error(job: ExportJob, base_url: str) -> ExportError | None:
    if job.status not in {JobStatus.FAILED, JobStatus.CANCELLED}:
        return None
    code = job.last_error_code or ErrorCode.INTERNAL_ERROR
    kind = EXPORT_ERRORS[code]
    return ExportError(problem_uri(kind.slug, base_url), code, kind.title, kind.meaning)


def _readable_parameters(job: ExportJob) -> ExportParameters | None:
    try:
        return parameters.decode(job.parameters_json)
    except InvalidParameters:
        return None


def _shown_request(asked: ExportParameters) -> ShownRequest:
    chosen = asked.filter
    return ShownRequest(
        format=asked.format,
        columns=asked.columns,
        filter=ShownFilter(
            status=chosen.status,
            priority=chosen.priority,
            due_before=moment_of(chosen.due_before),
            due_after=moment_of(chosen.due_after),
            created_before=moment_of(chosen.created_before),
            created_after=moment_of(chosen.created_after),
            updated_since=moment_of(chosen.updated_since),
        ),
        timezone=asked.timezone,
        csv=asked.csv,
        deadline_seconds=asked.deadline_seconds,
    )


# An export that has just been accepted, made by the function that makes all others.
_ACCEPTED_AT: Final = parse_instant("2026-01-31T08:30:00Z")
EXAMPLE_VIEW: Final = ExportView(
    ExportJob(
        id=JobId("019c13a2-8f10-7a44-8b1e-2d6c9e0f7a35"),
        owner_id=OwnerId(1),
        request_key="monthly report, 2026-01",
        parameters_json=parameters.encode(ExportParameters()),
        parameters_digest="",
        status=JobStatus.QUEUED,
        version=1,
        created_at=_ACCEPTED_AT,
        available_at=_ACCEPTED_AT,
        deadline_at=parse_instant("2026-01-31T09:30:00Z"),
        max_attempts=5,
    )
)
EXPORT_EXAMPLE: Final = export_body(EXAMPLE_VIEW, now=_ACCEPTED_AT, base_url="")
