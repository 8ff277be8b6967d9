"""The bodies of operations on all owners' exports. As in `schemas`, what is said here stands in the contract."""

from typing import Annotated

from msgspec import Meta, Struct

from domain.export import ErrorCode, GoneReason, JobStatus
from domain.use_cases.operations import COUNTED_UP_TO, LONGEST_REASON, MOST_ATTEMPTS, TEXT_PATTERN
from entrypoints.http.schemas import ExportProgress, ShownRequest
from entrypoints.http.wire import Count, Digest, Id, InstantText, Moment, UriReference

Reason = Annotated[
    str,
    Meta(
        description="Why; kept in the export's history.",
        extra_json_schema={"minLength": 1, "maxLength": LONGEST_REASON, "pattern": TEXT_PATTERN},
    ),
]
Attempts = Annotated[int, Meta(description="How many more attempts count.", ge=1, le=MOST_ATTEMPTS)]
# The bounds of the deployment are checked where the order is carried out.
Deadline = Annotated[
    int,
    Meta(
        description="How long the export is worth doing from now on.",
        extra_json_schema={"minimum": 10, "maximum": 86_400},
    ),
]


class JobResult(Struct, frozen=True, kw_only=True):
    """The committed file of a succeeded export, as far as operators see it. `gone_reason` is null while it is there."""

    attempt: Count
    bytes: Count
    rows: Count
    sha256: Digest
    snapshot_at: Moment
    expires_at: Moment
    gone_at: Moment | None
    gone_reason: GoneReason | None


class JobLinks(Struct, frozen=True):
    """Where to go from here; null where the export's state does not allow it."""

    self: UriReference
    requeue: UriReference | None
    cancel: UriReference | None


class Job(Struct, frozen=True, kw_only=True):
    """An export of any owner, as operators see it. `available_at` is when it can be claimed, or could have been."""

    id: Id
    owner: str
    status: JobStatus
    created_at: Moment
    available_at: Moment
    started_at: Moment | None
    finished_at: Moment | None
    deadline_at: Moment
    attempt_count: Count
    excused_count: Count
    max_attempts: Count
    worker_id: str | None
    lease_until: Moment | None
    error_code: ErrorCode | None
    request_id: str | None
    request: ShownRequest | None
    progress: ExportProgress | None
    result: JobResult | None
    links: JobLinks


class HistoryLine(Struct, frozen=True, kw_only=True):
    """One change of an export. `actor` and `reason` are there where a person made it."""

    version: Annotated[int, Meta(ge=1)]
    event: str
    status: JobStatus
    attempt: Count
    at: Moment
    worker_id: str | None
    code: str | None
    detail: str | None
    error_class: str | None
    fingerprint: str | None
    actor: str | None
    reason: str | None


class JobRecord(Job, frozen=True, kw_only=True):
    """An export of any owner with everything that has happened to it, oldest first."""

    history: list[HistoryLine]


class JobList(Struct, frozen=True):
    """One page of exports of all owners, newest first. `next_cursor` is null on the last page."""

    jobs: list[Job]
    next_cursor: str | None


class JobSelection(Struct, frozen=True, forbid_unknown_fields=True):
    """Which dead letters are meant. Members are combined with *and*; an empty one selects all of them.

    `…_before` is strictly earlier, `…_after` strictly later. An owner who does not exist has none.
    """

    owner: str | None = None
    code: ErrorCode | None = None
    created_before: InstantText | None = None
    created_after: InstantText | None = None
    finished_before: InstantText | None = None
    finished_after: InstantText | None = None


class RequeueOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """The decision to try a dead letter again. What is null is as for a new export."""

    reason: Reason
    attempts: Attempts | None = None
    deadline_seconds: Deadline | None = None


class BatchOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """The decision to try dead letters again: up to `limit` of those that the filter selects, newest first.

    With `dry_run` nothing changes, and the answer is the same.
    """

    reason: Reason
    filter: JobSelection = JobSelection()
    attempts: Attempts | None = None
    deadline_seconds: Deadline | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 100
    dry_run: bool = False


class RequeueOutcome(Struct, frozen=True):
    """What became of one export: queued again where `refusal` is null, else unchanged, for that reason."""

    id: Id
    refusal: str | None


class BatchReport(Struct, frozen=True, kw_only=True):
    """What became of a batch. `halted_by` names the limit of admission that ended it early, where one did.

    `has_more` tells that the filter selects more than these.
    """

    dry_run: bool
    requeued: Count
    refused: Count
    outcomes: list[RequeueOutcome]
    halted_by: str | None
    has_more: bool


class CancelOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """The decision to end an export without a file."""

    reason: Reason


class JobCounts(Struct, frozen=True):
    """How many exports have which status."""

    queued: Count
    running: Count
    succeeded: Count
    failed: Count
    cancelled: Count


class QueueRate(Struct, frozen=True):
    """What happened in the seconds that end now."""

    window_seconds: Count
    enqueued: Count
    requeued: Count
    succeeded: Count
    failed: Count
    cancelled: Count


class QueueLimit(Struct, frozen=True):
    """A limit of admission, reached once `share` is 1. `min_free_bytes` is the least that has to be left."""

    name: str
    used: float
    limit: float
    share: Annotated[float, Meta(ge=0)]


class QueueWorker(Struct, frozen=True):
    """A worker that changed an export of late, or holds some. An idle one leaves no trace."""

    id: str
    last_seen_at: Moment
    running: Count


class QueueStatus(Struct, frozen=True, kw_only=True):
    """The queue as one moment saw it. A count of `counted_up_to` means that many or more."""

    at: Moment
    counts: JobCounts
    counted_up_to: Count = COUNTED_UP_TO
    oldest_available_at: Moment | None
    oldest_claim_at: Moment | None
    rates: list[QueueRate]
    limits: list[QueueLimit]
    workers: list[QueueWorker]
