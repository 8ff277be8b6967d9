"""What admission asks: how much waits, how fast it is done, how much room there is."""

from datetime import timedelta
from pathlib import Path
from shutil import disk_usage
from typing import Final

from adapters.sqlite import driver, statements
from domain.account import OwnerId
from domain.admission import Drained
from domain.errors import StoreUnavailable
from domain.instants import Instant, between
from domain.ports import StorageUsage

SQL: Final = statements.load("load")
_NO_TIME: Final = timedelta(milliseconds=1)


class SqliteExportLoad:
    """`ExportLoad` in SQLite."""

    def __init__(self, connection: driver.Connection, now: Instant) -> None:
        self._connection = connection
        self._now = now

    def pending(self, *, most: int) -> int:
        """Return how many jobs are queued."""
        return self._count("count_pending", most=most)

    def active(self, owner_id: OwnerId, *, most: int) -> int:
        """Return how many of the owner's jobs have not ended."""
        return self._count("count_active", owner_id=owner_id, most=most)

    def oldest_available_at(self) -> Instant | None:
        """Return since when the job that has waited for longest has been available."""
        (found,) = self._connection.execute(SQL["oldest_available"], {"now": self._now}).fetchone()
        return None if found is None else Instant(found)

    def ended(self, *, since: Instant, most: int) -> Drained:
        """Return how many jobs workers have brought to an end."""
        bindings = {"since": since, "now": self._now, "most": most}
        ended, looked_at, first = self._connection.execute(SQL["count_ended"], bindings).fetchone()
        begin = Instant(first) if looked_at == most else since
        return Drained(ended, max(between(begin, self._now), _NO_TIME))

    def _count(self, name: str, **bindings: int) -> int:
        return int(self._connection.execute(SQL[name], bindings).fetchone()[0])


class SqliteStorage:
    """`Storage` of one SQLite file and the volume on which it lies."""

    def __init__(self, connection: driver.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def usage(self) -> StorageUsage:
        """Return the bytes in use and the bytes that are left."""
        in_use = int(self._connection.execute(SQL["bytes_in_use"]).fetchone()[0])
        try:
            # Of the folder: the file itself is only ever opened through SQLite.
            free = disk_usage(self._path.parent).free
        except OSError as error:
            raise StoreUnavailable(f"the volume of the database cannot be asked: {error.strerror}") from error
        return StorageUsage(in_use, free)
