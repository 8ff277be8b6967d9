"""An owner's tasks, one at a time."""

from collections.abc import Callable
from typing import TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from domain.account import OwnerId
from domain.errors import IdempotencyConflict, InvalidInput, NotFound, StaleVersion
from domain.pages import Page, Position, page_of
from domain.ports import KeyedOutcome, UnitOfWork
from domain.task import NewTask, Task, TaskChange, TaskFilter, TaskId, faults_of

T = TypeVar("T")

CREATE_ROUTE = "POST /v1/tasks"


def create_task(uow: UnitOfWork, owner_id: OwnerId, stated: NewTask, *, task_id: TaskId) -> Task:
    """Keep a new task of the owner.

    Raises:
        InvalidInput: a member is out of its bounds.
    """
    task = task_from(stated, owner_id, task_id=task_id, uow=uow)
    uow.tasks.add(task)
    return task


def create_task_once(  # noqa: PLR0913 - a task, and the key under which it is made once
    uow: UnitOfWork,
    owner_id: OwnerId,
    stated: NewTask,
    *,
    task_id: TaskId,
    request_key: str,
    parameters_digest: str,
    describe: Callable[[Task], str],
) -> KeyedOutcome:
    """Keep a new task of the owner, or return what the key came to before.

    The outcome is of this request when its `resource_id` is `task_id`. `describe` makes the text that is kept, so that
    a replay can equal the first answer whatever became of the task.

    Raises:
        InvalidInput: a member is out of its bounds.
        IdempotencyConflict: the key was used with another request.
    """
    earlier = find_outcome(
        uow, owner_id, route=CREATE_ROUTE, request_key=request_key, parameters_digest=parameters_digest
    )
    if earlier is not None:
        return earlier
    task = create_task(uow, owner_id, stated, task_id=task_id)
    outcome = KeyedOutcome(owner_id, CREATE_ROUTE, request_key, parameters_digest, task.id, describe(task))
    uow.idempotency_keys.add(outcome)
    return outcome


def task_from(stated: NewTask, owner_id: OwnerId, *, task_id: TaskId, uow: UnitOfWork) -> Task:
    """Return the task that is stated, with the transaction's time where no instant is given.

    Raises:
        InvalidInput: a member is out of its bounds.
    """
    if faults := faults_of(stated):
        raise InvalidInput(*faults)
    created_at = uow.now if stated.created_at is None else stated.created_at
    return Task(
        id=task_id,
        owner_id=owner_id,
        title=stated.title,
        description=stated.description,
        status=stated.status,
        priority=stated.priority,
        due_at=stated.due_at,
        created_at=created_at,
        updated_at=created_at if stated.updated_at is None else stated.updated_at,
        version=1,
    )


def find_outcome(
    uow: UnitOfWork, owner_id: OwnerId, *, route: str, request_key: str, parameters_digest: str
) -> KeyedOutcome | None:
    """Return what the key came to before; None when it is new.

    Raises:
        IdempotencyConflict: the key was used with another request.
    """
    outcome = uow.idempotency_keys.find(owner_id, route, request_key)
    if outcome is not None and outcome.parameters_digest != parameters_digest:
        raise IdempotencyConflict(members=("body",))
    return outcome


def get_task(uow: UnitOfWork, owner_id: OwnerId, task_id: str) -> Task:
    """Return the owner's task.

    Raises:
        NotFound: the owner has no such task.
    """
    task = uow.tasks.find(owner_id, task_id)
    if task is None:
        raise NotFound("there is no such task")
    return task


def list_tasks(
    uow: UnitOfWork, owner_id: OwnerId, chosen: TaskFilter, *, after: Position | None, limit: int
) -> Page[Task]:
    """Return one page of the owner's tasks, by `created_at` and `id`."""
    return page_of(uow.tasks.page(owner_id, chosen, after=after, limit=limit + 1), limit=limit)


def change_task(
    uow: UnitOfWork, owner_id: OwnerId, task_id: str, change: TaskChange, *, expected: frozenset[int] | None
) -> Task:
    """Set the members of the owner's task that the change names. `expected` None accepts any version.

    A change that alters nothing keeps the version.

    Raises:
        NotFound: the owner has no such task.
        InvalidInput: a member is out of its bounds.
        StaleVersion: the current version is not an expected one.
    """
    if faults := faults_of(change):
        raise InvalidInput(*faults)
    before = expected_task(uow, owner_id, task_id, expected=expected)
    after = _changed(before, change)
    if after == before:
        return before
    after = replace(after, updated_at=max(uow.now, before.updated_at), version=before.version + 1)
    if not uow.tasks.save(before, after):
        raise StaleVersion(current=before.version)
    return after


def delete_task(uow: UnitOfWork, owner_id: OwnerId, task_id: str, *, expected: frozenset[int] | None) -> None:
    """Delete the owner's task. `expected` None accepts any version.

    Raises:
        NotFound: the owner has no such task.
        StaleVersion: the current version is not an expected one.
    """
    task = expected_task(uow, owner_id, task_id, expected=expected)
    if not uow.tasks.remove(task):
        raise StaleVersion(current=task.version)


def expected_task(uow: UnitOfWork, owner_id: OwnerId, task_id: str, *, expected: frozenset[int] | None) -> Task:
    """Return the owner's task if its version is an expected one; None accepts any.

    Raises:
        NotFound: the owner has no such task.
        StaleVersion: the current version is not an expected one.
    """
    task = get_task(uow, owner_id, task_id)
    if expected is not None and task.version not in expected:
        raise StaleVersion(current=task.version)
    return task


def _changed(task: Task, change: TaskChange) -> Task:
    return replace(
        task,
        title=_or(change.title, task.title),
        description=_or(change.description, task.description),
        status=_or(change.status, task.status),
        priority=_or(change.priority, task.priority),
        due_at=task.due_at if change.due_at is UNSET else change.due_at,
    )


def _or(stated: T | UnsetType, current: T) -> T:
    return current if isinstance(stated, UnsetType) else stated
