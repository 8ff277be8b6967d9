"""Facts for a test to start from: each is sound as it stands, and a test states only the members that it is about."""

from hashlib import sha256
from typing import Final
from zlib import crc32

from msgspec.structs import replace

from domain import parameters as parameters_of
from domain.account import OwnerId
from domain.events import Enqueue
from domain.export import Chunk, Digests, ExportJob, ExportResult, JobId, JobStatus, LeaseToken, RenderedFile, Staged
from domain.gzip_member import GZIP_HEADER, deflated, gzip_byte_count, gzip_trailer
from domain.instants import Instant
from domain.lifecycle import Transition, enqueue
from domain.maintenance import MaintenanceGrant
from domain.parameters import ExportParameters
from domain.task import NewTask, Task, TaskId, TaskStatus
from domain.use_cases.exports import ExportRequest
from tests.fakes import START

HOUR: Final = 3_600_000
_CANONICAL: Final = parameters_of.encode(ExportParameters())


def an_id(number: int = 1) -> str:
    """Return a UUID of version 7; a higher number sorts later. None of them is one of the sequential randomness."""
    return f"0198c0de-1111-7000-8000-{number:012x}"


def a_new_task(**members: object) -> NewTask:
    """Return a task as its owner states it."""
    return replace(NewTask(title="Water the plants"), **members)


def a_task(owner_id: OwnerId, number: int = 1, **members: object) -> Task:
    """Return a task as it is kept; its number makes its id, and a higher one was created later."""
    task = Task(
        id=TaskId(an_id(number)),
        owner_id=owner_id,
        title=f"Task {number}",
        description="",
        status=TaskStatus.OPEN,
        priority=3,
        due_at=None,
        created_at=Instant(START + number),
        updated_at=Instant(START + number),
        version=1,
    )
    return replace(task, **members)


def a_job(owner_id: OwnerId, number: int = 1, **members: object) -> ExportJob:
    """Return a queued export as it is kept; its number makes its id and its key, and a higher one was created later."""
    job = ExportJob(
        id=JobId(an_id(number)),
        owner_id=owner_id,
        request_key=f"key-{number}",
        parameters_json=_CANONICAL,
        parameters_digest=parameters_of.digest(_CANONICAL),
        status=JobStatus.QUEUED,
        version=1,
        created_at=Instant(START + number),
        available_at=Instant(START + number),
        deadline_at=Instant(START + number + HOUR),
        max_attempts=3,
    )
    return replace(job, **members)


def an_enqueue(owner_id: OwnerId, number: int = 1, **members: object) -> Transition:
    """Return the step that makes an export at the start of the clock; its number makes its id and its key."""
    event = Enqueue(
        now=START,
        job_id=JobId(an_id(number)),
        owner_id=owner_id,
        request_key=f"key-{number}",
        parameters_json=_CANONICAL,
        parameters_digest=parameters_of.digest(_CANONICAL),
        deadline_at=Instant(START + HOUR),
        max_attempts=3,
    )
    return enqueue(replace(event, **members))


def an_export_request(owner_id: OwnerId, number: int = 1, **members: object) -> ExportRequest:
    """Return an owner's request for a file; its number makes the id that the export gets and its key."""
    request = ExportRequest(
        owner_id=owner_id,
        request_key=f"key-{number}",
        parameters=ExportParameters(),
        job_id=JobId(an_id(number)),
    )
    return replace(request, **members)


def chunks_of(*texts: str) -> list[Chunk]:
    """Return the texts as the consecutive chunks of one file, a row for each of their lines."""
    chunks: list[Chunk] = []
    offset = 0
    for seq, text in enumerate(texts):
        plain = text.encode()
        payload = deflated(plain)
        chunks.append(
            Chunk(
                seq=seq,
                byte_offset=offset,
                byte_count=len(plain),
                row_count=text.count("\n"),
                sha256=sha256(payload).hexdigest(),
                payload=payload,
            )
        )
        offset += len(plain)
    return chunks


def a_rendered_file(chunks: list[Chunk], *, snapshot_at: Instant = START) -> RenderedFile:
    """Return what is known of the file that consists of these chunks."""
    plain = b"".join(chunk.text() for chunk in chunks)
    payload = b"".join(chunk.payload for chunk in chunks)
    whole = GZIP_HEADER + payload + gzip_trailer(crc32=crc32(plain), byte_count=len(plain))
    return RenderedFile(
        media_type="text/csv; charset=utf-8; header=present",
        staged=Staged(len(chunks), len(plain), sum(chunk.row_count for chunk in chunks), len(payload)),
        digests=Digests(sha256=sha256(plain).hexdigest(), gzip_sha256=sha256(whole).hexdigest(), crc32=crc32(plain)),
        formula_escaped_count=0,
        snapshot_at=snapshot_at,
    )


def a_result(job_id: JobId, file: RenderedFile, *, attempt: int = 1, **members: object) -> ExportResult:
    """Return the committed result of a job whose file this is; readable for an hour from the start of the clock."""
    result = ExportResult(
        job_id=job_id,
        attempt=attempt,
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
        created_at=START,
        expires_at=Instant(START + HOUR),
    )
    return replace(result, **members)


def a_grant(number: int = 1, **members: object) -> MaintenanceGrant:
    """Return a grant of the lease of maintenance, for a minute from the start of the clock."""
    grant = MaintenanceGrant(
        number=number,
        worker_id="worker-1",
        lease_token=LeaseToken(f"maintenance-token-{number}"),
        lease_until=Instant(START + 60_000),
    )
    return replace(grant, **members)
