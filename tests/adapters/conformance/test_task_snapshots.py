"""`TaskSnapshots`: one instant of an owner's tasks, however long the reading takes and whatever happens meanwhile."""

import asyncio
from collections.abc import Callable
from typing import Final

from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from domain.account import OwnerId, User
from domain.instants import Instant
from domain.parameters import Column
from domain.ports import Store, TaskRow, TaskSnapshot
from domain.task import Task, TaskFilter
from tests.adapters.conformance.conftest import Adapter
from tests.adapters.conformance.pauses import DEADLINE_SECONDS
from tests.adapters.conformance.selections import CHOSEN, SETS_OF_TASKS, owned_by, selected
from tests.adapters.conformance.steps import keep_tasks
from tests.builders import a_task
from tests.fakes import START, ManualClock, SequentialRandomness

EVERYTHING: Final = TaskFilter()
# Beyond this a batch is not a bounded one: a row can have 400 KB.
LARGEST_BATCH: Final = 1000


def rows_of(snapshot: TaskSnapshot) -> list[TaskRow]:
    """Return every row, from all batches."""
    return [row for batch in snapshot.batches() for row in batch]


def as_row(task: Task) -> TaskRow:
    """Return the task as a row has it: every column in order, statuses as text and instants as integers."""
    members = {column: getattr(task, column.value) for column in Column} | {Column.STATUS: task.status.value}
    return tuple(members[column] for column in Column)


def shown(rows: list[TaskRow]) -> list[TaskRow]:
    """Return the rows without what an adapter may keep behind the columns."""
    return [row[: len(Column)] for row in rows]


async def read(adapter: Adapter, owner_id: OwnerId, chosen: TaskFilter = EVERYTHING) -> tuple[int, list[TaskRow]]:
    """Return the count that a snapshot states and its rows, read on a thread of its own."""

    def on_thread() -> tuple[int, list[TaskRow]]:
        with adapter.snapshots().open(owner_id, chosen) as snapshot:
            return snapshot.row_count, shown(rows_of(snapshot))

    return await asyncio.to_thread(on_thread)


@given(tasks=SETS_OF_TASKS, chosen=CHOSEN)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_a_snapshot_holds_what_the_filter_selects_in_order(
    store: Store, adapter: Adapter, randomness: SequentialRandomness, tasks: list[Task], chosen: TaskFilter
) -> None:
    """Count and rows are an independent selection of the owner's tasks, and nothing of another owner's."""
    reader, other = await store.write(
        lambda uow: (uow.users.add(randomness.new_secret()), uow.users.add(randomness.new_secret()))
    )
    mine = owned_by(reader.id, tasks, randomness)
    await store.write(keep_tasks, *mine, *owned_by(other.id, tasks, randomness))
    expected = [as_row(task) for task in selected(mine, chosen)]
    assert await read(adapter, reader.id, chosen) == (len(expected), expected)


async def test_a_snapshot_stays_as_it_was_while_tasks_change(store: Store, adapter: Adapter, owner: User) -> None:
    """Tasks that are added, changed and removed between two batches are read as they were at the opening."""
    tasks = [a_task(owner.id, number) for number in range(1, LARGEST_BATCH * 2)]
    await store.write(keep_tasks, *tasks)
    with adapter.snapshots().open(owner.id, EVERYTHING) as snapshot:
        batches = snapshot.batches()
        rows = list(next(batches))
        await store.write(keep_tasks, a_task(owner.id, 9_999))
        assert await store.write(lambda uow: uow.tasks.save(tasks[-1], replace(tasks[-1], title="changed", version=2)))
        assert await store.write(lambda uow: uow.tasks.remove(tasks[-2]))
        rows.extend(row for batch in batches for row in batch)
        assert snapshot.row_count == len(rows)
    assert shown(rows) == [as_row(task) for task in tasks]
    assert (await read(adapter, owner.id))[0] == len(tasks)


async def test_a_snapshot_that_is_not_read_yet_is_taken_already(store: Store, adapter: Adapter, owner: User) -> None:
    """The opening decides what is in, not the first batch."""
    await store.write(keep_tasks, a_task(owner.id, 1))
    with adapter.snapshots().open(owner.id, EVERYTHING) as snapshot:
        await store.write(keep_tasks, a_task(owner.id, 2))
        assert len(rows_of(snapshot)) == snapshot.row_count == 1


class CommittingClock(ManualClock):
    """A clock that has told its time when somebody else commits a task: the worst moment that there is."""

    def __init__(self, commit: Callable[[], None]) -> None:
        super().__init__()
        self._commit = commit

    def now(self) -> Instant:
        """Return the instant, after a task was committed at it."""
        self._commit()
        return super().now()


async def test_all_that_was_committed_before_its_instant_is_in_a_snapshot(
    store: Store, adapter: Adapter, owner: User
) -> None:
    """`snapshot_at` is read before the snapshot opens: it never promises more than the rows hold."""
    loop = asyncio.get_running_loop()

    async def keep() -> None:
        await store.write(keep_tasks, a_task(owner.id, 1))

    def on_thread() -> tuple[Instant, int]:
        late = CommittingClock(lambda: asyncio.run_coroutine_threadsafe(keep(), loop).result(DEADLINE_SECONDS))
        with adapter.snapshots(late).open(owner.id, EVERYTHING) as snapshot:
            return snapshot.snapshot_at, snapshot.row_count

    assert await asyncio.to_thread(on_thread) == (START, 1)


async def test_batches_are_bounded_and_none_is_empty(store: Store, adapter: Adapter, owner: User) -> None:
    """However many rows there are, a reader holds a batch of them."""
    await store.write(keep_tasks, *(a_task(owner.id, number) for number in range(1, 3 * LARGEST_BATCH)))
    with adapter.snapshots().open(owner.id, EVERYTHING) as snapshot:
        sizes = [len(batch) for batch in snapshot.batches()]
    assert 0 < min(sizes) <= max(sizes) <= LARGEST_BATCH
    assert sum(sizes) == 3 * LARGEST_BATCH - 1


async def test_an_owner_without_tasks_has_an_empty_snapshot(adapter: Adapter, owner: User) -> None:
    """No row and no batch."""
    with adapter.snapshots().open(owner.id, EVERYTHING) as snapshot:
        assert (snapshot.row_count, list(snapshot.batches())) == (0, [])


async def test_an_open_snapshot_keeps_no_writer_waiting(store: Store, adapter: Adapter, owner: User) -> None:
    """A write that begins while a snapshot is open commits while it is open."""
    await store.write(keep_tasks, a_task(owner.id, 1))
    with adapter.snapshots().open(owner.id, EVERYTHING):
        async with adapter.open_store(write_wait_seconds=0.05) as other:
            assert await other.write(lambda uow: uow.tasks.remove(a_task(owner.id, 1)))
