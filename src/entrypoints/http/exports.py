"""Exports over HTTP: asked for once, watched, cancelled. The file itself is in `results`."""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final

from msgspec import Struct

from domain import parameters
from domain.account import Scope
from domain.admission import SHORTEST_WAIT
from domain.errors import InvalidInput
from domain.export import JobId, JobStatus
from domain.parameters import ExportParameters
from domain.ports import Bulkhead
from domain.use_cases.exports import (
    ExportRequest as Asked,
    ExportView,
    cancel_export,
    enqueue_export,
    list_exports,
    watch_export,
)
from entrypoints.http import problem_types as types
from entrypoints.http.answers import JSON, Answer, json_answer
from entrypoints.http.export_bodies import EXPORT_EXAMPLE, etag_of, export_body
from entrypoints.http.headers import retry_after
from entrypoints.http.operation import IF_NONE_MATCH, REQUIRED_KEY, Body, Call, Link, Operation, Reply
from entrypoints.http.paging import Limit, link_to_next
from entrypoints.http.problems import fault_of
from entrypoints.http.schemas import Export, ExportList, ExportRequest, Fault
from entrypoints.http.wire import TIMEZONES, Cursor, cursor_text


class ExportQuery(Struct, frozen=True):
    """Which exports a page shows, and where it begins."""

    status: tuple[JobStatus, ...] = ()
    cursor: Cursor | None = None
    limit: Limit = 50


async def create(call: Call) -> Answer:
    """Accept an export, once for each key."""
    application = call.application
    asked = Asked(
        owner_id=call.owner_id,
        request_key=call.required(REQUIRED_KEY),
        parameters=_parameters(call.stated(ExportRequest)),
        job_id=JobId(application.randomness.new_id()),
        request_id=call.place.request_id,
        traceparent=call.place.traceparent,
    )
    made = await application.store.write(enqueue_export, asked, policies=application.policies)
    address = f"{call.place.base_url}/v1/exports/{made.view.job.id}"
    return _shown(
        call,
        made.view,
        status=202,
        headers={
            "Location": address,
            "Content-Location": address,
            # Of an export that has ended, too: the 202 says so always, and its body tells the rest.
            "Retry-After": _look_again(call, made.look_again_after or SHORTEST_WAIT),
            **({"Idempotent-Replayed": "true"} if made.is_replay else {}),
        },
    )


async def show_page(call: Call) -> Answer:
    """Show one page of the owner's exports."""
    query = call.query(ExportQuery)
    page = await call.application.store.read(
        Bulkhead.EXPORTS,
        list_exports,
        call.owner_id,
        frozenset(query.status),
        before=query.cursor.position if query.cursor else None,
        limit=query.limit,
    )
    cursor = cursor_text(page.following)
    now = call.application.clock.now()
    content = ExportList([export_body(view, now=now, base_url=call.place.base_url) for view in page.items], cursor)
    return json_answer(200, content, headers=link_to_next(call, cursor))


async def show(call: Call) -> Answer:
    """Show an export in whatever state it is, unless the client has seen this one."""
    watched = await call.application.store.read(
        Bulkhead.EXPORTS,
        watch_export,
        call.owner_id,
        call.path("export_id"),
        policies=call.application.policies,
    )
    view, wait = watched.view, watched.look_again_after
    had = call.header(IF_NONE_MATCH)
    tag = etag_of(view, now=call.application.clock.now())
    again = {} if wait is None else {"Retry-After": _look_again(call, wait)}
    if had is not None and had.match_weakly(tag.strip('"')):
        return Answer(304, headers={"ETag": tag, **again})
    return _shown(call, view, headers=again)


async def cancel(call: Call) -> Answer:
    """End an export without a file."""
    view = await call.application.store.write(cancel_export, call.owner_id, call.path("export_id"))
    return _shown(call, view)


