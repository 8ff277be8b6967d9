"""Long reads for exports: one statement in one read transaction, on a connection that nothing else uses."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from adapters.sqlite import driver
from adapters.sqlite.tasks import SQL, filter_bindings
from domain.account import OwnerId
from domain.errors import OwnershipViolation
from domain.instants import Instant
from domain.ports import Clock, TaskRow
from domain.task import TaskFilter

# Rows a batch: enough that the loop around them costs nothing, few enough that a batch of the longest is bounded.
_BATCH: Final = 256


class SqliteTaskSnapshot:
    """`TaskSnapshot` on an open read transaction."""

    def __init__(self, connection: driver.Connection, bindings: dict[str, Any], *, snapshot_at: Instant) -> None:
        self.snapshot_at = snapshot_at
        # The first read opens the snapshot; the count and the rows are of the same one.
        self.row_count = int(connection.execute(SQL["count_snapshot_tasks"], bindings).fetchone()[0])
        self._connection = connection
        self._bindings = bindings

    def batches(self) -> Iterator[Sequence[TaskRow]]:
        """Yield the rows in bounded batches."""
        owner_id = self._bindings["owner_id"]
        try:
            rows = self._connection.execute(SQL["snapshot_tasks"], self._bindings)
            while batch := rows.fetchmany(_BATCH):
                if any(row[-1] != owner_id for row in batch):
                    raise OwnershipViolation("a task of another owner was read")
                yield batch
        except driver.Error as error:
            raise driver.translated(error) from error


class SqliteTaskSnapshots:
    """`TaskSnapshots` in SQLite."""

    def __init__(self, path: Path, *, clock: Clock) -> None:
        self._path = path
        self._clock = clock

    @contextmanager
    def open(self, owner_id: OwnerId, chosen: TaskFilter) -> Iterator[SqliteTaskSnapshot]:
        """Open a snapshot on a connection of its own."""
        connection = driver.connect(self._path, read_only=True)
        try:
            snapshot_at = self._clock.now()
            connection.execute("BEGIN")
            yield SqliteTaskSnapshot(connection, filter_bindings(owner_id, chosen), snapshot_at=snapshot_at)
        except driver.Error as error:
            raise driver.translated(error) from error
        finally:
            connection.close()
