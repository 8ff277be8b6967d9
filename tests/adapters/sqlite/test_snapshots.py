"""The last check of who owns a row: on every row that is read for a file."""

from pathlib import Path
from typing import cast

import pytest

from adapters.sqlite.snapshots import SqliteTaskSnapshots
from adapters.sqlite.store import SqliteStore
from domain.account import OwnerId, User
from domain.errors import OwnershipViolation, StoreUnavailable
from domain.task import TaskFilter
from tests.adapters.conformance.steps import keep_tasks
from tests.builders import a_task
from tests.fakes import ManualClock


async def test_a_row_whose_owner_is_not_the_one_who_asks_is_an_alarm(
    store: SqliteStore, database: Path, owner: User
) -> None:
    """No statement gives one, so this one asks as an owner whom only SQLite takes for the right one."""
    await store.write(keep_tasks, a_task(owner.id))
    impostor = cast("OwnerId", str(owner.id))
    with SqliteTaskSnapshots(database, clock=ManualClock()).open(impostor, TaskFilter()) as snapshot:
        assert snapshot.row_count == 1
        with pytest.raises(OwnershipViolation):
            list(snapshot.batches())


def test_a_database_that_is_not_there_has_no_snapshot(tmp_path: Path) -> None:
    """`StoreUnavailable`, and no file is made."""
    snapshots = SqliteTaskSnapshots(tmp_path / "lost.db", clock=ManualClock())
    with pytest.raises(StoreUnavailable), snapshots.open(OwnerId(1), TaskFilter()):
        pass
    assert not (tmp_path / "lost.db").exists()
