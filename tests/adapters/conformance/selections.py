"""What a filter selects, told a second time: in plain Python, from the words of `TaskFilter` and not from any query."""

from typing import Final

from hypothesis import strategies as st
from msgspec.structs import replace

from domain.account import OwnerId
from domain.instants import Instant
from domain.task import PRIORITIES, Task, TaskFilter, TaskId, TaskStatus
from tests.builders import a_task
from tests.fakes import SequentialRandomness

# So few that ties and limits meet.
_INSTANTS: Final = st.integers(0, 5).map(Instant)
_LIMITS: Final = st.none() | _INSTANTS

SETS_OF_TASKS: Final = st.lists(
    st.builds(
        lambda status, priority, due_at, created_at, updated_at: a_task(
            OwnerId(0),
            status=status,
            priority=priority,
            due_at=due_at,
            created_at=created_at,
            updated_at=updated_at,
        ),
        status=st.sampled_from(TaskStatus),
        priority=st.sampled_from(PRIORITIES),
        due_at=_LIMITS,
        created_at=_INSTANTS,
        updated_at=_INSTANTS,
    ),
    max_size=12,
)
CHOSEN: Final = st.builds(
    TaskFilter,
    status=st.lists(st.sampled_from(TaskStatus), max_size=2).map(tuple),
    priority=st.lists(st.sampled_from(PRIORITIES), max_size=3).map(tuple),
    due_before=_LIMITS,
    due_after=_LIMITS,
    created_before=_LIMITS,
    created_after=_LIMITS,
    updated_since=_LIMITS,
)


def owned_by(owner_id: OwnerId, tasks: list[Task], randomness: SequentialRandomness) -> list[Task]:
    """Return the tasks as the owner's, each with an id of its own; ids do not follow the order of the list."""
    ids = sorted((randomness.new_id() for _ in tasks), key=lambda text: text[::-1])
    return [replace(task, owner_id=owner_id, id=TaskId(given)) for task, given in zip(tasks, ids, strict=True)]


def selected(tasks: list[Task], chosen: TaskFilter) -> list[Task]:
    """Return those that the filter selects, in the order of `Position`."""
    return sorted((task for task in tasks if _selects(chosen, task)), key=lambda task: (task.created_at, task.id))


def _selects(chosen: TaskFilter, task: Task) -> bool:
    return (
        (not chosen.status or task.status in chosen.status)
        and (not chosen.priority or task.priority in chosen.priority)
        and (chosen.due_before is None or (task.due_at is not None and task.due_at < chosen.due_before))
        and (chosen.due_after is None or (task.due_at is not None and task.due_at > chosen.due_after))
        and (chosen.created_before is None or task.created_at < chosen.created_before)
        and (chosen.created_after is None or task.created_at > chosen.created_after)
        and (chosen.updated_since is None or task.updated_at >= chosen.updated_since)
    )
