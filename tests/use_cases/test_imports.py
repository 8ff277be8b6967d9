"""Imports: stored in short transactions, shown in one, remembered under a key, and taken back when they die."""

from pathlib import Path
from typing import Final

import pytest

from adapters.sqlite.store import SqliteStore
from domain.account import OwnerId, User
from domain.errors import IdempotencyConflict, InvalidInput, NotFound
from domain.ports import Bulkhead, KeyedOutcome
from domain.task import NewTask, Task, TaskFilter, TaskId
from domain.use_cases.imports import (
    IMPORT_ROUTE,
    begin_import,
    discard_import,
    publish_import,
    store_batch,
)
from domain.use_cases.tasks import list_tasks
from tests.builders import a_new_task, an_id
from tests.fakes import START
from tests.use_cases.bench import contents

UNKEYED: Final = None


def rows(count: int, *, first: int = 1) -> list[tuple[TaskId, NewTask]]:
    """Return rows of a file with the ids that their tasks get."""
    numbers = range(first, first + count)
    return [(TaskId(an_id(number)), a_new_task(title=f"Row {number}")) for number in numbers]


def keyed(owner_id: OwnerId, *, key: str = "key-1", digest: str = "d", text: str = "{}") -> KeyedOutcome:
    """Return what an import is to be remembered by."""
    return KeyedOutcome(owner_id, IMPORT_ROUTE, key, digest, "import-1", text)


async def visible(store: SqliteStore, owner: User) -> list[Task]:
    """Return the owner's tasks."""
    return (await store.read(Bulkhead.TASKS, list_tasks, owner.id, TaskFilter(), after=None, limit=99)).items


async def stored(store: SqliteStore, owner: User, count: int = 3, *, first: int = 1) -> int:
    """Store an import that is not published yet; return its number."""
    number = await store.write(begin_import, owner.id)
    await store.write(store_batch, owner.id, number, rows(count, first=first))
    return number


async def test_an_import_shows_all_its_tasks_at_once(store: SqliteStore, owner: User, neighbour: User) -> None:
    """None before it is published, every one afterwards, as of their storing, and to their owner only."""
    number = await store.write(begin_import, owner.id)
    for first in (1, 3):
        await store.write(store_batch, owner.id, number, rows(2, first=first))
        assert await visible(store, owner) == []
    assert await store.write(publish_import, owner.id, number, keyed=UNKEYED) is None
    tasks = await visible(store, owner)
    assert [(task.id, task.title) for task in tasks] == [(an_id(n), f"Row {n}") for n in range(1, 5)]
    assert {(task.created_at, task.updated_at, task.version) for task in tasks} == {(START, START, 1)}
    assert await visible(store, neighbour) == []


async def test_a_batch_with_an_unsound_row_is_not_stored(store: SqliteStore, database: Path, owner: User) -> None:
    """None of its rows is."""
    number = await store.write(begin_import, owner.id)
    before = contents(database)
    with pytest.raises(InvalidInput, match="/title"):
        await store.write(store_batch, owner.id, number, [*rows(2), (TaskId(an_id(9)), a_new_task(title=""))])
    assert contents(database) == before


async def test_an_import_under_a_key_is_published_once(store: SqliteStore, owner: User) -> None:
    """The second one is answered with the outcome of the first, and can then be taken back."""
    first = await stored(store, owner)
    outcome = keyed(owner.id, text='{"imported":3}')
    assert await store.write(publish_import, owner.id, first, keyed=outcome) is None
    shown = await visible(store, owner)
    second = await stored(store, owner, first=11)
    again = keyed(owner.id, text='{"imported":99}')
    assert await store.write(publish_import, owner.id, second, keyed=again) == outcome
    assert await visible(store, owner) == shown
    assert await store.write(discard_import, second, limit=99)
    assert await visible(store, owner) == shown


async def test_a_key_for_another_file_is_refused_and_shows_nothing(
    store: SqliteStore, database: Path, owner: User
) -> None:
    """`IdempotencyConflict`, and nothing changes."""
    first = await stored(store, owner)
    await store.write(publish_import, owner.id, first, keyed=keyed(owner.id))
    second = await stored(store, owner, first=11)
    before = contents(database)
    with pytest.raises(IdempotencyConflict):
        await store.write(publish_import, owner.id, second, keyed=keyed(owner.id, digest="e"))
    assert contents(database) == before


async def test_a_key_is_not_remembered_for_an_import_that_was_taken_back(
    store: SqliteStore, database: Path, owner: User
) -> None:
    """Publishing fails as a whole: the key is free, and the next import under it is published."""
    first = await stored(store, owner)
    assert not await store.write(discard_import, first, limit=1)
    with pytest.raises(NotFound):
        await store.write(publish_import, owner.id, first, keyed=keyed(owner.id))
    assert contents(database)["idempotency_keys"] == []
    second = await stored(store, owner, first=11)
    assert await store.write(publish_import, owner.id, second, keyed=keyed(owner.id)) is None
    assert len(await visible(store, owner)) == 3


async def test_another_owner_can_use_the_key(store: SqliteStore, owner: User, neighbour: User) -> None:
    """A key belongs to whoever made it up."""
    for number, someone in enumerate((owner, neighbour)):
        opened = await stored(store, someone, first=1 + 10 * number)
        assert await store.write(publish_import, someone.id, opened, keyed=keyed(someone.id)) is None


async def test_taking_back_what_was_published_comes_to_an_end(store: SqliteStore, owner: User) -> None:
    """Whoever could not tell whether its publishing was committed takes it back without harm and without end."""
    number = await stored(store, owner)
    await store.write(publish_import, owner.id, number, keyed=UNKEYED)
    assert await store.write(discard_import, number, limit=2)
    assert len(await visible(store, owner)) == 3
