"""Tasks over HTTP: one at a time, and in pages."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import UNSET

from domain import parameters, task as tasks
from domain.account import Scope
from domain.instants import format_instant
from domain.ports import Bulkhead
from domain.task import TaskChange, TaskId, TaskStatus, faults_of
from domain.use_cases.tasks import change_task, create_task, create_task_once, delete_task, get_task, list_tasks
from entrypoints.http import problem_types as types
from entrypoints.http.answers import JSON, Answer, json_answer
from entrypoints.http.headers import etag
from entrypoints.http.operation import (
    IF_MATCH,
    IF_NONE_MATCH,
    OPTIONAL_KEY,
    Body,
    Call,
    Link,
    Operation,
    Reply,
)
from entrypoints.http.paging import Limit, link_to_next
from entrypoints.http.problems import fault_of
from entrypoints.http.schemas import Fault, NewTask, Task, TaskFilter, TaskList, TaskPatch
from entrypoints.http.wire import Cursor, cursor_text, instant_of, moment_of

MERGE_PATCH: Final = "application/merge-patch+json"


class TaskQuery(TaskFilter, frozen=True):
    """Which tasks a page shows, and where it begins."""

    cursor: Cursor | None = None
    limit: Limit = 50


async def create(call: Call) -> Answer:
    """Make a task, once for each key."""
    stated = _stated(call)
    store, task_id = call.application.store, TaskId(call.application.randomness.new_id())
    key = call.header(OPTIONAL_KEY)
    if key is None:
        made = await store.write(create_task, call.owner_id, stated, task_id=task_id)
        return _created(call, _json(made), made.id, is_replay=False)
    text = msgspec.json.encode(stated, order="deterministic").decode()
    outcome = await store.write(
        create_task_once,
        call.owner_id,
        stated,
        task_id=task_id,
        request_key=key,
        parameters_digest=parameters.digest(text),
        describe=_json,
    )
    return _created(call, outcome.outcome_json, outcome.resource_id, is_replay=outcome.resource_id != task_id)


def _created(call: Call, body: str, task_id: str, *, is_replay: bool) -> Answer:
    headers = {
        "Content-Type": JSON,
        "Location": f"{call.place.base_url}/v1/tasks/{task_id}",
        "ETag": etag(1),
        **({"Idempotent-Replayed": "true"} if is_replay else {}),
    }
    return Answer(201, body.encode(), headers=headers)


async def show_page(call: Call) -> Answer:
    """Show one page of the owner's tasks."""
    query = call.query(TaskQuery)
    page = await call.application.store.read(
        Bulkhead.TASKS,
        list_tasks,
        call.owner_id,
        query.chosen(),
        after=query.cursor.position if query.cursor else None,
        limit=query.limit,
    )
    cursor = cursor_text(page.following)
    content = TaskList([task_body(task) for task in page.items], cursor)
    return json_answer(200, content, headers=link_to_next(call, cursor))


async def show(call: Call) -> Answer:
    """Show a task, unless the client has its current version."""
    task = await locate(call)
    had = call.header(IF_NONE_MATCH)
    if had is not None and had.match_weakly(str(task.version)):
        return Answer(304, headers={"ETag": etag(task.version)})
    return _shown(task)


async def replace(call: Call) -> Answer:
    """Set every member of a task."""
    stated = _stated(call)
    change = TaskChange(stated.title, stated.description, stated.status, stated.priority, stated.due_at)
    return await _change(call, change)


async def patch(call: Call) -> Answer:
    """Set the members of a task that are named."""
    stated = call.stated(TaskPatch)
    due_at = UNSET if stated.due_at is UNSET else instant_of(stated.due_at)
    return await _change(call, TaskChange(stated.title, stated.description, stated.status, stated.priority, due_at))


async def _change(call: Call, change: TaskChange) -> Answer:
    expected = call.required(IF_MATCH).versions
    task = await call.application.store.write(
        change_task, call.owner_id, call.path("task_id"), change, expected=expected
    )
    return _shown(task)


async def remove(call: Call) -> Answer:
    """Delete a task."""
    expected = call.required(IF_MATCH).versions
    await call.application.store.write(delete_task, call.owner_id, call.path("task_id"), expected=expected)
    return Answer(204)


async def locate(call: Call) -> tasks.Task:
    """Return the task that the path names.

    Raises:
        NotFound: the owner has no such task.
    """
    return await call.application.store.read(Bulkhead.TASKS, get_task, call.owner_id, call.path("task_id"))


def _stated(call: Call) -> tasks.NewTask:
    stated = call.stated(NewTask)
    return tasks.NewTask(
        title=stated.title,
        description=stated.description,
        status=stated.status,
        priority=stated.priority,
        due_at=instant_of(stated.due_at),
    )


def _shown(task: tasks.Task) -> Answer:
    return json_answer(200, task_body(task), headers={"ETag": etag(task.version)})


def _json(task: tasks.Task) -> str:
    return msgspec.json.encode(task_body(task)).decode()


def task_body(task: tasks.Task) -> Task:
    """Return a task as the API shows it."""
    return Task(
        id=task.id,
        title=task.title,
        description=task.description,
        status=task.status,
        priority=task.priority,
        due_at=moment_of(task.due_at),
        created_at=format_instant(task.created_at),
        updated_at=format_instant(task.updated_at),
        version=task.version,
    )


