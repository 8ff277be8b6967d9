"""An owner's tasks: kept as stated, changed on what was seen, and nobody else's business."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from adapters.sqlite.store import SqliteStore
from domain.account import User
from domain.errors import IdempotencyConflict, InvalidInput, NotFound, StaleVersion
from domain.instants import Instant
from domain.ports import Bulkhead, UnitOfWork
from domain.task import Task, TaskChange, TaskFilter, TaskId, TaskStatus
from domain.use_cases.tasks import (
    change_task,
    create_task,
    create_task_once,
    delete_task,
    expected_task,
    get_task,
    list_tasks,
)
from tests.builders import a_new_task, an_id
from tests.fakes import START, ManualClock, SequentialRandomness
from tests.use_cases.bench import contents

ANY: Final = None
TASK: Final = TaskId(an_id(1))


@pytest.fixture
async def task(store: SqliteStore, owner: User) -> Task:
    """A task of the owner, at its first version."""
    return await store.write(create_task, owner.id, a_new_task(), task_id=TASK)


async def test_a_task_is_kept_as_it_was_stated(store: SqliteStore, owner: User) -> None:
    """Members that are not stated have their defaults, instants are those of the transaction."""
    made = await store.write(create_task, owner.id, a_new_task(due_at=Instant(5), priority=1), task_id=TASK)
    assert (made.id, made.owner_id, made.title, made.description) == (TASK, owner.id, "Water the plants", "")
    assert (made.status, made.priority, made.due_at) == (TaskStatus.OPEN, 1, 5)
    assert (made.created_at, made.updated_at, made.version) == (START, START, 1)
    assert await store.read(Bulkhead.TASKS, get_task, owner.id, TASK) == made


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"created_at": Instant(3)}, (3, 3)),
        ({"updated_at": Instant(4)}, (START, 4)),
        ({"created_at": Instant(3), "updated_at": Instant(4)}, (3, 4)),
    ],
)
async def test_instants_that_are_stated_are_kept(
    store: SqliteStore, owner: User, stated: dict[str, Any], expected: tuple[int, int]
) -> None:
    """A task that is carried over keeps its history."""
    made = await store.write(create_task, owner.id, a_new_task(**stated), task_id=TASK)
    assert (made.created_at, made.updated_at) == expected


@pytest.mark.parametrize(
    ("members", "where"),
    [
        ({"title": ""}, "/title"),
        ({"title": "x" * 501}, "/title"),
        ({"title": "a\0b"}, "/title"),
        ({"title": "\ud800"}, "/title"),
        ({"description": "x" * 100_001}, "/description"),
        ({"priority": 5}, "/priority"),
    ],
)
async def test_a_task_out_of_bounds_is_refused_and_not_kept(
    store: SqliteStore, database: Path, owner: User, members: dict[str, Any], where: str
) -> None:
    """Made or changed, the refusal names the member, and nothing changes."""
    made = await store.write(create_task, owner.id, a_new_task(), task_id=TASK)
    before = contents(database)
    with pytest.raises(InvalidInput, match=where):
        await store.write(create_task, owner.id, a_new_task(**members), task_id=TaskId(an_id(2)))
    with pytest.raises(InvalidInput, match=where):
        await store.write(change_task, owner.id, made.id, TaskChange(**members), expected=ANY)
    assert contents(database) == before


# ── Once a key ────────────────────────────────────────────────────────────────────────────────────────────────────────


def made_once(
    uow: UnitOfWork, owner: User, *, number: int = 1, title: str = "Once", digest: str = "d"
) -> tuple[str, str]:
    """Make a task under a key; return the id and the text that the caller is answered with."""
    outcome = create_task_once(
        uow,
        owner.id,
        a_new_task(title=title),
        task_id=TaskId(an_id(number)),
        request_key="key-1",
        parameters_digest=digest,
        describe=lambda task: f"{task.id} {task.title}",
    )
    return outcome.resource_id, outcome.outcome_json


async def test_a_key_makes_one_task_and_one_answer(store: SqliteStore, database: Path, owner: User) -> None:
    """The repetition is answered with the text of the first time, and writes nothing."""
    first = await store.write(made_once, owner)
    before = contents(database)
    assert await store.write(made_once, owner, number=2) == first == (an_id(1), f"{an_id(1)} Once")
    assert contents(database) == before


async def test_a_key_answers_the_same_whatever_became_of_the_task(store: SqliteStore, owner: User) -> None:
    """Changed or deleted since: the answer is that of then."""
    first = await store.write(made_once, owner)
    await store.write(change_task, owner.id, an_id(1), TaskChange(title="Changed"), expected=ANY)
    assert await store.write(made_once, owner, number=2) == first
    await store.write(delete_task, owner.id, an_id(1), expected=ANY)
    assert await store.write(made_once, owner, number=3) == first


async def test_a_key_for_another_task_is_refused(store: SqliteStore, database: Path, owner: User) -> None:
    """`IdempotencyConflict`, and nothing changes."""
    await store.write(made_once, owner)
    before = contents(database)
    with pytest.raises(IdempotencyConflict):
        await store.write(made_once, owner, number=2, title="Other", digest="e")
    assert contents(database) == before


async def test_a_key_of_a_refused_task_is_free(store: SqliteStore, owner: User) -> None:
    """Nothing was made, so nothing is remembered."""
    with pytest.raises(InvalidInput):
        await store.write(made_once, owner, title="", digest="of the wrong one")
    assert await store.write(made_once, owner) == (an_id(1), f"{an_id(1)} Once")


async def test_another_owner_can_use_the_key(store: SqliteStore, owner: User, neighbour: User) -> None:
    """It makes that owner's own task."""
    await store.write(made_once, owner)
    assert (await store.write(made_once, neighbour, number=2, digest="e"))[0] == an_id(2)


