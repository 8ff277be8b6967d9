"""`Imports`: stored in many transactions, visible in one, and never by half."""

import asyncio
from datetime import timedelta
from typing import Final

import pytest
from msgspec.structs import replace

from domain.account import OwnerId, User
from domain.errors import NotFound
from domain.instants import Instant
from domain.ports import Bulkhead, Store, UnitOfWork
from domain.task import Task, TaskFilter
from tests.adapters.conformance.conftest import Adapter
from tests.adapters.conformance.pauses import Pause
from tests.adapters.conformance.steps import keep_tasks
from tests.builders import a_task
from tests.fakes import START, ManualClock

EVERYTHING: Final = TaskFilter()


def tasks_of(owner_id: OwnerId, count: int, *, first: int = 1) -> list[Task]:
    """Return a file's worth of tasks."""
    return [a_task(owner_id, number) for number in range(first, first + count)]


def visible_in(uow: UnitOfWork, owner_id: OwnerId) -> list[Task]:
    """Return all tasks that the owner sees."""
    return uow.tasks.page(owner_id, EVERYTHING, after=None, limit=1000)


async def visible(store: Store, owner: User) -> list[Task]:
    """Return all tasks that the owner sees."""
    return await store.read(Bulkhead.TASKS, visible_in, owner.id)


async def stored(store: Store, owner: User, *batches: list[Task]) -> int:
    """Open an import and store batches of tasks in it, each in a transaction of its own; return its number."""
    number = await store.write(lambda uow: uow.imports.begin(owner.id))
    for batch in batches:
        await store.write(lambda uow, rows: uow.tasks.add_imported(number, rows), batch)
    return number


async def assert_refused(store: Store, owner: User, number: int) -> None:
    """Assert that the import can neither be added to nor published, and that trying changes nothing."""
    before = await visible(store, owner)
    with pytest.raises(NotFound):
        await store.write(lambda uow: uow.tasks.add_imported(number, tasks_of(owner.id, 2, first=900)))
    with pytest.raises(NotFound):
        await store.write(lambda uow: uow.imports.publish(number))
    assert await visible(store, owner) == before


async def test_an_open_import_is_invisible_to_every_verb(store: Store, adapter: Adapter, owner: User) -> None:
    """Its tasks are not found, listed, changed, removed or exported, by their own owner either."""
    (task,) = tasks = tasks_of(owner.id, 1)
    number = await stored(store, owner, tasks)
    assert await visible(store, owner) == []
    found, changed, removed = await store.write(
        lambda uow: (
            uow.tasks.find(owner.id, task.id),
            uow.tasks.save(task, replace(task, title="changed", version=2)),
            uow.tasks.remove(task),
        )
    )
    assert (found, changed, removed) == (None, False, False)
    with adapter.snapshots().open(owner.id, EVERYTHING) as snapshot:
        assert (snapshot.row_count, list(snapshot.batches())) == (0, [])
    await store.write(lambda uow: uow.imports.publish(number))
    assert await visible(store, owner) == [task]


async def test_publishing_shows_all_tasks_at_once_and_counts_them(store: Store, owner: User) -> None:
    """Every task of every batch is there, in order, beside what was there before."""
    tasks = tasks_of(owner.id, 7)
    await store.write(keep_tasks, tasks[3])
    number = await stored(store, owner, tasks[:3], tasks[4:])
    assert await store.write(lambda uow: uow.imports.publish(number)) == 6
    assert await visible(store, owner) == tasks


async def test_publishing_concerns_one_import(store: Store, owner: User) -> None:
    """Another import of the same owner stays invisible."""
    first = await stored(store, owner, tasks_of(owner.id, 2))
    second = await stored(store, owner, tasks_of(owner.id, 2, first=5))
    assert first != second
    await store.write(lambda uow: uow.imports.publish(first))
    assert await visible(store, owner) == tasks_of(owner.id, 2)


async def test_an_import_without_tasks_can_be_published(store: Store, owner: User) -> None:
    """There is nothing to show, and that is no fault."""
    number = await stored(store, owner)
    assert await store.write(lambda uow: uow.imports.publish(number)) == 0
    assert await visible(store, owner) == []


async def test_a_published_import_is_not_open_any_more(store: Store, owner: User) -> None:
    """It can be neither added to nor published again."""
    number = await stored(store, owner, tasks_of(owner.id, 2))
    await store.write(lambda uow: uow.imports.publish(number))
    await assert_refused(store, owner, number)


async def test_an_import_that_was_never_opened_is_refused(store: Store, owner: User) -> None:
    """A number that nobody was given is not an open import."""
    await assert_refused(store, owner, 4711)


async def test_a_publishing_transaction_that_fails_shows_nothing(store: Store, owner: User) -> None:
    """Rolled back, the import is open and invisible as before, and can be published later."""
    tasks = tasks_of(owner.id, 3)
    number = await stored(store, owner, tasks)

    def fail_after_publishing(uow: UnitOfWork) -> None:
        uow.imports.publish(number)
        raise LookupError

    with pytest.raises(LookupError):
        await store.write(fail_after_publishing)
    assert await visible(store, owner) == []
    assert await store.write(lambda uow: uow.imports.publish(number)) == 3


