"""Exports: the durable job, its history, and the result that at most one of its attempts commits."""

from enum import StrEnum
from hashlib import sha256
from typing import ClassVar, NewType

from msgspec import Struct

from domain.account import OwnerId
from domain.discreet import Discreet
from domain.errors import ChunkDamaged
from domain.gzip_member import InflateError, inflated
from domain.instants import Instant

JobId = NewType("JobId", str)
LeaseToken = NewType("LeaseToken", str)


class JobStatus(StrEnum):
    """Where an export stands. The last three are terminal: no automatic transition leaves them."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Tell whether no automatic transition leaves this status."""
        return self not in {JobStatus.QUEUED, JobStatus.RUNNING}


class ErrorCode(StrEnum):
    """Why an export ended without a result: the stable words that clients program against."""

    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    INVALID_PARAMETERS = "invalid_parameters"
    OWNER_DISABLED = "owner_disabled"
    OWNERSHIP_VIOLATION = "ownership_violation"
    RESULT_TOO_LARGE = "result_too_large"
    INTERNAL_ERROR = "internal_error"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    CANCELLED = "cancelled"


class FailureKind(StrEnum):
    """What a failure says about the next try.

    TRANSIENT: it may succeed, and uses the budget. ENVIRONMENT: the cause lies outside the job, so the attempt is
    excused. PERMANENT: no retry mends it.
    """

    TRANSIENT = "transient"
    ENVIRONMENT = "environment"
    PERMANENT = "permanent"


class Failure(Struct, frozen=True):
    """How an attempt failed, and the evidence of it that is kept for operators: no task text, no secret, no token.

    `error_class` names the exception. `fingerprint` is of that and of the places it came through, equal for equal
    defects. `message` is there when it is a sentence of ours.
    """

    kind: FailureKind
    code: ErrorCode | None
    error_class: str
    fingerprint: str | None = None
    message: str | None = None


class ExportJob(Discreet, frozen=True, kw_only=True):
    """One durable request for one file of an owner's tasks.

    `attempt_count` is the fencing number: a claim raises it by one and nothing lowers it. `version` grows with every
    saved change. `lease_token` and `lease_until` are set exactly while the job runs. The parameters are kept as the
    text that was accepted, so that a job whose text can no longer be read still loads, and can fail.
    """

    shown: ClassVar[tuple[str, ...]] = ("id", "status", "version", "attempt_count")
    id: JobId
    owner_id: OwnerId
    request_key: str
    parameters_json: str
    parameters_digest: str
    status: JobStatus
    version: int
    created_at: Instant
    available_at: Instant
    deadline_at: Instant
    attempt_count: int = 0
    excused_count: int = 0
    max_attempts: int
    lease_token: LeaseToken | None = None
    lease_until: Instant | None = None
    worker_id: str | None = None
    started_at: Instant | None = None
    finished_at: Instant | None = None
    last_error_code: ErrorCode | None = None
    request_id: str | None = None
    traceparent: str | None = None


class HistoryEntry(Struct, frozen=True, kw_only=True):
    """One saved change of a job: a row of `export_events`, the only history there is."""

    job_id: JobId
    version: int
    event: str
    status: JobStatus
    attempt: int
    at: Instant
    worker_id: str | None = None
    code: str | None = None
    detail: str | None = None
    actor: str | None = None
    reason: str | None = None
    error_class: str | None = None
    fingerprint: str | None = None


class Chunk(Discreet, frozen=True, kw_only=True):
    """A piece of a result: `byte_count` bytes of plain text from `byte_offset`, holding `row_count` rows.

    `payload` is that text as one segment of a gzip member. `sha256` is of the payload, in hexadecimal: what is stored
    is what is checked, whichever coding is then sent.
    """

    shown: ClassVar[tuple[str, ...]] = ("seq", "byte_offset", "byte_count")
    seq: int
    byte_offset: int
    byte_count: int
    row_count: int
    sha256: str
    payload: bytes

    def verify(self) -> None:
        """Raise `ChunkDamaged` when the payload is not what was stored."""
        if sha256(self.payload).hexdigest() != self.sha256:
            raise ChunkDamaged(f"chunk {self.seq} does not match its digest")

    def text(self) -> bytes:
        """Return the plain text. Raise `ChunkDamaged` when the payload does not hold as much as it should."""
        try:
            return inflated(self.payload, byte_count=self.byte_count)
        except InflateError as error:
            raise ChunkDamaged(f"chunk {self.seq} {error}") from error


class Staged(Struct, frozen=True):
    """What an attempt has staged: counted by its worker, and counted again by the store when it completes."""

    chunk_count: int
    byte_count: int
    row_count: int
    payload_byte_count: int


class Digests(Struct, frozen=True, kw_only=True):
    """What proves a whole result: SHA-256 of the plain file and of its gzip form, in hexadecimal, and the CRC-32."""

    sha256: str
    gzip_sha256: str
    crc32: int


class RenderedFile(Struct, frozen=True, kw_only=True):
    """What is known of a whole file once its last chunk was made: what a completing attempt has to have staged."""

    media_type: str
    staged: Staged
    digests: Digests
    formula_escaped_count: int
    snapshot_at: Instant


class GoneReason(StrEnum):
    """Why a result can no longer be read."""

    EXPIRED = "expired"
    DELETED = "deleted"


class ExportResult(Struct, frozen=True, kw_only=True):
    """The committed file of a succeeded export: inserted by the completing transaction and by nothing else."""

    job_id: JobId
    attempt: int
    content_type: str
    chunk_count: int
    byte_count: int
    sha256: str
    gzip_byte_count: int
    gzip_sha256: str
    crc32: int
    row_count: int
    formula_escaped_count: int
    snapshot_at: Instant
    created_at: Instant
    expires_at: Instant
    gone_at: Instant | None = None
    gone_reason: GoneReason | None = None

    def gone(self, now: Instant) -> tuple[GoneReason, Instant] | None:
        """Return why and since when the result cannot be read, or None while it can: until `expires_at`, not less."""
        if self.gone_reason is not None and self.gone_at is not None:
            return self.gone_reason, self.gone_at
        return (GoneReason.EXPIRED, self.expires_at) if now >= self.expires_at else None


class Progress(Struct, frozen=True):
    """How far the current attempt has come; `rows_total` is the row count of its snapshot."""

    rows_written: int
    rows_total: int
