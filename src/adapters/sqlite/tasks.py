"""Tasks, imports and idempotency keys: rows to facts and back."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import structs
from msgspec.json import encode

from adapters.sqlite import driver, statements
from adapters.sqlite.rows import fact
from domain.account import OwnerId
from domain.errors import NotFound
from domain.instants import EARLIEST, Instant
from domain.pages import Position
from domain.ports import KeyedOutcome
from domain.task import Task, TaskFilter

SQL: Final = statements.load("tasks")
_START: Final = Position(Instant(EARLIEST - 1), "")


class SqliteTasks:
    """`Tasks` in SQLite."""

    def __init__(self, connection: driver.Connection) -> None:
        self._connection = connection

    def add(self, task: Task) -> None:
        """Keep a new task."""
        self._connection.execute(SQL["add_task"], structs.asdict(task) | {"import_id": None})

    def add_imported(self, import_id: int, tasks: Sequence[Task]) -> None:
        """Keep tasks that stay invisible until their import is published."""
        if self._connection.execute(SQL["import_is_open"], {"import_id": import_id}).fetchone() is None:
            raise NotFound("the import is not open any more")
        rows = (structs.asdict(task) | {"import_id": import_id} for task in tasks)
        self._connection.executemany(SQL["add_task"], rows)

    def find(self, owner_id: OwnerId, task_id: str) -> Task | None:
        """Return the owner's task."""
        row = self._connection.execute(SQL["find_task"], {"owner_id": owner_id, "id": task_id}).fetchone()
        return fact(Task, row) if row else None

    def page(self, owner_id: OwnerId, chosen: TaskFilter, *, after: Position | None, limit: int) -> list[Task]:
        """Return up to `limit` of the owner's tasks, in order, from after the position."""
        position = after or _START
        bindings = filter_bindings(owner_id, chosen) | {
            "after_created_at": position.created_at,
            "after_id": position.id,
            "limit": limit,
        }
        return [fact(Task, row) for row in self._connection.execute(SQL["page_tasks"], bindings)]

    def save(self, before: Task, after: Task) -> bool:
        """Replace the task if its stored version is still that of `before`."""
        bindings = structs.asdict(after) | {"expected_version": before.version}
        return self._connection.execute(SQL["save_task"], bindings).rowcount == 1

    def remove(self, task: Task) -> bool:
        """Delete the task if its stored version is still that of `task`."""
        bindings = {"id": task.id, "owner_id": task.owner_id, "expected_version": task.version}
        return self._connection.execute(SQL["remove_task"], bindings).rowcount == 1


def filter_bindings(owner_id: OwnerId, chosen: TaskFilter) -> dict[str, Any]:
    """Return the values that the filter's conditions are bound to; a list is JSON text, or NULL when it is empty."""
    return {
        "owner_id": owner_id,
        "status": encode(chosen.status).decode() if chosen.status else None,
        "priority": encode(chosen.priority).decode() if chosen.priority else None,
        "due_before": chosen.due_before,
        "due_after": chosen.due_after,
        "created_before": chosen.created_before,
        "created_after": chosen.created_after,
        "updated_since": chosen.updated_since,
    }


class SqliteIdempotencyKeys:
    """`IdempotencyKeys` in SQLite."""

    def __init__(self, connection: driver.Connection, now: Instant) -> None:
        self._connection = connection
        self._now = now

    def find(self, owner_id: OwnerId, route: str, request_key: str) -> KeyedOutcome | None:
        """Return the outcome that this key came to."""
        bindings = {"owner_id": owner_id, "route": route, "request_key": request_key}
        row = self._connection.execute(SQL["find_outcome"], bindings).fetchone()
        return fact(KeyedOutcome, row) if row else None

    def add(self, outcome: KeyedOutcome) -> None:
        """Keep an outcome, as of now."""
        self._connection.execute(SQL["add_outcome"], structs.asdict(outcome) | {"now": self._now})

    def forget(self, *, before: Instant, limit: int) -> int:
        """Delete up to `limit` outcomes that were kept at or before the instant."""
        return self._connection.execute(SQL["forget_outcomes"], {"before": before, "limit": limit}).rowcount


class SqliteImports:
    """`Imports` in SQLite."""

    def __init__(self, connection: driver.Connection, now: Instant) -> None:
        self._connection = connection
        self._now = now

    def begin(self, owner_id: OwnerId) -> int:
        """Open an import and return its number."""
        row = self._connection.execute(SQL["begin_import"], {"owner_id": owner_id, "now": self._now}).fetchone()
        return int(row[0])

    def publish(self, import_id: int) -> int:
        """Make the import's tasks visible and return how many there are."""
        count = self._connection.execute(SQL["count_imported"], {"import_id": import_id}).fetchone()[0]
        if self._connection.execute(SQL["publish_import"], {"import_id": import_id}).rowcount != 1:
            raise NotFound("the import is not open any more")
        return int(count)

    def abandoned(self, *, before: Instant, limit: int) -> list[int]:
        """Return imports that were opened before the instant and never published."""
        bindings = {"before": before, "limit": limit}
        return [row[0] for row in self._connection.execute(SQL["abandoned_imports"], bindings)]

    def discard(self, import_id: int, *, limit: int) -> bool:
        """Delete up to `limit` of an unpublished import's tasks; return True once the import is gone or published."""
        bindings = {"import_id": import_id, "now": self._now, "limit": limit}
        self._connection.execute(SQL["discard_import"], bindings)
        self._connection.execute(SQL["remove_imported_tasks"], bindings)
        self._connection.execute(SQL["forget_import"], bindings)
        return self._connection.execute(SQL["import_is_left"], bindings).fetchone() is None