def _check(members: Mapping[str, Any]) -> list[Fault]:
    """Return what the domain finds wrong with the members that could be read."""
    known = {name: value for name, value in members.items() if name != "due_at"}
    return [fault_of(error) for error in faults_of(TaskChange(**known))]


# ── The contract ──────────────────────────────────────────────────────────────────────────────────────────────────────

_STATED: Final = {"title": "Write the report", "priority": 2, "due_at": "2026-02-01T09:00:00Z"}
TASK_EXAMPLE: Final = Task(
    id="019c13a2-7c40-7e1b-9d2c-5f8a6b3e1d20",
    title="Write the report",
    description="",
    status=TaskStatus.OPEN,
    priority=2,
    due_at="2026-02-01T09:00:00Z",
    created_at="2026-01-31T08:30:00Z",
    updated_at="2026-01-31T08:30:00Z",
    version=1,
)
_FROM_BODY: Final = {"task_id": "$response.body#/id"}
_WITH_ETAG: Final = {**_FROM_BODY, "header.If-Match": "$response.header.ETag"}
_LINKS: Final = {
    "get": Link("getTask", _FROM_BODY, "The task."),
    "replace": Link("replaceTask", _WITH_ETAG, "The task, to be replaced in this version."),
    "patch": Link("patchTask", _WITH_ETAG, "The task, to be changed in this version."),
    "delete": Link("deleteTask", _WITH_ETAG, "The task, to be deleted in this version."),
}
_SHOWN: Final = Reply(
    status=200,
    description="The task.",
    content=Task,
    example=TASK_EXAMPLE,
    headers=("ETag",),
    links=_LINKS,
)
_CHANGED: Final = msgspec.structs.replace(_SHOWN, description="The task as it is now.")
_ONE: Final = "/v1/tasks/{task_id}"


_operation: Final = partial(Operation, tag="tasks", scope=Scope.TASKS, bulkhead=Bulkhead.TASKS)


OPERATIONS: Final = (
    _operation(
        id="createTask",
        method="POST",
        path="/v1/tasks",
        summary="Create a task",
        description="Under an Idempotency-Key the task is made once, however often the request is repeated.",
        handler=create,
        headers=(OPTIONAL_KEY,),
        body=Body({JSON: _STATED}, NewTask, _check),
        replies=(
            Reply(
                status=201,
                description="The task was created, now or by an earlier request with the same key.",
                content=Task,
                example=TASK_EXAMPLE,
                headers=("Location", "ETag"),
                optional_headers=("Idempotent-Replayed",),
                links=_LINKS,
            ),
        ),
        problems=(types.IDEMPOTENCY_CONFLICT,),
    ),
    _operation(
        id="listTasks",
        method="GET",
        path="/v1/tasks",
        summary="List tasks",
        description="Pages by `created_at` and `id`. A page shows the tasks of its own moment.",
        handler=show_page,
        query=TaskQuery,
        replies=(
            Reply(
                status=200,
                description="A page of tasks.",
                content=TaskList,
                example=TaskList([TASK_EXAMPLE], None),
                optional_headers=("Link",),
                links={
                    "next": Link("listTasks", {"query.cursor": "$response.body#/next_cursor"}, "The next page."),
                    "first": Link("getTask", {"task_id": "$response.body#/tasks/0/id"}, "The first task of the page."),
                },
            ),
        ),
    ),
    _operation(
        id="getTask",
        method="GET",
        path=_ONE,
        summary="Read a task",
        description="The ETag is the task's version.",
        handler=show,
        headers=(IF_NONE_MATCH,),
        replies=(
            _SHOWN,
            Reply(status=304, description="The client has the current version.", headers=("ETag",)),
        ),
    ),
    _operation(
        id="replaceTask",
        method="PUT",
        path=_ONE,
        summary="Replace a task",
        description="Sets every member; one that is left out takes its default. Equal values keep the version.",
        handler=replace,
        headers=(IF_MATCH,),
        body=Body({JSON: _STATED}, NewTask, _check),
        locate=locate,
        replies=(_CHANGED,),
        problems=(types.PRECONDITION_FAILED,),
    ),
    _operation(
        id="patchTask",
        method="PATCH",
        path=_ONE,
        summary="Change a task",
        description="JSON Merge Patch (RFC 7396). Only `due_at` can be null.",
        handler=patch,
        headers=(IF_MATCH,),
        body=Body({MERGE_PATCH: {"status": "done", "due_at": None}}, TaskPatch, _check),
        locate=locate,
        replies=(_CHANGED,),
        problems=(types.PRECONDITION_FAILED,),
    ),
    _operation(
        id="deleteTask",
        method="DELETE",
        path=_ONE,
        summary="Delete a task",
        description="A task that is gone cannot be told from one that never was.",
        handler=remove,
        headers=(IF_MATCH,),
        locate=locate,
        replies=(
            Reply(
                status=204,
                description="The task is gone.",
                links={"get": Link("getTask", {"task_id": "$request.path.task_id"}, "Where it was: 404.")},
            ),
        ),
        problems=(types.PRECONDITION_FAILED,),
    ),
)