async def test_many_requests_with_one_key_at_once_make_one_task(
    store: SqliteStore, database: Path, owner: User
) -> None:
    """All answers are equal."""
    answers = await asyncio.gather(*(store.write(made_once, owner, number=number) for number in range(1, 20)))
    assert len(set(answers)) == 1
    assert len(contents(database)["tasks"]) == 1


# ── Owners ────────────────────────────────────────────────────────────────────────────────────────────────────────────

VERBS: Final[dict[str, Callable[..., object]]] = {
    "get": get_task,
    "expect": lambda uow, owner_id, task_id: expected_task(uow, owner_id, task_id, expected=ANY),
    "change": lambda uow, owner_id, task_id: change_task(
        uow, owner_id, task_id, TaskChange(title="Mine"), expected=ANY
    ),
    "delete": lambda uow, owner_id, task_id: delete_task(uow, owner_id, task_id, expected=ANY),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_another_owners_task_is_not_there(
    store: SqliteStore, database: Path, task: Task, neighbour: User, verb: str
) -> None:
    """By every verb the same `NotFound` as for one that never was, and nothing changes."""
    before = contents(database)
    texts = []
    for task_id in (task.id, an_id(99), "x"):
        with pytest.raises(NotFound) as refusal:
            await store.write(VERBS[verb], neighbour.id, task_id)
        texts.append(str(refusal.value))
    assert len(set(texts)) == 1
    assert contents(database) == before


async def test_a_list_holds_the_owners_tasks_page_by_page(
    store: SqliteStore, owner: User, neighbour: User, randomness: SequentialRandomness
) -> None:
    """Each of them once, in order, and the last page says that it is the last."""
    mine = [
        await store.write(create_task, owner.id, a_new_task(), task_id=TaskId(randomness.new_id())) for _ in range(6)
    ]
    await store.write(create_task, neighbour.id, a_new_task(), task_id=TaskId(randomness.new_id()))
    page = await store.read(Bulkhead.TASKS, list_tasks, owner.id, TaskFilter(), after=None, limit=2)
    pages = [page.items]
    while page.following is not None:
        page = await store.read(Bulkhead.TASKS, list_tasks, owner.id, TaskFilter(), after=page.following, limit=2)
        pages.append(page.items)
    assert pages == [mine[:2], mine[2:4], mine[4:]]


async def test_a_list_of_what_a_filter_selects_ends_where_its_tasks_end(store: SqliteStore, owner: User) -> None:
    """A page that is full exactly has no page behind it."""
    for number in range(1, 5):
        status = TaskStatus.DONE if number % 2 else TaskStatus.OPEN
        await store.write(create_task, owner.id, a_new_task(status=status), task_id=TaskId(an_id(number)))
    chosen = TaskFilter(status=(TaskStatus.DONE,))
    page = await store.read(Bulkhead.TASKS, list_tasks, owner.id, chosen, after=None, limit=2)
    assert [found.id for found in page.items] == [an_id(1), an_id(3)]
    assert page.following is None


# ── Changes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_change_sets_what_it_names_and_counts_the_version_up(
    store: SqliteStore, owner: User, task: Task, clock: ManualClock
) -> None:
    """The other members stay; `updated_at` is now."""
    clock.advance(timedelta(seconds=5))
    change = TaskChange(status=TaskStatus.DONE, due_at=Instant(9))
    changed = await store.write(change_task, owner.id, task.id, change, expected=frozenset({1}))
    assert changed == replace(
        task, status=TaskStatus.DONE, due_at=Instant(9), updated_at=Instant(START + 5000), version=2
    )
    assert await store.read(Bulkhead.TASKS, get_task, owner.id, task.id) == changed


