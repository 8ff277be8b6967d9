"""Imports: many tasks, stored in several short transactions and made visible in one.

The caller has received and checked the whole file before it begins, so that no lock waits for a slow upload.
"""

from collections.abc import Sequence
from typing import Final

from domain.account import OwnerId
from domain.ports import KeyedOutcome, UnitOfWork
from domain.task import NewTask, TaskId
from domain.use_cases.tasks import find_outcome, task_from

IMPORT_ROUTE: Final = "POST /v1/tasks/import"


def begin_import(uow: UnitOfWork, owner_id: OwnerId) -> int:
    """Open an import and return its number."""
    return uow.imports.begin(owner_id)


def store_batch(uow: UnitOfWork, owner_id: OwnerId, import_id: int, rows: Sequence[tuple[TaskId, NewTask]]) -> None:
    """Store some tasks of an import, visible to no one yet. The caller bounds the batch, and so the lock.

    Raises:
        InvalidInput: a member of a row is out of its bounds.
        NotFound: the import was taken back because it took too long.
    """
    tasks = [task_from(stated, owner_id, task_id=task_id, uow=uow) for task_id, stated in rows]
    uow.tasks.add_imported(import_id, tasks)


def publish_import(
    uow: UnitOfWork, owner_id: OwnerId, import_id: int, *, keyed: KeyedOutcome | None
) -> KeyedOutcome | None:
    """Make all tasks of the import visible, and remember the outcome under its key when it has one.

    Returns the outcome of an earlier import under the same key, in which case this one is not published.

    Raises:
        NotFound: the import was taken back because it took too long.
        IdempotencyConflict: the key was used with another file or other options.
    """
    if keyed is not None:
        earlier = find_outcome(
            uow,
            owner_id,
            route=keyed.route,
            request_key=keyed.request_key,
            parameters_digest=keyed.parameters_digest,
        )
        if earlier is not None:
            return earlier
        uow.idempotency_keys.add(keyed)
    uow.imports.publish(import_id)
    return None


def discard_import(uow: UnitOfWork, import_id: int, *, limit: int) -> bool:
    """Delete up to `limit` tasks of an import that is not to be published; tell whether it is gone."""
    return uow.imports.discard(import_id, limit=limit)
