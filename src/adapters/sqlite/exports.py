"""Jobs, their history and the line that they wait in: rows to facts and back."""

from typing import Any, Final

from msgspec import structs
from msgspec.json import encode

from adapters.sqlite import driver, statements
from adapters.sqlite.rows import fact
from domain.account import OwnerId
from domain.errors import StaleVersion
from domain.export import ExportJob, HistoryEntry, JobId, JobStatus
from domain.instants import LATEST, Instant
from domain.lifecycle import Transition
from domain.pages import Position

SQL: Final = statements.load("exports")
_END: Final = Position(Instant(LATEST + 1), "")
# How many jobs whose backoff is over one claim puts in line: more than it takes, so that none waits for long.
_DUE_AT_ONCE: Final = 16


class SqliteExportJobs:
    """`ExportJobs` in SQLite. What a claim will look at is kept by `save`, in the same transaction as the job."""

    def __init__(self, connection: driver.Connection, now: Instant) -> None:
        self._connection = connection
        self._now = now

    def save(self, transition: Transition) -> None:
        """Store one step of the protocol and append its line of history."""
        before, after = transition.before, transition.after
        waits = after.status is JobStatus.QUEUED and after.available_at <= self._now
        bindings = structs.asdict(after) | {"in_line": int(waits)}
        waited = False
        if before is None:
            self._insert(bindings)
        else:
            waited = self._is_in_line(before.id)
            changed = self._connection.execute(SQL["save_job"], bindings | {"expected_version": before.version})
            if changed.rowcount != 1:
                raise StaleVersion(current=after.version)
        if waits and not waited:
            _join_line(self._connection, after.owner_id)
        if waited and not waits:
            self._connection.execute(SQL["leave_line"], {"owner_id": after.owner_id})
        if waited and after.status is JobStatus.RUNNING:
            turn_now = _turn_now(self._connection)
            self._connection.execute(SQL["take_turn"], {"owner_id": after.owner_id, "turn_now": turn_now})
        self._count_running(before, after)
        self._connection.execute(SQL["append_event"], structs.asdict(transition.entry))

    def get(self, job_id: JobId) -> ExportJob | None:
        """Return the job whoever owns it."""
        row = self._connection.execute(SQL["get_job"], {"id": job_id}).fetchone()
        return fact(ExportJob, row) if row else None

    def find(self, owner_id: OwnerId, job_id: str) -> ExportJob | None:
        """Return the owner's job."""
        row = self._connection.execute(SQL["find_job"], {"owner_id": owner_id, "id": job_id}).fetchone()
        return fact(ExportJob, row) if row else None

    def find_by_key(self, owner_id: OwnerId, request_key: str) -> ExportJob | None:
        """Return the owner's job that was asked for under this key."""
        bindings = {"owner_id": owner_id, "request_key": request_key}
        row = self._connection.execute(SQL["find_job_by_key"], bindings).fetchone()
        return fact(ExportJob, row) if row else None

    def page(
        self, owner_id: OwnerId, status: frozenset[JobStatus], *, before: Position | None, limit: int
    ) -> list[ExportJob]:
        """Return up to `limit` of the owner's jobs, newest first, from before the position."""
        position = before or _END
        bindings = {
            "owner_id": owner_id,
            "status": encode(sorted(status)).decode() if status else None,
            "before_created_at": position.created_at,
            "before_id": position.id,
            "limit": limit,
        }
        return [fact(ExportJob, row) for row in self._connection.execute(SQL["page_jobs"], bindings)]

    def history(self, job_id: JobId) -> list[HistoryEntry]:
        """Return every saved change of the job, oldest first."""
        rows = self._connection.execute(SQL["history"], {"job_id": job_id})
        return [fact(HistoryEntry, row) for row in rows]

    def _count_running(self, before: ExportJob | None, after: ExportJob) -> None:
        # A claim of a job whose lease is dead changes nothing: it had its place among the running ones already.
        ran = before is not None and before.status is JobStatus.RUNNING
        runs = after.status is JobStatus.RUNNING
        if runs != ran:
            self._connection.execute(SQL["begin_running" if runs else "end_running"], {"owner_id": after.owner_id})

    def _insert(self, bindings: dict[str, Any]) -> None:
        try:
            self._connection.execute(SQL["add_job"], bindings)
        except driver.IntegrityError as error:
            raise StaleVersion(current=0) from error

    def _is_in_line(self, job_id: JobId) -> bool:
        row = self._connection.execute(SQL["is_in_line"], {"id": job_id}).fetchone()
        return bool(row and row[0])


class SqliteExportQueue:
    """`ExportQueue` in SQLite: owners by start-time fair queueing, one job of each."""

    def __init__(self, connection: driver.Connection, now: Instant) -> None:
        self._connection = connection
        self._now = now

    def has_candidates(self, *, longest_lease_until: Instant, running_limit: int) -> bool:
        """Tell whether `candidates` would find any."""
        bindings = {"now": self._now, "longest_lease_until": longest_lease_until, "running_limit": running_limit}
        return bool(self._connection.execute(SQL["has_candidates"], bindings).fetchone()[0])

    def candidates(self, *, longest_lease_until: Instant, running_limit: int, limit: int) -> list[ExportJob]:
        """Return jobs that a claim may take, best first; put in line those whose backoff is over."""
        self._let_due_jobs_join()
        bindings = {
            "now": self._now,
            "longest_lease_until": longest_lease_until,
            "running_limit": running_limit,
            "limit": limit,
        }
        return [
            fact(ExportJob, row)
            for name in ("dead_leases", "frozen_leases", "next_in_line")
            for row in self._connection.execute(SQL[name], bindings).fetchall()
        ][:limit]

    def hopeless(self, *, as_of: Instant, longest_lease_until: Instant, limit: int) -> list[ExportJob]:
        """Return jobs that can never succeed any more."""
        bindings = {"as_of": as_of, "longest_lease_until": longest_lease_until, "limit": limit}
        # A job can be both late and spent; it is one job.
        found = {
            row[0]: fact(ExportJob, row)
            for name in ("late_jobs", "spent_jobs")
            for row in self._connection.execute(SQL[name], bindings).fetchall()
        }
        return list(found.values())[:limit]

    def _let_due_jobs_join(self) -> None:
        bindings = {"now": self._now, "limit": _DUE_AT_ONCE}
        for job_id, owner_id in self._connection.execute(SQL["due_from_backoff"], bindings).fetchall():
            self._connection.execute(SQL["put_in_line"], {"id": job_id})
            _join_line(self._connection, owner_id)


def _join_line(connection: driver.Connection, owner_id: OwnerId) -> None:
    connection.execute(SQL["join_line"], {"owner_id": owner_id, "turn_now": _turn_now(connection)})


def _turn_now(connection: driver.Connection) -> int:
    return int(connection.execute(SQL["turn_now"]).fetchone()[0])