async def test_a_due_date_can_be_taken_away(store: SqliteStore, owner: User, task: Task) -> None:
    """Stating that there is none is not the same as stating nothing."""
    await store.write(change_task, owner.id, task.id, TaskChange(due_at=Instant(9)), expected=ANY)
    kept = await store.write(change_task, owner.id, task.id, TaskChange(title="Same date"), expected=ANY)
    assert kept.due_at == 9
    gone = await store.write(change_task, owner.id, task.id, TaskChange(due_at=None), expected=ANY)
    assert gone.due_at is None


@pytest.mark.parametrize("change", [TaskChange(), TaskChange(title="Water the plants", priority=3)])
async def test_a_change_that_alters_nothing_keeps_the_version(
    store: SqliteStore, database: Path, task: Task, clock: ManualClock, change: TaskChange
) -> None:
    """And the instant of the last change."""
    before = contents(database)
    clock.advance(timedelta(seconds=5))
    assert await store.write(change_task, task.owner_id, task.id, change, expected=frozenset({1})) == task
    assert contents(database) == before


async def test_a_task_never_changes_before_it_was_changed_last(
    store: SqliteStore, owner: User, task: Task, clock: ManualClock
) -> None:
    """A clock that was set back lets `updated_at` stand still, so that a filter by it misses no change."""
    clock.step(-timedelta(hours=1))
    changed = await store.write(change_task, owner.id, task.id, TaskChange(title="Earlier"), expected=ANY)
    assert (changed.updated_at, changed.version) == (task.updated_at, 2)


@pytest.mark.parametrize("expected", [frozenset({2}), frozenset({7, 9}), frozenset[int]()])
async def test_a_version_that_was_not_expected_is_refused(
    store: SqliteStore, database: Path, owner: User, task: Task, expected: frozenset[int]
) -> None:
    """Changed or deleted: `StaleVersion` tells the current one, and nothing changes."""
    before = contents(database)
    for function in (
        lambda uow: change_task(uow, owner.id, task.id, TaskChange(title="Lost update"), expected=expected),
        lambda uow: delete_task(uow, owner.id, task.id, expected=expected),
        lambda uow: expected_task(uow, owner.id, task.id, expected=expected),
    ):
        with pytest.raises(StaleVersion) as refusal:
            await store.write(function)
        assert refusal.value.current == 1
    assert contents(database) == before


async def test_of_two_changes_from_one_version_the_second_is_refused(
    store: SqliteStore, owner: User, task: Task
) -> None:
    """No update is lost."""
    changes = [
        store.write(change_task, owner.id, task.id, TaskChange(title=title), expected=frozenset({1}))
        for title in ("first", "second")
    ]
    outcomes = await asyncio.gather(*changes, return_exceptions=True)
    assert sorted(isinstance(outcome, StaleVersion) for outcome in outcomes) == [False, True]


async def test_a_deleted_task_is_gone(store: SqliteStore, database: Path, owner: User, task: Task) -> None:
    """Deleted on the version that was seen, or on one of several."""
    await store.write(delete_task, owner.id, task.id, expected=frozenset({1, 5}))
    with pytest.raises(NotFound):
        await store.read(Bulkhead.TASKS, get_task, owner.id, task.id)
    with pytest.raises(NotFound):
        await store.write(delete_task, owner.id, task.id, expected=ANY)
    assert contents(database)["tasks"] == []
