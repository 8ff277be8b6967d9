"""The lease of maintenance, and what is removed for good: rows to facts and back."""

from typing import Final

from msgspec import structs

from adapters.sqlite import driver, statements
from adapters.sqlite.rows import fact
from domain.errors import StaleVersion
from domain.export import JobId
from domain.instants import Instant
from domain.maintenance import MaintenanceGrant

SQL: Final = statements.load("maintenance")


class SqliteMaintenanceLease:
    """`MaintenanceLease` in SQLite: a table of one row."""

    def __init__(self, connection: driver.Connection) -> None:
        self._connection = connection

    def last(self) -> MaintenanceGrant | None:
        """Return the last grant, live or not."""
        row = self._connection.execute(SQL["last_grant"]).fetchone()
        return fact(MaintenanceGrant, row) if row else None

    def grant(self, made: MaintenanceGrant) -> None:
        """Keep a grant as the last one."""
        if self._connection.execute(SQL["grant_maintenance"], structs.asdict(made)).rowcount != 1:
            raise StaleVersion(current=made.number)


class SqliteRetention:
    """`Retention` in SQLite."""

    def __init__(self, connection: driver.Connection) -> None:
        self._connection = connection

    def ended(self, *, before: Instant, limit: int) -> list[JobId]:
        """Return jobs that ended at or before the instant and that nothing but their history is left of."""
        bindings = {"before": before, "limit": limit}
        return [row[0] for row in self._connection.execute(SQL["forgettable_jobs"], bindings).fetchall()]

    def forget(self, job_id: JobId) -> None:
        """Delete a job, with its history and the record of its result."""
        for name in ("forget_events", "forget_result", "forget_job"):
            self._connection.execute(SQL[name], {"job_id": job_id})

    def give_back(self, *, pages: int) -> int:
        """Return up to so many free pages to the file system; the file shrinks when the WAL is checkpointed."""
        before = self._free_pages()
        if before:
            # It frees one page a step, so it has to be stepped to its end.
            self._connection.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()
        return before - self._free_pages()

    def _free_pages(self) -> int:
        return int(self._connection.execute("PRAGMA freelist_count").fetchone()[0])
