"""What operators ask: any owner's jobs by what became of them, and how the queue does as a whole."""

from heapq import merge
from itertools import islice
from typing import Final

from adapters.sqlite import driver, statements
from adapters.sqlite.exports import SqliteExportJobs
from domain.export import ExportJob, JobId, JobStatus
from domain.instants import EARLIEST, LATEST, Instant
from domain.pages import Position
from domain.ports import Happened, JobFilter, RunningJob

SQL: Final = statements.load("directory")


class SqliteJobDirectory:
    """`JobDirectory` in SQLite. A page merges the first few of each status."""

    def __init__(self, connection: driver.Connection, now: Instant) -> None:
        self._connection = connection
        self._now = now
        self._jobs = SqliteExportJobs(connection, now)

    def page(self, chosen: JobFilter, *, before: Position | None, limit: int) -> list[ExportJob]:
        """Return up to `limit` of the jobs that the filter selects, newest first, from before the position."""
        found = merge(
            *(
                self._of_status(status, chosen, before=before, limit=limit)
                for status in sorted(chosen.status or JobStatus)
            ),
            reverse=True,
        )
        jobs = (self._jobs.get(JobId(job_id)) for _, job_id in islice(found, limit))
        return [job for job in jobs if job is not None]

    def count(self, status: JobStatus, *, most: int) -> int:
        """Return how many jobs have this status, counted up to `most`."""
        statement = SQL["number_ended"] if status.is_terminal else SQL["number_active"]
        return int(self._connection.execute(statement, {"status": status.value, "most": most}).fetchone()[0])

    def running(self, *, limit: int) -> list[RunningJob]:
        """Return what is under lease, those whose lease ends first before others."""
        return [RunningJob(*row) for row in self._connection.execute(SQL["running_jobs"], {"limit": limit})]

    def happened(self, *, since: Instant) -> Happened:
        """Return how many jobs came, and how many ended in which way."""
        return Happened(*self._connection.execute(SQL["happened"], {"since": since, "now": self._now}).fetchone())

    def workers(self, *, since: Instant) -> dict[str, Instant]:
        """Return when each worker last changed a job."""
        return dict(self._connection.execute(SQL["workers_seen"], {"since": since, "now": self._now}).fetchall())

    def _of_status(
        self, status: JobStatus, chosen: JobFilter, *, before: Position | None, limit: int
    ) -> list[tuple[int, str]]:
        # Whatever was made before an instant stands before the place of the smallest id at that instant.
        places = [(before.created_at, before.id)] if before else []
        places += [(chosen.created_before, "")] if chosen.created_before is not None else []
        created_at, job_id = min(places, default=(LATEST + 1, ""))
        bindings = {
            "status": status.value,
            "owner_id": chosen.owner_id,
            "code": chosen.code,
            "before_created_at": created_at,
            "before_id": job_id,
            "created_after": EARLIEST - 1 if chosen.created_after is None else chosen.created_after,
            "finished_before": chosen.finished_before,
            "finished_after": chosen.finished_after,
            "limit": limit,
        }
        return self._connection.execute(_statement(status, chosen), bindings).fetchall()


def _statement(status: JobStatus, chosen: JobFilter) -> str:
    if not status.is_terminal:
        return SQL["active_jobs"]
    return SQL["ended_jobs"] if chosen.owner_id is None else SQL["ended_jobs_of_owner"]
