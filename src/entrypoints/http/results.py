"""The file of an export over HTTP: read chunk by chunk, each one verified before it leaves.

Damage that is found before the first byte is a problem; later the answer stays shorter than it announced. A client
never gets wrong bytes, nor a short file that looks whole.
"""

from asyncio import to_thread
from base64 import b64encode
from collections.abc import AsyncGenerator
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from domain.account import Scope
from domain.errors import ChunkDamaged, Refusal, ResultUnavailable
from domain.export import ExportResult
from domain.gzip_member import GZIP_HEADER, gzip_trailer
from domain.instants import format_instant
from domain.parameters import MEDIA_TYPES, ExportFormat
from domain.ports import Bulkhead
from domain.use_cases.exports import delete_result, open_result, read_chunk
from entrypoints.http import problem_types as types
from entrypoints.http.answers import Answer, FileAnswer
from entrypoints.http.headers import accepts_gzip, etag
from entrypoints.http.operation import IF_MATCH_OPTIONAL, IF_NONE_MATCH, Call, Link, Operation, Reply
from entrypoints.http.problems import Refused
from entrypoints.telemetry import LogEvent, evidence_of, logger

log = logger()


class Representation(Struct, frozen=True):
    """The file in one content coding: what is sent, and what proves it."""

    is_gzip: bool
    sha256: str
    byte_count: int


async def send(call: Call) -> Answer:
    """Send the file, unless the client has it or wants another one."""
    result = await _open(call)
    chosen = _representation(result, is_gzip=accepts_gzip(call.header_values("Accept-Encoding")))
    kept = {
        "ETag": etag(chosen.sha256),
        "Cache-Control": "private, no-store",
        "Vary": "Authorization, Accept-Encoding",
    }
    wanted, had = call.header(IF_MATCH_OPTIONAL), call.header(IF_NONE_MATCH)
    if wanted is not None and not wanted.match_strongly(chosen.sha256):
        raise Refused(types.PRECONDITION_FAILED, "The file is another one.", headers={"ETag": kept["ETag"]})
    if had is not None and had.match_weakly(chosen.sha256):
        return Answer(304, headers=kept)
    first = await _content(call, result, 0, chosen) if result.chunk_count else b""
    name = f"tasks-{format_instant(result.snapshot_at)[:19].replace(':', '')}Z.csv"
    headers = {
        **kept,
        "Content-Type": result.content_type,
        "Repr-Digest": f"sha-256=:{b64encode(bytes.fromhex(chosen.sha256)).decode()}:",
        "Content-Disposition": f"attachment; filename=\"{name}\"; filename*=UTF-8''{name}",
    }
    if chosen.is_gzip:
        headers["Content-Encoding"] = "gzip"
    return FileAnswer(headers=headers, length=chosen.byte_count, pieces=_pieces(call, result, chosen, first))


async def remove(call: Call) -> Answer:
    """Make the file unreadable."""
    await call.application.store.write(delete_result, call.owner_id, call.path("export_id"))
    return Answer(204)


async def _open(call: Call) -> ExportResult:
    return await call.application.store.read(Bulkhead.DOWNLOADS, open_result, call.owner_id, call.path("export_id"))


def _representation(result: ExportResult, *, is_gzip: bool) -> Representation:
    if is_gzip:
        return Representation(is_gzip=True, sha256=result.gzip_sha256, byte_count=result.gzip_byte_count)
    return Representation(is_gzip=False, sha256=result.sha256, byte_count=result.byte_count)


async def _pieces(
    call: Call, result: ExportResult, chosen: Representation, first: bytes
) -> AsyncGenerator[bytes, None]:
    """Yield the representation; end early, with a word in the log, where the stored bytes cannot be sent."""
    if chosen.is_gzip:
        yield GZIP_HEADER
    yield first
    for seq in range(1, result.chunk_count):
        try:
            yield await _content(call, result, seq, chosen)
        except Refusal as error:
            await _tell(call, result, error)
            return
    if chosen.is_gzip:
        yield gzip_trailer(crc32=result.crc32, byte_count=result.byte_count)


async def _content(call: Call, result: ExportResult, seq: int, chosen: Representation) -> bytes:
    chunk = await call.application.store.read(Bulkhead.DOWNLOADS, read_chunk, result, seq)
    # Off the loop and outside of the transaction: a chunk takes milliseconds.
    return chunk.payload if chosen.is_gzip else await to_thread(chunk.text)


async def _tell(call: Call, result: ExportResult, error: Refusal) -> None:
    """Tell operators why a download was cut. That its owner deleted the file meanwhile is no alarm."""
    try:
        await _open(call)
    except ResultUnavailable as reason:
        log.info(LogEvent.DOWNLOAD_CUT, export_id=result.job_id, reason=str(reason))
    except Refusal:
        log.warning(LogEvent.DOWNLOAD_CUT, export_id=result.job_id, **evidence_of(error))
    else:
        event = LogEvent.RESULT_DAMAGED if isinstance(error, ChunkDamaged) else LogEvent.DOWNLOAD_CUT
        log.error(event, export_id=result.job_id, **evidence_of(error))


# ── The contract ──────────────────────────────────────────────────────────────────────────────────────────────────────

_UNREADABLE: Final = (
    types.EXPORT_NOT_READY,
    types.EXPORT_WITHOUT_RESULT,
    types.EXPORT_EXPIRED,
    types.RESULT_DELETED,
)
_FILE_EXAMPLE: Final = "id,title\r\n019c13a2-7c40-7e1b-9d2c-5f8a6b3e1d20,Write the report\r\n"


_operation: Final = partial(
    Operation,
    tag="exports",
    path="/v1/exports/{export_id}/result",
    scope=Scope.EXPORTS,
    bulkhead=Bulkhead.EXPORTS,
)


_SEND: Final = _operation(
    id="getExportResult",
    method="GET",
    summary="Download the file",
    description=(
        "The whole file, as gzip where Accept-Encoding names it. Its digest is in Repr-Digest, and in the export's "
        "`sha256` for the plain file. An answer that ends before its Content-Length is not the file."
    ),
    handler=send,
    headers=(IF_MATCH_OPTIONAL, IF_NONE_MATCH),
    replies=(
        Reply(
            status=200,
            description="The file.",
            media_type=MEDIA_TYPES[ExportFormat.CSV],
            example=_FILE_EXAMPLE,
            headers=("ETag", "Repr-Digest", "Content-Disposition", "Content-Length", "Vary"),
            optional_headers=("Content-Encoding",),
            links={
                "delete": Link("deleteExportResult", {"export_id": "$request.path.export_id"}, "The end of the file."),
            },
        ),
        Reply(status=304, description="The client has the file.", headers=("ETag", "Vary")),
    ),
    problems=(*_UNREADABLE, types.PRECONDITION_FAILED, types.RESULT_DAMAGED),
)
OPERATIONS: Final = (
    _SEND,
    replace(
        _SEND,
        id="headExportResult",
        method="HEAD",
        summary="Ask about the file",
        description="The header section of the download, without the file.",
        replies=(replace(_SEND.replies[0], is_empty=True, links={}), _SEND.replies[1]),
    ),
    _operation(
        id="deleteExportResult",
        method="DELETE",
        summary="Delete the file",
        description="The file can no longer be read, and a download that is running is cut. The export stays.",
        handler=remove,
        replies=(
            Reply(
                status=204,
                description="The file is gone.",
                links={"status": Link("getExport", {"export_id": "$request.path.export_id"}, "The export.")},
            ),
        ),
        problems=_UNREADABLE,
    ),
)
