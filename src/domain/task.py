"""Tasks: an owner's to-do items, and what an owner may select of them."""

from enum import StrEnum
from typing import Final, NewType

from msgspec import UNSET, Struct, UnsetType

from domain.account import OwnerId
from domain.errors import InputError
from domain.instants import Instant

TaskId = NewType("TaskId", str)

TITLE_LENGTH: Final = 500
# A cell must stay below the 131,072 characters at which Python's own CSV reader stops, its apostrophe included.
DESCRIPTION_LENGTH: Final = 100_000


class TaskStatus(StrEnum):
    """How far a task has come."""

    OPEN = "open"
    IN_PROGRESS = "in_progress"
    DONE = "done"


PRIORITIES: Final = (1, 2, 3, 4)
DEFAULT_PRIORITY: Final = 3


class NewTask(Struct, frozen=True, forbid_unknown_fields=True):
    """A task as its owner states it. Text is kept exactly as it came; instants that are None are set by the service.

    `created_at` and `updated_at` are stated only by an import, which carries a task's history over.
    """

    title: str
    description: str = ""
    status: TaskStatus = TaskStatus.OPEN
    priority: int = DEFAULT_PRIORITY
    due_at: Instant | None = None
    created_at: Instant | None = None
    updated_at: Instant | None = None


class Task(Struct, frozen=True):
    """A task as it is kept. `version` starts at 1 and grows by one with every change."""

    id: TaskId
    owner_id: OwnerId
    title: str
    description: str
    status: TaskStatus
    priority: int
    due_at: Instant | None
    created_at: Instant
    updated_at: Instant
    version: int


class TaskChange(Struct, frozen=True, forbid_unknown_fields=True):
    """The members of a task to set; an UNSET member stays as it is."""

    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    status: TaskStatus | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    due_at: Instant | UnsetType | None = UNSET


class TaskFilter(Struct, frozen=True, forbid_unknown_fields=True):
    """Which of an owner's tasks are meant. Members are combined with *and*; an empty one selects everything.

    `…_before` is strictly earlier, `…_after` strictly later, `updated_since` at or later. A task without a due date
    matches neither `due_before` nor `due_after`.
    """

    status: tuple[TaskStatus, ...] = ()
    priority: tuple[int, ...] = ()
    due_before: Instant | None = None
    due_after: Instant | None = None
    created_before: Instant | None = None
    created_after: Instant | None = None
    updated_since: Instant | None = None


def faults_of(task: NewTask | TaskChange) -> tuple[InputError, ...]:
    """Return what is wrong with the task's values, one error a member, named by its JSON Pointer; empty when sound."""
    faults: list[InputError] = []
    if isinstance(task.title, str):
        faults.extend(_text_faults("/title", task.title, shortest=1, longest=TITLE_LENGTH))
    if isinstance(task.description, str):
        faults.extend(_text_faults("/description", task.description, shortest=0, longest=DESCRIPTION_LENGTH))
    if isinstance(task.priority, int) and task.priority not in PRIORITIES:
        faults.append(InputError("/priority", "must be 1, 2, 3 or 4"))
    return tuple(faults)


def _text_faults(where: str, text: str, *, shortest: int, longest: int) -> tuple[InputError, ...]:
    if not shortest <= len(text) <= longest:
        return (InputError(where, f"must have {shortest} to {longest:,} characters and has {len(text):,}"),)
    if "\0" in text:
        return (InputError(where, "must not contain the NUL character"),)
    if not _is_unicode(text):
        return (InputError(where, "must be Unicode text without lone surrogates"),)
    return ()


def _is_unicode(text: str) -> bool:
    # JSON can spell half of a surrogate pair, which no UTF-8 file and no database can keep.
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
