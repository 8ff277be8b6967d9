"""What operators do over HTTP: see every owner's exports and the queue, requeue dead letters, cancel."""

from functools import partial
from typing import Final

from msgspec import Struct

from domain.account import Scope
from domain.errors import ProtocolRefusal
from domain.export import ErrorCode, JobStatus
from domain.ports import Bulkhead, JobFilter
from domain.use_cases.operations import (
    JobRecord as Record,
    JobView,
    RequeueOrder as Order,
    cancel_job,
    dead_letters,
    list_jobs,
    operator_named,
    queue_status,
    requeue_job,
    requeue_jobs,
    show_job,
    try_requeue,
)
from entrypoints.http import problem_types as types
from entrypoints.http.answers import JSON, Answer, json_answer
from entrypoints.http.job_bodies import (
    BATCH_EXAMPLE,
    JOB_EXAMPLE,
    QUEUE_EXAMPLE,
    RECORD_EXAMPLE,
    batch_body,
    job_body,
    queue_body,
    record_body,
)
from entrypoints.http.job_schemas import (
    BatchOrder,
    BatchReport,
    CancelOrder,
    Job,
    JobList,
    JobRecord,
    JobSelection,
    QueueStatus,
    RequeueOrder,
)
from entrypoints.http.operation import Body, Call, Link, Operation, Reply
from entrypoints.http.paging import Limit, link_to_next
from entrypoints.http.problems import Refused
from entrypoints.http.wire import Cursor, InstantText, cursor_text, instant_of


class JobQuery(Struct, frozen=True):
    """Which jobs a page shows, and where it begins. An owner who does not exist has none."""

    status: tuple[JobStatus, ...] = ()
    owner: str | None = None
    code: ErrorCode | None = None
    created_before: InstantText | None = None
    created_after: InstantText | None = None
    finished_before: InstantText | None = None
    finished_after: InstantText | None = None
    cursor: Cursor | None = None
    limit: Limit = 50


async def show_queue(call: Call) -> Answer:
    """Show how the queue does."""
    application = call.application
    status = await application.store.read(Bulkhead.OPERATIONS, queue_status, policies=application.policies)
    return json_answer(200, queue_body(status))


async def show_page(call: Call) -> Answer:
    """Show one page of all owners' jobs."""
    query = call.query(JobQuery)
    page = await call.application.store.read(
        Bulkhead.OPERATIONS,
        list_jobs,
        _chosen(query, frozenset(query.status)),
        owner=query.owner,
        before=query.cursor.position if query.cursor else None,
        limit=query.limit,
    )
    cursor, now = cursor_text(page.following), call.application.clock.now()
    content = JobList([job_body(view, now=now, base_url=call.place.base_url) for view in page.items], cursor)
    return json_answer(200, content, headers=link_to_next(call, cursor))


async def show(call: Call) -> Answer:
    """Show a job with its history."""
    record = await locate(call)
    now = call.application.clock.now()
    return json_answer(200, record_body(record, now=now, base_url=call.place.base_url))


async def locate(call: Call) -> Record:
    """Find the job that the path names, whoever owns it."""
    return await call.application.store.read(Bulkhead.OPERATIONS, show_job, call.path("job_id"))


async def requeue(call: Call) -> Answer:
    """Send one dead letter back."""
    order, application = _order(call, call.stated(RequeueOrder)), call.application
    try:
        view = await application.store.write(requeue_job, call.path("job_id"), order, policies=application.policies)
    except ProtocolRefusal as refusal:
        raise _refused(refusal) from refusal
    return _shown(call, view)


async def requeue_batch(call: Call) -> Answer:
    """Send back, or try to, what a filter selects, as far as one batch goes."""
    stated, application, policies = call.stated(BatchOrder), call.application, call.application.policies
    order = _order(call, stated)
    # Looked for without the write lock: the search is the long part, and each job is looked at again under it.
    found = await application.store.read(
        Bulkhead.OPERATIONS, dead_letters, _chosen(stated.filter), owner=stated.filter.owner, limit=stated.limit + 1
    )
    job_ids = found[: stated.limit]
    if stated.dry_run:
        batch = await application.store.read(Bulkhead.OPERATIONS, try_requeue, job_ids, order, policies=policies)
    else:
        batch = await application.store.write(requeue_jobs, job_ids, order, policies=policies)
    if batch.halt is not None and not batch.outcomes:
        raise batch.halt
    has_more = len(found) > len(batch.outcomes)
    return json_answer(200, batch_body(batch, dry_run=stated.dry_run, has_more=has_more))


async def cancel(call: Call) -> Answer:
    """End a job without a file."""
    reason = call.stated(CancelOrder).reason
    try:
        view = await call.application.store.write(cancel_job, call.path("job_id"), actor=_actor(call), reason=reason)
    except ProtocolRefusal as refusal:
        raise _refused(refusal) from refusal
    return _shown(call, view)


def _chosen(stated: JobQuery | JobSelection, status: frozenset[JobStatus] = frozenset()) -> JobFilter:
    return JobFilter(
        status=status,
        code=stated.code,
        created_before=instant_of(stated.created_before),
        created_after=instant_of(stated.created_after),
        finished_before=instant_of(stated.finished_before),
        finished_after=instant_of(stated.finished_after),
    )


