"""Imports over HTTP: a file of tasks, all or nothing."""

from asyncio import FIRST_COMPLETED, ensure_future, wait
from collections.abc import Awaitable
from tempfile import TemporaryFile
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from domain.account import Scope
from domain.parameters import FormulaProtection
from domain.ports import Bulkhead, ImportFormat
from entrypoints.http import problem_types as types
from entrypoints.http.answers import JSON, Answer, departure
from entrypoints.http.bodies import ClientGone, received
from entrypoints.http.checks import body_limit
from entrypoints.http.importing import ImportOrder, OnError, Survey, earlier_outcome, spool, store, survey
from entrypoints.http.operation import OPTIONAL_KEY, Body, Call, Link, Operation, Reply
from entrypoints.http.problems import Refused
from entrypoints.http.schemas import Fault, ImportReport, RefusedRow

T = TypeVar("T")

_KINDS: Final = {
    "text/csv": ImportFormat.CSV,
    "application/jsonl": ImportFormat.JSON_LINES,
    "application/x-ndjson": ImportFormat.JSON_LINES,
}
_SHOWN_FAULTS: Final = 100


class ImportQuery(Struct, frozen=True):
    """How a file is to be taken.

    `formula_protection` says what an export added to the file: nothing, or one leading apostrophe at texts that a
    spreadsheet could take for a formula, which is taken off again.
    """

    on_error: OnError = OnError.REFUSE
    formula_protection: FormulaProtection = FormulaProtection.NONE


async def import_file(call: Call) -> Answer:
    """Receive a file, and make its rows tasks."""
    query = call.query(ImportQuery)
    with TemporaryFile() as file, TemporaryFile() as sound:
        pieces = received(
            call.receive, limit=body_limit(call), seconds=call.application.settings.import_receive_seconds
        )
        order = ImportOrder(
            owner_id=call.owner_id,
            kind=_KINDS[call.media_type or ""],
            on_error=query.on_error,
            formula_protection=query.formula_protection,
            request_key=call.header(OPTIONAL_KEY),
            sha256=await spool(pieces, file),
        )
        earlier = await earlier_outcome(call.application, order)
        if earlier is not None:
            return _reported(earlier, is_replay=True)
        found = await _while_connected(call, survey(call.application, order, file, sound))
        if found.refused_count and order.on_error is OnError.REFUSE:
            raise _refusal(found)
        report = msgspec.json.encode(_report(found)).decode()
        earlier = await _while_connected(call, store(call.application, order, found, outcome_json=report))
    return _reported(report if earlier is None else earlier, is_replay=earlier is not None)


async def _while_connected(call: Call, work: Awaitable[T]) -> T:
    """Return what the work comes to; stop it when the client leaves.

    Raises:
        ClientGone: the client left first.
    """
    working, leaving = ensure_future(work), ensure_future(departure(call.receive))
    try:
        await wait([working, leaving], return_when=FIRST_COMPLETED)
        if working.done():
            return await working
    finally:
        leaving.cancel()
        if not working.done():
            working.cancel()
            await wait([working])
    raise ClientGone


def _report(found: Survey) -> ImportReport:
    rows = [RefusedRow(row.line, row.column, row.reason) for row in found.refused]
    return ImportReport(found.sound_count, found.refused_count, rows)


def _refusal(found: Survey) -> Refused:
    faults = [Fault(row.reason, line=row.line, column=row.column) for row in found.refused[:_SHOWN_FAULTS]]
    rows = "row" if found.refused_count == 1 else "rows"
    detail = f"{found.refused_count:,} {rows} of the file cannot be imported, so none was."
    return Refused(types.IMPORT_REFUSED, detail, faults=faults, error_count=found.refused_count)


def _reported(report: str, *, is_replay: bool) -> Answer:
    replayed = {"Idempotent-Replayed": "true"} if is_replay else {}
    return Answer(200, report.encode(), headers={"Content-Type": JSON, **replayed})


# ── The contract ──────────────────────────────────────────────────────────────────────────────────────────────────────

_JSON_LINES: Final = '{"title":"Write the report","priority":2}\n{"title":"Send it"}\n'

OPERATIONS: Final = (
    Operation(
        id="importTasks",
        method="POST",
        path="/v1/tasks/import",
        tag="tasks",
        summary="Import a file of tasks",
        description=(
            "CSV with a header line that names its columns in any order, or JSON Lines. `title` is needed; `id` and "
            "`version` are accepted and not used, since an imported task is a new one. The tasks become visible all "
            "at once. Under an Idempotency-Key the same file is imported once."
        ),
        handler=import_file,
        scope=Scope.TASKS,
        bulkhead=Bulkhead.TASKS,
        query=ImportQuery,
        headers=(OPTIONAL_KEY,),
        body=Body(
            {
                "text/csv": "title,priority\r\nWrite the report,2\r\nSend it,\r\n",
                "application/jsonl": _JSON_LINES,
                "application/x-ndjson": _JSON_LINES,
            }
        ),
        replies=(
            Reply(
                status=200,
                description="Every sound row is a task now.",
                content=ImportReport,
                example=ImportReport(1, 1, [RefusedRow(3, "priority", "must be 1, 2, 3 or 4, not 'x'")]),
                optional_headers=("Idempotent-Replayed",),
                links={"list": Link("listTasks", {}, "The owner's tasks.")},
            ),
        ),
        problems=(types.IMPORT_REFUSED, types.IDEMPOTENCY_CONFLICT),
    ),
)
