"""A CSV file as chunks: rendered, compressed and digested on one thread beside the event loop, in flat memory."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from hashlib import sha256
from typing import Final, TypeVar
from zlib import crc32

from adapters.rendering.csv_rows import CsvRows
from domain.account import OwnerId
from domain.errors import ResultTooLarge
from domain.export import Chunk, Digests, RenderedFile, Staged
from domain.gzip_member import GZIP_HEADER, deflated, gzip_trailer
from domain.parameters import MEDIA_TYPES, ExportParameters
from domain.policies import ResultPolicy
from domain.ports import TaskSnapshot, TaskSnapshots

T = TypeVar("T")

# A megabyte of plain text: one short write transaction, one block of memory on either side, one step of a range.
CHUNK_BYTES: Final = 1 << 20


class CsvFile:
    """One file being rendered: synchronous, on whichever thread iterates it."""

    def __init__(self, snapshot: TaskSnapshot, parameters: ExportParameters, *, limits: ResultPolicy) -> None:
        if snapshot.row_count > limits.max_rows:
            raise ResultTooLarge(f"{snapshot.row_count:,} rows, and {limits.max_rows:,} are allowed")
        self._snapshot = snapshot
        self._media_type = MEDIA_TYPES[parameters.format]
        self._rows = CsvRows(parameters)
        self._limits = limits
        self._sha256, self._gzip_sha256, self._crc32 = sha256(), sha256(GZIP_HEADER), 0
        self._chunk_count = self._byte_count = self._row_count = self._payload_byte_count = 0

    def chunks(self) -> Iterator[Chunk]:
        """Yield the file in order; the first chunk begins with the header line, also when there is no row."""
        pending, rows = bytearray(self._rows.header().encode()), 0
        for batch in self._snapshot.batches():
            for line in self._rows.lines(batch):
                pending += line.encode()
                rows += 1
                if len(pending) >= CHUNK_BYTES:
                    yield self._chunk(bytes(pending), rows)
                    pending, rows = bytearray(), 0
        if pending:
            yield self._chunk(bytes(pending), rows)

    def _chunk(self, plain: bytes, row_count: int) -> Chunk:
        if self._byte_count + len(plain) > self._limits.max_bytes:
            raise ResultTooLarge(f"more than {self._limits.max_bytes:,} bytes, which are allowed")
        payload = deflated(plain)
        chunk = Chunk(
            seq=self._chunk_count,
            byte_offset=self._byte_count,
            byte_count=len(plain),
            row_count=row_count,
            sha256=sha256(payload).hexdigest(),
            payload=payload,
        )
        self._sha256.update(plain)
        self._gzip_sha256.update(payload)
        self._crc32 = crc32(plain, self._crc32)
        self._chunk_count += 1
        self._byte_count += len(plain)
        self._row_count += row_count
        self._payload_byte_count += len(payload)
        return chunk

    def file(self) -> RenderedFile:
        """Return what the whole is, once the last chunk was made."""
        whole = self._gzip_sha256.copy()
        whole.update(gzip_trailer(crc32=self._crc32, byte_count=self._byte_count))
        return RenderedFile(
            media_type=self._media_type,
            staged=Staged(self._chunk_count, self._byte_count, self._row_count, self._payload_byte_count),
            digests=Digests(sha256=self._sha256.hexdigest(), gzip_sha256=whole.hexdigest(), crc32=self._crc32),
            formula_escaped_count=self._rows.formula_escaped_count,
            snapshot_at=self._snapshot.snapshot_at,
        )


class ThreadedRendering:
    """`Rendering` on a thread of its own, which also owns the snapshot's connection."""

    def __init__(self, thread: ThreadPoolExecutor, file: CsvFile, *, rows_total: int) -> None:
        self._thread = thread
        self._file = file
        self.rows_total = rows_total

    async def chunks(self) -> AsyncIterator[Chunk]:
        """Yield the file in order."""
        chunks = self._file.chunks()
        loop = asyncio.get_running_loop()
        while (chunk := await loop.run_in_executor(self._thread, next, chunks, None)) is not None:
            yield chunk

    @property
    def file(self) -> RenderedFile:
        """What the whole is, after the last chunk."""
        return self._file.file()


class ThreadedCsvRenderer:
    """`Renderer` of CSV in the worker's own process."""

    def __init__(self, snapshots: TaskSnapshots, *, limits: ResultPolicy) -> None:
        self._snapshots = snapshots
        self._limits = limits

    @asynccontextmanager
    async def render(self, owner_id: OwnerId, parameters: ExportParameters) -> AsyncIterator[ThreadedRendering]:
        """Open a snapshot and begin to render it; leaving waits for the chunk that is being made, and no longer."""
        loop = asyncio.get_running_loop()
        # Closed below and nowhere else: a context manager here would close it on the loop's thread when a second
        # cancellation comes, while the snapshot is being read.
        opened = ExitStack()
        with ThreadPoolExecutor(1, thread_name_prefix="rendering") as thread:

            def begin() -> tuple[CsvFile, int]:
                snapshot = opened.enter_context(self._snapshots.open(owner_id, parameters.filter))
                return CsvFile(snapshot, parameters, limits=self._limits), snapshot.row_count

            try:
                file, rows_total = await loop.run_in_executor(thread, begin)
                yield ThreadedRendering(thread, file, rows_total=rows_total)
            finally:
                # On the thread that uses the connection, after whatever it still does there. Whoever cancels this
                # waiting waits all the same: for the thread to end.
                await asyncio.shield(loop.run_in_executor(thread, opened.close))