def _order(call: Call, stated: RequeueOrder | BatchOrder) -> Order:
    return Order(
        actor=_actor(call),
        reason=stated.reason,
        attempts=stated.attempts,
        deadline_seconds=stated.deadline_seconds,
    )


def _actor(call: Call) -> str:
    if call.principal is None:
        raise LookupError("an operation without a scope has no operator")
    return operator_named(call.principal.name)


def _refused(refusal: ProtocolRefusal) -> Refused:
    words = str(refusal)
    return Refused(types.EVENT_REFUSED, f"{words[:1].upper()}{words[1:]}.")


def _shown(call: Call, view: JobView) -> Answer:
    return json_answer(200, job_body(view, now=call.application.clock.now(), base_url=call.place.base_url))


# ── The contract ──────────────────────────────────────────────────────────────────────────────────────────────────────

_FROM_BODY: Final = {"job_id": "$response.body#/id"}
_LINKS: Final = {
    "status": Link("getJob", _FROM_BODY, "The export with its history."),
    "requeue": Link("requeueJob", _FROM_BODY, "Another try, once it has failed."),
    "cancel": Link("cancelJob", _FROM_BODY, "The end of the export without a file."),
}
_NOT_ADMITTED: Final = (types.QUEUE_FULL, types.QUEUE_TOO_OLD, types.STORAGE_BUDGET)
_operation: Final = partial(Operation, tag="operations", scope=Scope.OPS, bulkhead=Bulkhead.OPERATIONS)

OPERATIONS: Final = (
    _operation(
        id="getQueue",
        method="GET",
        path="/v1/operations/queue",
        summary="Read how the queue does",
        description="Counts, oldest ages, what happened of late, how near the limits of admission are, and workers.",
        handler=show_queue,
        replies=(
            Reply(
                status=200,
                description="The queue as one moment saw it.",
                content=QueueStatus,
                example=QUEUE_EXAMPLE,
            ),
        ),
    ),
    _operation(
        id="listJobs",
        method="GET",
        path="/v1/operations/jobs",
        summary="List exports of all owners",
        description="Newest first. Dead letters are those with the status `failed`.",
        handler=show_page,
        query=JobQuery,
        replies=(
            Reply(
                status=200,
                description="A page of exports.",
                content=JobList,
                example=JobList([JOB_EXAMPLE], None),
                optional_headers=("Link",),
                links={
                    "next": Link("listJobs", {"query.cursor": "$response.body#/next_cursor"}, "The next page."),
                    "first": Link("getJob", {"job_id": "$response.body#/jobs/0/id"}, "The first of the page."),
                },
            ),
        ),
    ),
    _operation(
        id="getJob",
        method="GET",
        path="/v1/operations/jobs/{job_id}",
        summary="Read an export of any owner, with its history",
        description="Everything that happened to it and who did it. No task text, no secret.",
        handler=show,
        replies=(
            Reply(
                status=200,
                description="The export and its history.",
                content=JobRecord,
                example=RECORD_EXAMPLE,
                links=_LINKS,
            ),
        ),
    ),
    _operation(
        id="requeueJob",
        method="POST",
        path="/v1/operations/jobs/{job_id}/requeue",
        summary="Try a dead letter again",
        description=(
            "For a failed export whose cause is mended: it gets a new budget of attempts and a new deadline. Its "
            "request and its history stay. Admission is asked as for a new export."
        ),
        handler=requeue,
        locate=locate,
        body=Body({JSON: {"reason": "the disk has room again", "attempts": 3}}, RequeueOrder),
        replies=(
            Reply(status=200, description="The export, queued again.", content=Job, example=JOB_EXAMPLE, links=_LINKS),
        ),
        problems=(types.EVENT_REFUSED, *_NOT_ADMITTED),
    ),
    _operation(
        id="cancelJob",
        method="POST",
        path="/v1/operations/jobs/{job_id}/cancel",
        summary="Cancel an export of any owner",
        description="Ends a queued or running export without a file. The reason stays in its history.",
        handler=cancel,
        locate=locate,
        body=Body({JSON: {"reason": "its owner asked for it on the phone"}}, CancelOrder),
        replies=(
            Reply(status=200, description="The export, cancelled.", content=Job, example=JOB_EXAMPLE, links=_LINKS),
        ),
        problems=(types.EVENT_REFUSED,),
    ),
    _operation(
        id="requeueJobs",
        method="POST",
        path="/v1/operations/requeue",
        summary="Try dead letters again",
        description=(
            "Up to `limit` of those that the filter selects, in one commit. What is refused stays as it is, and its "
            "reason is told. Where admission ends the batch early, the rest stays too."
        ),
        handler=requeue_batch,
        body=Body(
            {JSON: {"filter": {"code": "internal_error"}, "reason": "the defect is mended", "dry_run": True}},
            BatchOrder,
        ),
        replies=(
            Reply(
                status=200,
                description="What became of each.",
                content=BatchReport,
                example=BATCH_EXAMPLE,
                links={"first": Link("getJob", {"job_id": "$response.body#/outcomes/0/id"}, "The first of them.")},
            ),
        ),
        problems=_NOT_ADMITTED,
    ),
)
