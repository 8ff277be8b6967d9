"""What anyone may ask: whether the service lives, what its contract is, and what its problems mean."""

from asyncio import timeout
from functools import partial
from typing import Final

from msgspec.structs import replace

from domain.errors import EnvironmentFailure
from domain.ports import Bulkhead, UnitOfWork
from entrypoints.bootstrap import Application
from entrypoints.http import problem_types as types
from entrypoints.http.answers import Answer, json_answer
from entrypoints.http.operation import Call, Operation, Reply
from entrypoints.http.problem_types import PROBLEMS
from entrypoints.http.problems import Refused
from entrypoints.http.schemas import Health, HealthCheck

_TEXT: Final = "text/plain; charset=utf-8"
# Less than any probe waits: a database that takes longer does not serve requests either.
_CHECK_SECONDS: Final = 1.0


async def live(_: Call) -> Answer:
    """Tell that this process answers. It depends on nothing, so that no trouble elsewhere restarts it."""
    return json_answer(200, Health("ok", ()))


async def ready(call: Call) -> Answer:
    """Tell whether requests can be answered. A worker is not asked: tasks are served without one."""
    checks = (HealthCheck("database", await _database_answers(call.application)),)
    if not all(check.is_ok for check in checks):
        raise Refused(types.NOT_READY, types.NOT_READY.meaning, checks=checks)
    return json_answer(200, Health("ok", checks))


async def _database_answers(application: Application) -> bool:
    try:
        async with timeout(_CHECK_SECONDS):
            await application.store.read(Bulkhead.OPERATIONS, _one_read)
    except (EnvironmentFailure, TimeoutError):
        return False
    return True


def _one_read(uow: UnitOfWork) -> None:
    uow.users.find("")


async def explain(call: Call) -> Answer:
    """Show what a type of problem means, and what to do about it."""
    kind = PROBLEMS.get(call.path("slug"))
    if kind is None:
        raise Refused(types.NOT_FOUND, types.NOT_FOUND.meaning)
    page = f"{kind.title}\n\nStatus: {kind.status}\n\nWhat happened\n{kind.meaning}\n\nWhat to do\n{kind.remedy}\n"
    return Answer(200, page.encode(), headers={"Content-Type": _TEXT, "Cache-Control": "public, max-age=3600"})


# ── The contract ──────────────────────────────────────────────────────────────────────────────────────────────────────


_operation: Final = partial(Operation, tag="service", method="GET")


def _with_head(operation: Operation, operation_id: str) -> tuple[Operation, Operation]:
    replies = tuple(replace(reply, is_empty=True) for reply in operation.replies)
    return operation, replace(operation, id=operation_id, method="HEAD", replies=replies)


OPERATIONS: Final = (
    *_with_head(
        _operation(
            id="getLive",
            path="/health/live",
            summary="Is the process alive",
            description="200 while the process answers at all.",
            handler=live,
            replies=(Reply(status=200, description="Alive.", content=Health, example=Health("ok", ())),),
        ),
        "headLive",
    ),
    *_with_head(
        _operation(
            id="getReady",
            path="/health/ready",
            summary="Can requests be answered",
            description="Each dependency is asked under a limit of its own. A worker is none of them.",
            handler=ready,
            replies=(
                Reply(
                    status=200,
                    description="Ready.",
                    content=Health,
                    example=Health("ok", (HealthCheck("database", is_ok=True),)),
                ),
            ),
            problems=(types.NOT_READY, types.INTERNAL_ERROR),
        ),
        "headReady",
    ),
    _operation(
        id="getProblemType",
        path="/problems/{slug}",
        summary="Read what a problem means",
        description="Every `type` of a problem is the address of such a page.",
        handler=explain,
        replies=(Reply(status=200, description="What happened, and what to do.", media_type="text/plain"),),
    ),
)
