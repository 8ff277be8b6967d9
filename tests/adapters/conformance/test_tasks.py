"""`Tasks`: the owner is part of every question, one order serves all reading, and every change is a compare-and-set."""

from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec.structs import replace

from domain.account import User
from domain.instants import EARLIEST, LATEST, Instant
from domain.pages import Position
from domain.ports import Bulkhead, Store
from domain.task import Task, TaskFilter, TaskStatus
from tests.adapters.conformance.selections import CHOSEN, SETS_OF_TASKS, owned_by, selected
from tests.adapters.conformance.steps import keep_tasks
from tests.builders import a_task, an_id
from tests.fakes import START, SequentialRandomness

EVERYTHING: Final = TaskFilter()


async def page(
    store: Store,
    owner: User,
    chosen: TaskFilter = EVERYTHING,
    *,
    after: Position | None = None,
    limit: int = 100,
) -> list[Task]:
    """Return a page of the owner's tasks."""
    return await store.read(Bulkhead.TASKS, lambda uow: uow.tasks.page(owner.id, chosen, after=after, limit=limit))


async def find(store: Store, owner: User, task: Task) -> Task | None:
    """Return the owner's task of that id."""
    return await store.read(Bulkhead.TASKS, lambda uow: uow.tasks.find(owner.id, task.id))


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"title": "é\U0001f600 \"'\r\n\t,=", "description": " \ufeff\u2028 "},
        {"title": "x" * 500, "description": "\U0001f600" * 100_000},
        {"due_at": EARLIEST, "created_at": LATEST, "updated_at": EARLIEST},
        {"status": TaskStatus.DONE, "priority": 1, "version": 7, "due_at": Instant(0)},
    ],
)
async def test_a_task_is_kept_exactly(store: Store, owner: User, members: dict[str, Any]) -> None:
    """Every member is read back equal: text to the last character, instants to the ends of their range."""
    task = a_task(owner.id, **members)
    await store.write(keep_tasks, task)
    assert await find(store, owner, task) == task
    assert await page(store, owner) == [task]


async def test_another_owners_task_is_not_there(store: Store, owner: User, neighbour: User) -> None:
    """Neither found nor listed, changed nor removed by whoever does not own it."""
    task = a_task(owner.id)
    foreign = replace(task, owner_id=neighbour.id)
    await store.write(keep_tasks, task)
    assert await find(store, neighbour, task) is None
    assert await page(store, neighbour) == []
    changed, removed = await store.write(
        lambda uow: (uow.tasks.save(foreign, replace(foreign, title="Mine", version=2)), uow.tasks.remove(foreign))
    )
    assert (changed, removed) == (False, False)
    assert await find(store, owner, task) == task


async def test_an_unknown_task_is_not_there(store: Store, owner: User) -> None:
    """`find` of an id that was never kept, or in another spelling, is None."""
    await store.write(keep_tasks, a_task(owner.id, 10))
    found = await store.read(
        Bulkhead.TASKS,
        lambda uow: [uow.tasks.find(owner.id, task_id) for task_id in (an_id(1), an_id(10).upper(), "", "x")],
    )
    assert found == [None] * 4


async def test_saving_replaces_every_member_that_can_change(store: Store, owner: User) -> None:
    """After `save` the task reads as the one that was saved."""
    before = a_task(owner.id, due_at=Instant(5))
    after = replace(
        before,
        title="Other",
        description="text",
        status=TaskStatus.DONE,
        priority=1,
        due_at=None,
        updated_at=Instant(START + 99),
        version=2,
    )
    await store.write(keep_tasks, before)
    assert await store.write(lambda uow: uow.tasks.save(before, after))
    assert await find(store, owner, before) == after


async def test_saving_over_another_version_changes_nothing_and_says_so(store: Store, owner: User) -> None:
    """The second of two changes that began from the same version is refused."""
    before = a_task(owner.id)
    first, second = (replace(before, title=title, version=2) for title in ("first", "second"))
    await store.write(keep_tasks, before)
    assert await store.write(lambda uow: uow.tasks.save(before, first))
    assert not await store.write(lambda uow: uow.tasks.save(before, second))
    assert await find(store, owner, before) == first


async def test_saving_a_task_that_is_not_there_says_so(store: Store, owner: User) -> None:
    """`save` makes no task."""
    task = a_task(owner.id)
    assert not await store.write(lambda uow: uow.tasks.save(task, replace(task, version=2)))
    assert await page(store, owner) == []


async def test_removing_deletes_the_one_task(store: Store, owner: User) -> None:
    """After `remove` the task is not there, and its neighbour is."""
    gone, kept = a_task(owner.id, 1), a_task(owner.id, 2)
    await store.write(keep_tasks, gone, kept)
    assert await store.write(lambda uow: uow.tasks.remove(gone))
    assert await page(store, owner) == [kept]
    assert not await store.write(lambda uow: uow.tasks.remove(gone))


async def test_removing_another_version_changes_nothing_and_says_so(store: Store, owner: User) -> None:
    """`remove` is a compare-and-set like `save`."""
    task = a_task(owner.id, version=2)
    await store.write(keep_tasks, task)
    assert not await store.write(lambda uow: uow.tasks.remove(replace(task, version=1)))
    assert await page(store, owner) == [task]


async def test_tasks_come_by_creation_and_then_by_id(store: Store, owner: User) -> None:
    """The order of a page is that of `Position`, whatever the order of adding."""
    tasks = [a_task(owner.id, number, created_at=Instant(at)) for number, at in ((3, 2), (1, 2), (4, 1), (2, 3))]
    await store.write(keep_tasks, *tasks)
    assert [(task.created_at, task.id) for task in await page(store, owner)] == [
        (1, an_id(4)),
        (2, an_id(1)),
        (2, an_id(3)),
        (3, an_id(2)),
    ]


async def test_a_page_ends_at_its_limit_and_begins_after_its_position(store: Store, owner: User) -> None:
    """The position itself need not be that of a task any more."""
    tasks = [a_task(owner.id, number, created_at=Instant(7)) for number in range(1, 6)]
    await store.write(keep_tasks, *tasks)
    assert await page(store, owner, limit=2) == tasks[:2]
    position = Position(tasks[1].created_at, tasks[1].id)
    await store.write(lambda uow: uow.tasks.remove(tasks[1]))
    assert await page(store, owner, after=position, limit=2) == tasks[2:4]
    assert await page(store, owner, after=Position(Instant(7), tasks[4].id)) == []


@given(tasks=SETS_OF_TASKS, chosen=CHOSEN, limit=st.integers(1, 5))
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_pages_in_a_row_are_what_the_filter_selects(
    store: Store, randomness: SequentialRandomness, tasks: list[Task], chosen: TaskFilter, limit: int
) -> None:
    """Whatever the filter and the size of the pages, together they are an independent selection of the same tasks."""
    reader, other = await store.write(
        lambda uow: (uow.users.add(randomness.new_secret()), uow.users.add(randomness.new_secret()))
    )
    mine = owned_by(reader.id, tasks, randomness)
    await store.write(keep_tasks, *mine, *owned_by(other.id, tasks, randomness))
    read: list[Task] = []
    after = None
    while found := await page(store, reader, chosen, after=after, limit=limit):
        assert len(found) <= limit
        read.extend(found)
        after = Position(found[-1].created_at, found[-1].id)
    assert read == selected(mine, chosen)
