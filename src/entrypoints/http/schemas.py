"""The bodies of the API, as its contract shows them. Docstrings and constraints stand in the contract word for word."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from domain import task
from domain.export import ErrorCode, GoneReason, JobStatus
from domain.parameters import Column, ColumnType, CsvOptions, ExportFormat
from domain.task import DEFAULT_PRIORITY, DESCRIPTION_LENGTH, PRIORITIES, TITLE_LENGTH, TaskStatus
from entrypoints.http.wire import (
    TEXT_PATTERN,
    TIMEZONES,
    Count,
    Digest,
    Id,
    InstantText,
    Moment,
    UriReference,
    instant_of,
)

# Constraints in `extra_json_schema` are shown here and checked by the domain, whose words are better.
Title = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": TITLE_LENGTH, "pattern": TEXT_PATTERN})]
Description = Annotated[str, Meta(extra_json_schema={"maxLength": DESCRIPTION_LENGTH, "pattern": TEXT_PATTERN})]
Priority = Annotated[int, Meta(ge=min(PRIORITIES), le=max(PRIORITIES), description="1 is most urgent.")]


# ── Tasks ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class NewTask(Struct, frozen=True, forbid_unknown_fields=True):
    """A task as its owner states it. Text is kept exactly as it came."""

    title: Title
    description: Description = ""
    status: TaskStatus = TaskStatus.OPEN
    priority: Priority = DEFAULT_PRIORITY
    due_at: InstantText | None = None


class TaskPatch(Struct, frozen=True, forbid_unknown_fields=True):
    """The members of a task to set (RFC 7396): the others stay as they are, and null removes the due date."""

    title: Title | UnsetType = UNSET
    description: Description | UnsetType = UNSET
    status: TaskStatus | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    due_at: InstantText | UnsetType | None = UNSET


class Task(Struct, frozen=True, kw_only=True):
    """A task as it is kept. `version` starts at 1 and grows by one with every change."""

    id: Id
    title: str
    description: str
    status: TaskStatus
    priority: int
    due_at: Moment | None
    created_at: Moment
    updated_at: Moment
    version: Annotated[int, Meta(ge=1)]


class TaskList(Struct, frozen=True):
    """One page of tasks, by `created_at` and `id`. `next_cursor` is null on the last page."""

    tasks: list[Task]
    next_cursor: str | None


class RefusedRow(Struct, frozen=True):
    """A row that was not imported: the line on which it begins, the column at fault where there is one, and why."""

    line: Annotated[int, Meta(ge=1)]
    column: str | None
    reason: str


class ImportReport(Struct, frozen=True):
    """What an import came to. `refused_rows` shows the first 1,000 of the `refused` ones."""

    imported: Count
    refused: Count
    refused_rows: list[RefusedRow]


# ── Exports ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class TaskFilter(Struct, frozen=True, forbid_unknown_fields=True):
    """Which tasks are exported. Members are combined with *and*; an empty one selects everything.

    `…_before` is strictly earlier, `…_after` strictly later, `updated_since` at or later. A task without a due date
    matches neither `due_before` nor `due_after`.
    """

    status: tuple[TaskStatus, ...] = ()
    priority: tuple[Priority, ...] = ()
    due_before: InstantText | None = None
    due_after: InstantText | None = None
    created_before: InstantText | None = None
    created_after: InstantText | None = None
    updated_since: InstantText | None = None

    def chosen(self) -> task.TaskFilter:
        """Return what the domain calls this filter."""
        return task.TaskFilter(
            status=self.status,
            priority=self.priority,
            due_before=instant_of(self.due_before),
            due_after=instant_of(self.due_after),
            created_before=instant_of(self.created_before),
            created_after=instant_of(self.created_after),
            updated_since=instant_of(self.updated_since),
        )


class ExportRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What the file is to contain. Every member can be left out; the answer shows the request with its defaults.

    `columns` are in the order of the file. `deadline_seconds` is how long the export is worth doing; null leaves that
    to the service, whose bounds may differ from the ones shown here.
    """

    format: ExportFormat = ExportFormat.CSV
    columns: Annotated[tuple[Column, ...], Meta(extra_json_schema={"minItems": 1, "uniqueItems": True})] = tuple(Column)
    filter: TaskFilter = TaskFilter()
    timezone: Annotated[str, Meta(extra_json_schema={"enum": list(TIMEZONES)})] = "UTC"
    csv: CsvOptions = CsvOptions()
    deadline_seconds: Annotated[int, Meta(extra_json_schema={"minimum": 10, "maximum": 86_400})] | None = None


class ShownFilter(Struct, frozen=True):
    """The filter of an export as it was understood: lists sorted and without repetition, instants in UTC."""

    status: tuple[TaskStatus, ...]
    priority: tuple[int, ...]
    due_before: Moment | None
    due_after: Moment | None
    created_before: Moment | None
    created_after: Moment | None
    updated_since: Moment | None