def _shown(call: Call, view: ExportView, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    now = call.application.clock.now()
    body = export_body(view, now=now, base_url=call.place.base_url)
    return json_answer(status, body, headers={"ETag": etag_of(view, now=now), **(headers or {})})


def _look_again(call: Call, wait: timedelta) -> str:
    return retry_after(wait, jitter=call.place.jitter)


def _parameters(stated: ExportRequest) -> ExportParameters:
    return ExportParameters(
        format=stated.format,
        columns=stated.columns,
        filter=stated.filter.chosen(),
        timezone=stated.timezone,
        csv=stated.csv,
        deadline_seconds=stated.deadline_seconds,
    )


def _check(members: Mapping[str, Any]) -> list[Fault]:
    """Return what is wrong with the members that could be read, taken together."""
    faults: list[Fault] = []
    if members.get("timezone", TIMEZONES[0]) not in _ZONES:
        faults.append(
            Fault("must be the name of a zone in the tz database, such as Europe/Berlin", pointer="/timezone")
        )
    deadline = members.get("deadline_seconds")
    if deadline is not None and not 1 <= deadline <= _LONGEST_DEADLINE:
        faults.append(Fault("must be a positive number of seconds", pointer="/deadline_seconds"))
    try:
        parameters.canonical(_parameters(ExportRequest(**{**members, "deadline_seconds": None})))
    except InvalidInput as error:
        faults += [fault_of(fault) for fault in error.errors]
    return faults


_ZONES: Final = frozenset(TIMEZONES)
# What any duration can hold; the bounds of the deployment are checked where the export is accepted.
_LONGEST_DEADLINE: Final = 2**31


# ── The contract ──────────────────────────────────────────────────────────────────────────────────────────────────────

_FROM_BODY: Final = {"export_id": "$response.body#/id"}
_LINKS: Final = {
    "status": Link("getExport", _FROM_BODY, "The state of the export."),
    "result": Link("getExportResult", _FROM_BODY, "The file, once the export has succeeded."),
    "cancel": Link("cancelExport", _FROM_BODY, "The end of the export without a file."),
    "delete": Link("deleteExportResult", _FROM_BODY, "The end of the file."),
}
_ASKED: Final = {
    "columns": ["id", "title", "status", "due_at"],
    "filter": {"status": ["open", "in_progress"]},
    "timezone": "Europe/Berlin",
    "csv": {"delimiter": ";"},
}


_operation: Final = partial(Operation, tag="exports", scope=Scope.EXPORTS, bulkhead=Bulkhead.EXPORTS)


OPERATIONS: Final = (
    _operation(
        id="createExport",
        method="POST",
        path="/v1/exports",
        summary="Ask for an export",
        description=(
            "Accepts one durable request for one file. 202 means that the request is stored, not that the file exists. "
            "The same key with equal parameters is answered by the same export, in whatever state it is."
        ),
        handler=create,
        headers=(REQUIRED_KEY,),
        body=Body({JSON: _ASKED}, ExportRequest, _check),
        replies=(
            Reply(
                status=202,
                description="The export was accepted, now or by an earlier request with the same key.",
                content=Export,
                example=EXPORT_EXAMPLE,
                headers=("Location", "Content-Location", "Retry-After", "ETag"),
                optional_headers=("Idempotent-Replayed",),
                links=_LINKS,
            ),
        ),
        problems=(
            types.IDEMPOTENCY_CONFLICT,
            types.TOO_MANY_EXPORTS,
            types.QUEUE_FULL,
            types.QUEUE_TOO_OLD,
            types.STORAGE_BUDGET,
        ),
    ),
    _operation(
        id="listExports",
        method="GET",
        path="/v1/exports",
        summary="List exports",
        description="The owner's exports, newest first.",
        handler=show_page,
        query=ExportQuery,
        replies=(
            Reply(
                status=200,
                description="A page of exports.",
                content=ExportList,
                example=ExportList([EXPORT_EXAMPLE], None),
                optional_headers=("Link",),
                links={
                    "next": Link("listExports", {"query.cursor": "$response.body#/next_cursor"}, "The next page."),
                    "first": Link("getExport", {"export_id": "$response.body#/exports/0/id"}, "The first of the page."),
                },
            ),
        ),
    ),
    _operation(
        id="getExport",
        method="GET",
        path="/v1/exports/{export_id}",
        summary="Read the state of an export",
        description="200 in every state: the state is in the body. Retry-After is there until it is terminal.",
        handler=show,
        headers=(IF_NONE_MATCH,),
        replies=(
            Reply(
                status=200,
                description="The export.",
                content=Export,
                example=EXPORT_EXAMPLE,
                headers=("ETag",),
                optional_headers=("Retry-After",),
                links=_LINKS,
            ),
            Reply(
                status=304,
                description="The client has seen this state.",
                headers=("ETag",),
                optional_headers=("Retry-After",),
            ),
        ),
    ),
    _operation(
        id="cancelExport",
        method="POST",
        path="/v1/exports/{export_id}/cancel",
        summary="Cancel an export",
        description="Ends a queued or running export without a file. Of a cancelled one it changes nothing.",
        handler=cancel,
        replies=(
            Reply(
                status=200,
                description="The export, cancelled.",
                content=Export,
                example=EXPORT_EXAMPLE,
                headers=("ETag",),
                links=_LINKS,
            ),
        ),
        problems=(types.EXPORT_ENDED,),
    ),
)