async def test_a_reader_sees_an_import_whole_or_not_at_all(store: Store, owner: User) -> None:
    """A read transaction that began before the publishing sees none of it to its end."""
    tasks = tasks_of(owner.id, 3)
    number = await stored(store, owner, tasks)
    pause = Pause()

    def look_twice(uow: UnitOfWork) -> tuple[list[Task], list[Task]]:
        before = visible_in(uow, owner.id)
        pause.here()
        return before, visible_in(uow, owner.id)

    looking = asyncio.ensure_future(store.read(Bulkhead.TASKS, look_twice))
    await pause.reached()
    await store.write(lambda uow: uow.imports.publish(number))
    pause.go_on()
    assert await looking == ([], [])
    assert await visible(store, owner) == tasks


async def test_a_discarded_import_goes_in_batches_and_is_then_forgotten(store: Store, owner: User) -> None:
    """Each call deletes up to its limit, and the one that leaves nothing says so."""
    number = await stored(store, owner, tasks_of(owner.id, 5))
    gone = [await store.write(lambda uow: uow.imports.discard(number, limit=2)) for _ in range(3)]
    assert gone == [False, False, True]
    assert await store.write(lambda uow: uow.imports.abandoned(before=Instant(START + 1), limit=9)) == []


async def test_a_discarded_import_leaves_nothing_behind(store: Store, owner: User) -> None:
    """The ids of its tasks are free: the same file can be imported again."""
    tasks = tasks_of(owner.id, 3)
    number = await stored(store, owner, tasks)
    assert await store.write(lambda uow: uow.imports.discard(number, limit=3))
    again = await stored(store, owner, tasks)
    await store.write(lambda uow: uow.imports.publish(again))
    assert await visible(store, owner) == tasks


async def test_the_first_discard_closes_an_import_for_good(store: Store, owner: User) -> None:
    """With tasks left to delete it can already be neither added to nor published."""
    number = await stored(store, owner, tasks_of(owner.id, 5))
    assert not await store.write(lambda uow: uow.imports.discard(number, limit=2))
    await assert_refused(store, owner, number)
    assert await visible(store, owner) == []


async def test_a_published_import_cannot_be_discarded(store: Store, owner: User) -> None:
    """Its tasks are the owner's; there is nothing left of the import, and the call says so."""
    tasks = tasks_of(owner.id, 3)
    number = await stored(store, owner, tasks)
    await store.write(lambda uow: uow.imports.publish(number))
    assert await store.write(lambda uow: uow.imports.discard(number, limit=9))
    assert await visible(store, owner) == tasks


async def test_discarding_touches_no_other_task(store: Store, owner: User) -> None:
    """Tasks that were made alone, published, or belong to another open import stay."""
    alone, published, opened = (tasks_of(owner.id, 2, first=first) for first in (1, 11, 21))
    await store.write(keep_tasks, *alone)
    first = await stored(store, owner, published)
    await store.write(lambda uow: uow.imports.publish(first))
    kept = await stored(store, owner, opened)
    number = await stored(store, owner, tasks_of(owner.id, 2, first=31))
    assert await store.write(lambda uow: uow.imports.discard(number, limit=9))
    assert await visible(store, owner) == [*alone, *published]
    assert await store.write(lambda uow: uow.imports.publish(kept)) == 2


async def test_abandoned_imports_are_those_opened_before_oldest_first(
    store: Store, owner: User, neighbour: User, clock: ManualClock
) -> None:
    """Published ones are not among them, and there are no more of them than asked for."""
    numbers = []
    for someone in (owner, neighbour, owner, owner):
        numbers.append(await stored(store, someone))
        clock.advance(timedelta(seconds=1))
    await store.write(lambda uow: uow.imports.publish(numbers[1]))

    async def abandoned(seconds: int, limit: int) -> list[int]:
        before = Instant(START + seconds * 1000)
        return await store.read(Bulkhead.TASKS, lambda uow: uow.imports.abandoned(before=before, limit=limit))

    assert await abandoned(0, 9) == []
    assert await abandoned(3, 9) == [numbers[0], numbers[2]]
    assert await abandoned(9, 9) == [numbers[0], numbers[2], numbers[3]]
    assert await abandoned(9, 1) == [numbers[0]]


async def test_an_import_whose_discard_was_interrupted_is_still_abandoned(store: Store, owner: User) -> None:
    """What is left of it is found again, so that no task of it stays behind."""
    number = await stored(store, owner, tasks_of(owner.id, 5))
    assert not await store.write(lambda uow: uow.imports.discard(number, limit=2))
    assert await store.read(Bulkhead.TASKS, lambda uow: uow.imports.abandoned(before=Instant(START + 1), limit=9)) == [
        number
    ]


async def test_numbers_of_imports_never_come_back(store: Store, owner: User) -> None:
    """A number that was given again would hide tasks that are visible."""
    numbers = []
    for _ in range(3):
        numbers.append(await stored(store, owner))
        await store.write(lambda uow: uow.imports.publish(numbers[-1]))
    assert len(set(numbers)) == 3
