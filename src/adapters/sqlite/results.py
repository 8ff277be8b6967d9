"""Results and their chunks: rows to facts and back."""

from typing import Final

from msgspec import structs

from adapters.sqlite import driver, statements
from adapters.sqlite.rows import fact
from domain.errors import StaleVersion
from domain.export import Chunk, ExportResult, GoneReason, JobId, Progress, Staged
from domain.instants import Instant
from domain.ports import Attempt

SQL: Final = statements.load("results")


class SqliteExportResults:
    """`ExportResults` in SQLite."""

    def __init__(self, connection: driver.Connection, now: Instant) -> None:
        self._connection = connection
        self._now = now

    def publish(self, result: ExportResult) -> None:
        """Keep the result of a job, and with it its attempt's chunks."""
        try:
            self._connection.execute(SQL["publish_result"], structs.asdict(result))
        except driver.IntegrityError as error:
            raise StaleVersion(current=0) from error
        self._connection.execute(SQL["publish_attempt"], {"job_id": result.job_id, "attempt": result.attempt})

    def find(self, job_id: JobId) -> ExportResult | None:
        """Return the job's result, gone or not."""
        row = self._connection.execute(SQL["find_result"], {"job_id": job_id}).fetchone()
        return fact(ExportResult, row) if row else None

    def mark_gone(self, job_id: JobId, *, reason: GoneReason) -> None:
        """Make the result unreadable as of now, and hand its chunks to the sweep."""
        self._connection.execute(SQL["mark_result_gone"], {"job_id": job_id, "now": self._now, "reason": reason})
        self._connection.execute(SQL["hand_to_sweep"], {"job_id": job_id, "needed_until": self._now})

    def expired(self, *, as_of: Instant, limit: int) -> list[ExportResult]:
        """Return results that expired at or before the instant and are not marked as gone."""
        rows = self._connection.execute(SQL["expired_results"], {"as_of": as_of, "limit": limit}).fetchall()
        return [fact(ExportResult, row) for row in rows]

    def mark_expired(self, job_id: JobId, *, needed_until: Instant) -> None:
        """Record that the result is gone since its `expires_at`, and hand its chunks to the sweep."""
        self._connection.execute(SQL["mark_result_expired"], {"job_id": job_id})
        self._connection.execute(SQL["hand_to_sweep"], {"job_id": job_id, "needed_until": needed_until})


class SqliteResultStore:
    """`ResultStore` in SQLite: chunks as rows, beside a row for each attempt that has not published them."""

    def __init__(self, connection: driver.Connection) -> None:
        self._connection = connection

    def stage(self, attempt: Attempt, chunk: Chunk, *, rows_total: int) -> None:
        """Keep one chunk."""
        bindings = structs.asdict(chunk) | _key(attempt) | {"rows_total": rows_total}
        try:
            self._connection.execute(SQL["stage_chunk"], bindings)
        except driver.IntegrityError as error:
            raise StaleVersion(current=chunk.seq) from error
        self._connection.execute(SQL["note_progress"], bindings)

    def staged(self, attempt: Attempt) -> Staged | None:
        """Return what is staged, counted anew; None when there is a gap, or nothing."""
        count, byte_count, row_count, payload_byte_count, first, last, end = self._connection.execute(
            SQL["staged"], _key(attempt)
        ).fetchone()
        if count == 0 or (first, last, end) != (0, count - 1, byte_count):
            return None
        if self._connection.execute(SQL["first_gap"], _key(attempt)).fetchone() is not None:
            return None
        return Staged(count, byte_count, row_count, payload_byte_count)

    def progress(self, attempt: Attempt) -> Progress | None:
        """Return how many rows of how many the attempt has staged."""
        row = self._connection.execute(SQL["progress"], _key(attempt)).fetchone()
        return fact(Progress, row) if row else None

    def read(self, attempt: Attempt, seq: int) -> Chunk | None:
        """Return one chunk as it is stored."""
        row = self._connection.execute(SQL["read_chunk"], _key(attempt) | {"seq": seq}).fetchone()
        return fact(Chunk, row) if row else None

    def lost(self, *, as_of: Instant, limit: int) -> list[Attempt]:
        """Return attempts whose bytes no one can need any more at the instant."""
        bindings = {"as_of": as_of, "limit": limit}
        return [fact(Attempt, row) for row in self._connection.execute(SQL["lost_attempts"], bindings)]

    def delete(self, attempt: Attempt, *, limit: int) -> bool:
        """Delete up to `limit` chunks of the attempt; tell whether none is left."""
        bindings = _key(attempt) | {"limit": limit}
        self._connection.execute(SQL["delete_chunks"], bindings)
        self._connection.execute(SQL["forget_attempt"], bindings)
        return self._connection.execute(SQL["has_chunks"], bindings).fetchone() is None


def _key(attempt: Attempt) -> dict[str, object]:
    return {"job_id": attempt.job_id, "attempt": attempt.number}