class ShownRequest(Struct, frozen=True):
    """The request of an export as it was understood, every default filled in. It can be sent again as it is."""

    format: ExportFormat
    columns: tuple[Column, ...]
    filter: ShownFilter
    timezone: str
    csv: CsvOptions
    deadline_seconds: int | None


class ExportProgress(Struct, frozen=True):
    """How far the current attempt has come."""

    rows_written: Count
    rows_total: Count


class ResultColumn(Struct, frozen=True):
    """A column of the file. Only text can be changed by formula protection."""

    name: Column
    type: ColumnType


class ExportResult(Struct, frozen=True, kw_only=True):
    """The file of a succeeded export: `bytes` and `sha256` are of the plain file.

    It shows the tasks as one moment saw them: everything that was committed before `snapshot_at` is in. It can be
    read until `expires_at`, not a second less.
    """

    url: UriReference
    media_type: str
    bytes: Count
    rows: Count
    columns: list[ResultColumn]
    sha256: Digest
    formula_escaped_cells: Count
    snapshot_at: Moment
    expires_at: Moment


class ResultGone(Struct, frozen=True):
    """Why and since when the file of a succeeded export can no longer be read."""

    at: Moment
    reason: GoneReason


class ExportError(Struct, frozen=True):
    """Why an export ended without a file; `code` is stable."""

    type: UriReference
    code: ErrorCode
    title: str
    detail: str


class ExportLinks(Struct, frozen=True):
    """Where to go from here; null where that is not possible in the export's state."""

    self: UriReference
    result: UriReference | None
    cancel: UriReference | None


class Export(Struct, frozen=True, kw_only=True):
    """An export in any of its states. `request` is null only where this version of the service cannot read it."""

    id: Id
    status: JobStatus
    created_at: Moment
    started_at: Moment | None
    finished_at: Moment | None
    deadline_at: Moment
    attempt_count: Count
    max_attempts: Count
    progress: ExportProgress | None
    request: ShownRequest | None
    result: ExportResult | None
    result_gone: ResultGone | None
    error: ExportError | None
    links: ExportLinks


class ExportList(Struct, frozen=True):
    """One page of exports, newest first. `next_cursor` is null on the last page."""

    exports: list[Export]
    next_cursor: str | None


# ── Limits ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class ActiveExports(Struct, frozen=True):
    """How many queued and running exports the owner may have, and how many there are."""

    limit: Count
    used: Count


class RequestRate(Struct, frozen=True):
    """How many requests the process that answered grants the owner in how long a time, and how many are left now."""

    limit: Count
    window_seconds: Count
    remaining: Count


class DeadlineBounds(Struct, frozen=True):
    """What is taken for `deadline_seconds` when none is asked for, and what may be."""

    default_seconds: Count
    shortest_seconds: Count
    longest_seconds: Count


class Limits(Struct, frozen=True, kw_only=True):
    """What one owner may ask for.

    `result_bytes` are of the uncompressed file. A file can be read for `result_retention_seconds`. An idempotency key
    is answered by what its first request came to for at least `key_lifetime_seconds`.
    """

    active_exports: ActiveExports
    requests: RequestRate
    result_rows: Count
    result_bytes: Count
    result_retention_seconds: Count
    key_lifetime_seconds: Count
    deadline: DeadlineBounds


# ── Problems and health ───────────────────────────────────────────────────────────────────────────────────────────────


class Fault(Struct, frozen=True, omit_defaults=True):
    """One thing that is wrong, and where: a member of the body (JSON Pointer), a parameter, a header, or a line."""

    detail: str
    pointer: str | None = None
    parameter: str | None = None
    header: str | None = None
    line: int | None = None
    column: str | None = None


class HealthCheck(Struct, frozen=True):
    """Whether one dependency answered in time."""

    name: str
    is_ok: bool


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An RFC 9457 problem. The members after `request_id` are there where the type of problem has them."""

    type: UriReference
    title: str
    status: Annotated[int, Meta(ge=400, le=599)]
    detail: str
    instance: UriReference
    request_id: str
    errors: tuple[Fault, ...] = ()
    error_count: int | UnsetType = UNSET
    members: tuple[str, ...] | UnsetType = UNSET
    code: ErrorCode | UnsetType = UNSET
    gone_at: Moment | UnsetType = UNSET
    required_scope: str | UnsetType = UNSET
    limit: str | UnsetType = UNSET
    checks: tuple[HealthCheck, ...] | UnsetType = UNSET


class Health(Struct, frozen=True):
    """The state of this process and of what its requests need."""

    status: str
    checks: tuple[HealthCheck, ...]
