"""What the domain needs of the world. Each docstring is a law, and the conformance suite holds every adapter to it.

A transaction is a function: a use case takes a `UnitOfWork`, and a `Store` runs it whole. Everything in here that a
unit of work offers is synchronous and happens inside that one transaction.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from enum import StrEnum
from typing import BinaryIO, Concatenate, ParamSpec, Protocol, TypeVar

from msgspec import Struct

from domain.account import ApiToken, OwnerId, Principal, TokenId, User
from domain.admission import Drained
from domain.export import (
    Chunk,
    ErrorCode,
    ExportJob,
    ExportResult,
    GoneReason,
    HistoryEntry,
    JobId,
    JobStatus,
    Progress,
    RenderedFile,
    Staged,
)
from domain.instants import Instant
from domain.lifecycle import Transition
from domain.maintenance import MaintenanceGrant
from domain.pages import Position
from domain.parameters import ExportParameters, FormulaProtection
from domain.task import NewTask, Task, TaskFilter

P = ParamSpec("P")
T = TypeVar("T")


class Clock(Protocol):
    """Two clocks: one decides, the other only paces."""

    def now(self) -> Instant:
        """Return the database's time, which alone decides leases, deadlines and retention."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back, for the pace of one process."""
        ...


class Randomness(Protocol):
    """Everything that must not be predictable or must be unique."""

    def new_id(self) -> str:
        """Return a fresh UUID, version 7, in its canonical lower-case form; later ones sort after earlier ones."""
        ...

    def new_secret(self) -> str:
        """Return 256 random bits as URL-safe text."""
        ...

    def fraction(self) -> float:
        """Return a number in [0, 1), evenly spread."""
        ...


class Users(Protocol):
    """The people whose tasks these are."""

    def add(self, name: str) -> User:
        """Add a user, created now. Raises `NameTaken` and changes nothing when the name is in use."""
        ...

    def find(self, name: str) -> User | None:
        """Return the user of that name."""
        ...

    def get(self, owner_id: OwnerId) -> User | None:
        """Return the user of that id."""
        ...

    def all(self) -> list[User]:
        """Return every user, by name."""
        ...

    def set_disabled(self, owner_id: OwnerId, *, at: Instant | None) -> None:
        """Disable the user as of `at`, or enable with None."""
        ...


class ApiTokens(Protocol):
    """Bearer tokens, known by their digests."""

    def add(self, token: ApiToken) -> None:
        """Keep a token."""
        ...

    def of(self, owner_id: OwnerId) -> list[ApiToken]:
        """Return the user's tokens, oldest first, revoked ones included."""
        ...

    def revoke(self, token_id: TokenId, *, at: Instant) -> bool:
        """Revoke a token; tell whether there was such a token that was not revoked yet."""
        ...

    def principal(self, token_hash: str) -> Principal | None:
        """Return whom the token speaks for; None when it is unknown, revoked, or its user is disabled."""
        ...


class Tasks(Protocol):
    """An owner's tasks. The owner is part of every question: another owner's task is not there."""

    def add(self, task: Task) -> None:
        """Keep a new task."""
        ...

    def add_imported(self, import_id: int, tasks: Sequence[Task]) -> None:
        """Keep tasks that stay invisible to every other verb until their import is published.

        Raises `NotFound`, and keeps nothing, when the import is not open (any more).
        """
        ...

    def find(self, owner_id: OwnerId, task_id: str) -> Task | None:
        """Return the owner's task."""
        ...

    def page(self, owner_id: OwnerId, chosen: TaskFilter, *, after: Position | None, limit: int) -> list[Task]:
        """Return up to `limit` of the owner's tasks that the filter selects, in order, from after the position."""
        ...

    def save(self, before: Task, after: Task) -> bool:
        """Replace the task if its stored version is still that of `before`; tell whether it was."""
        ...

    def remove(self, task: Task) -> bool:
        """Delete the task if its stored version is still that of `task`; tell whether it was."""
        ...


class KeyedOutcome(Struct, frozen=True):
    """What a request that carried an idempotency key came to: the answer's body, kept so that a replay equals it."""

    owner_id: OwnerId
    route: str
    request_key: str
    parameters_digest: str
    resource_id: str
    outcome_json: str


class IdempotencyKeys(Protocol):
    """Outcomes of task creations and imports by (owner, route, key). Exports keep theirs in their own row."""

    def find(self, owner_id: OwnerId, route: str, request_key: str) -> KeyedOutcome | None:
        """Return the outcome that this key came to."""
        ...

    def add(self, outcome: KeyedOutcome) -> None:
        """Keep an outcome, as of now."""
        ...

    def forget(self, *, before: Instant, limit: int) -> int:
        """Delete up to `limit` outcomes that were kept at or before the instant; return how many were."""
        ...


class Imports(Protocol):
    """Imports that are under way: their tasks are stored in several transactions and become visible in one."""

    def begin(self, owner_id: OwnerId) -> int:
        """Open an import, as of now, and return its number."""
        ...

    def publish(self, import_id: int) -> int:
        """Make the import's tasks visible, all in this transaction, and return how many there are.

        Raises `NotFound` when the import is not open (any more).
        """
        ...

    def abandoned(self, *, before: Instant, limit: int) -> list[int]:
        """Return imports that were opened before the instant and never published, oldest first."""
        ...

    def discard(self, import_id: int, *, limit: int) -> bool:
        """Delete up to `limit` of an unpublished import's tasks; once none is left, forget it and return True.

        From the first call on the import can be neither added to nor published: no one sees it by half. There is
        nothing to delete of one that is published or forgotten, so that returns True.
        """
        ...


class ExportJobs(Protocol):
    """Jobs and their history."""

    def save(self, transition: Transition) -> None:
        """Store one step of the protocol and append its line of history, in this transaction.

        A compare-and-set: the stored job must still be of `before`'s version, or must not exist when there is no
        `before`. Otherwise nothing changes and `StaleVersion` is raised.
        """
        ...

    def get(self, job_id: JobId) -> ExportJob | None:
        """Return the job whoever owns it: for the worker and operators."""
        ...

    def find(self, owner_id: OwnerId, job_id: str) -> ExportJob | None:
        """Return the owner's job."""
        ...

    def find_by_key(self, owner_id: OwnerId, request_key: str) -> ExportJob | None:
        """Return the owner's job that was asked for under this idempotency key."""
        ...

    def page(
        self, owner_id: OwnerId, status: frozenset[JobStatus], *, before: Position | None, limit: int
    ) -> list[ExportJob]:
        """Return up to `limit` of the owner's jobs, newest first, from before the position; no status means any."""
        ...

    def history(self, job_id: JobId) -> list[HistoryEntry]:
        """Return every saved change of the job, oldest first."""
        ...


class ExportQueue(Protocol):
    """Which jobs a claim should look at. Owners take turns; within an owner's turn the oldest available comes first."""

    def has_candidates(self, *, longest_lease_until: Instant, running_limit: int) -> bool:
        """Tell whether `candidates` would find any, or put any in line. Takes no write lock."""
        ...

    def candidates(self, *, longest_lease_until: Instant, running_limit: int, limit: int) -> list[ExportJob]:
        """Return jobs that a claim may take, best first, after putting in line those whose backoff is over.

        First running ones with a dead lease (over, or running past `longest_lease_until`), then queued ones that are
        available: one of each owner that waits and has fewer than `running_limit` running, by the owners' turns.
        """
        ...

    def hopeless(self, *, as_of: Instant, longest_lease_until: Instant, limit: int) -> list[ExportJob]:
        """Return jobs that can never succeed any more, whether or not a claim would meet them.

        Those whose deadline is at or before `as_of`, and those whose budget is spent and that no live lease holds.
        """
        ...


class ExportLoad(Protocol):
    """How much waits and how fast it is done. Each count visits no more rows than `most`, whatever there is."""

    def pending(self, *, most: int) -> int:
        """Return how many jobs are queued, those in backoff included, counted up to `most`."""
        ...

    def active(self, owner_id: OwnerId, *, most: int) -> int:
        """Return how many of the owner's jobs have not ended, counted up to `most`."""
        ...

    def oldest_available_at(self) -> Instant | None:
        """Return since when the job that has waited for longest could have been taken; None when none can be."""
        ...

    def ended(self, *, since: Instant, most: int) -> Drained:
        """Return how many jobs succeeded or failed after `since`, and in how long a time: never no time at all.

        Of the latest `most` that ended, where there are more, and then in the time since the first of those.
        """
        ...


class StorageUsage(Struct, frozen=True):
    """How much of the database is in use, and how much is free on the volume that it can grow on."""

    database_bytes: int
    free_bytes: int


class Storage(Protocol):
    """The room that there is."""

    def usage(self) -> StorageUsage:
        """Return what is used and what is left; room inside the database that was freed counts as not used."""
        ...


class JobFilter(Struct, frozen=True, kw_only=True):
    """Which jobs an operator means, whoever owns them. Members are combined with *and*; an empty one selects all.

    `…_before` is strictly earlier, `…_after` strictly later; what has not ended matches neither `finished_…`.
    """

    status: frozenset[JobStatus] = frozenset()
    owner_id: OwnerId | None = None
    code: ErrorCode | None = None
    created_before: Instant | None = None
    created_after: Instant | None = None
    finished_before: Instant | None = None
    finished_after: Instant | None = None


class RunningJob(Struct, frozen=True):
    """A job under lease: who holds it, and since when."""

    job_id: JobId
    worker_id: str
    claimed_at: Instant


class Happened(Struct, frozen=True):
    """How many jobs came in a stretch of time, and how many ended in which way."""

    enqueued_count: int
    requeued_count: int
    succeeded_count: int
    failed_count: int
    cancelled_count: int


class JobDirectory(Protocol):
    """What operators ask of all owners' jobs. For read transactions: it changes nothing, and no claim waits for it."""

    def page(self, chosen: JobFilter, *, before: Position | None, limit: int) -> list[ExportJob]:
        """Return up to `limit` of the jobs that the filter selects, newest first, from before the position."""
        ...

    def count(self, status: JobStatus, *, most: int) -> int:
        """Return how many jobs have this status, counted up to `most`."""
        ...

    def running(self, *, limit: int) -> list[RunningJob]:
        """Return up to `limit` of the jobs under lease, those whose lease ends first before others."""
        ...

    def happened(self, *, since: Instant) -> Happened:
        """Return how many jobs came and ended after `since`: as many looks as there were changes of jobs."""
        ...

    def workers(self, *, since: Instant) -> dict[str, Instant]:
        """Return when each worker that changed a job after `since` last did."""
        ...


class ExportResults(Protocol):
    """Committed results: a row here is what makes an attempt's chunks readable."""

    def publish(self, result: ExportResult) -> None:
        """Keep the result of a job; there is at most one, and a second is refused by the store itself."""
        ...

    def find(self, job_id: JobId) -> ExportResult | None:
        """Return the job's result, gone or not."""
        ...

    def mark_gone(self, job_id: JobId, *, reason: GoneReason) -> None:
        """Make the result unreadable as of now, and hand its chunks to the sweep.

        What is gone already stays as it is, but for one that expired and is deleted then: its chunks go at once.
        """
        ...

    def expired(self, *, as_of: Instant, limit: int) -> list[ExportResult]:
        """Return results that expired at or before the instant and are not marked as gone, longest over first."""
        ...

    def mark_expired(self, job_id: JobId, *, needed_until: Instant) -> None:
        """Record that the result is gone since its `expires_at`, and hand its chunks to the sweep.

        Until `needed_until` they are not lost: a download that began in time reads on.
        """
        ...


class Attempt(Struct, frozen=True):
    """One processing try of a job, by its fencing number."""

    job_id: JobId
    number: int


class ResultStore(Protocol):
    """Where an attempt's bytes lie.

    They are invisible until the attempt's result is published, so a store that cannot fence is safe behind this port.
    """

    def stage(self, attempt: Attempt, chunk: Chunk, *, rows_total: int) -> None:
        """Keep one chunk. Raises `StaleVersion` when this attempt already staged that number."""
        ...

    def staged(self, attempt: Attempt) -> Staged | None:
        """Return what is staged, counted anew; None when nothing is, or numbers or offsets leave a gap."""
        ...

    def progress(self, attempt: Attempt) -> Progress | None:
        """Return how many rows of how many the attempt has staged; None before its first chunk."""
        ...

    def read(self, attempt: Attempt, seq: int) -> Chunk | None:
        """Return one chunk as it is stored, unverified."""
        ...

    def lost(self, *, as_of: Instant, limit: int) -> list[Attempt]:
        """Return attempts whose bytes no one can need any more at the instant.

        They are neither published, nor the current one of a running job, nor of a result that expired so lately that
        downloads may still run.
        """
        ...

    def delete(self, attempt: Attempt, *, limit: int) -> bool:
        """Delete up to `limit` chunks of the attempt; tell whether none is left."""
        ...


class MaintenanceLease(Protocol):
    """The one lease of maintenance."""

    def last(self) -> MaintenanceGrant | None:
        """Return the last grant, live or not; None before the first."""
        ...

    def grant(self, made: MaintenanceGrant) -> None:
        """Keep a grant as the last one.

        Its number must be higher than the last one's: otherwise nothing changes and `StaleVersion` is raised.
        """
        ...


class Retention(Protocol):
    """What is removed for good once its time is over, and the place that it took."""

    def ended(self, *, before: Instant, limit: int) -> list[JobId]:
        """Return jobs that ended at or before the instant and that nothing but their history is left of.

        Neither a result that is not marked as gone, nor bytes of any attempt: those go first.
        """
        ...

    def forget(self, job_id: JobId) -> None:
        """Delete a job, with its history and the record of its result. Its idempotency key is free again."""
        ...

    def give_back(self, *, pages: int) -> int:
        """Return up to so many free pages of the database to the file system; tell how many were."""
        ...


class UnitOfWork(Protocol):
    """One transaction: everything reached through it is read and written together, or not at all."""

    @property
    def now(self) -> Instant:
        """The database's time of this transaction: read once it has begun, and the same throughout."""
        ...

    @property
    def users(self) -> Users: ...  # noqa: D102 - the type says it, here and below
    @property
    def api_tokens(self) -> ApiTokens: ...  # noqa: D102
    @property
    def tasks(self) -> Tasks: ...  # noqa: D102
    @property
    def idempotency_keys(self) -> IdempotencyKeys: ...  # noqa: D102
    @property
    def imports(self) -> Imports: ...  # noqa: D102
    @property
    def exports(self) -> ExportJobs: ...  # noqa: D102
    @property
    def queue(self) -> ExportQueue: ...  # noqa: D102
    @property
    def load(self) -> ExportLoad:
        """How much waits, and how fast it is done."""
        ...

    @property
    def storage(self) -> Storage:
        """How much room there is."""
        ...

    @property
    def directory(self) -> JobDirectory: ...  # noqa: D102
    @property
    def results(self) -> ExportResults: ...  # noqa: D102
    @property
    def result_store(self) -> ResultStore: ...  # noqa: D102
    @property
    def maintenance(self) -> MaintenanceLease:
        """Who maintains."""
        ...

    @property
    def retention(self) -> Retention:
        """What is over for good."""
        ...


class Bulkhead(StrEnum):
    """A pool of read connections of its own, so that one kind of reading cannot starve another."""

    TASKS = "tasks"
    EXPORTS = "exports"
    DOWNLOADS = "downloads"
    OPERATIONS = "operations"


class Store(Protocol):
    """Runs functions as transactions."""

    def write(
        self, function: Callable[Concatenate[UnitOfWork, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]:
        """Run the function in one write transaction: committed when it returns, rolled back when it raises.

        Whoever cancels the waiting leaves no transaction open: the function runs to its end, unobserved. It may be
        run again from the start when the store was busy, so it must depend on its arguments alone.

        Raises `StoreBusy` when the write lock is not to be had within its limit, `StoreFull`, `StoreUnavailable`, and
        `OutcomeUnknown` when the commit itself reported an error.
        """
        ...

    def read(
        self, bulkhead: Bulkhead, function: Callable[Concatenate[UnitOfWork, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]:
        """Run the function on one snapshot, with nothing to commit and no lock taken.

        Raises `PoolExhausted` when no connection of the pool is free within its limit, `StoreUnavailable`.
        """
        ...

    def checkpoint(self) -> Awaitable[None]:
        """Move what is committed to where it stays, as far as readers allow, and shorten the log if that is all of it.

        Waits for no reader and no writer, disturbs none, and changes nothing that anybody reads. Raises
        `StoreUnavailable`.
        """
        ...


TaskRow = tuple[object, ...]


class TaskSnapshot(Protocol):
    """An owner's tasks as one read transaction sees them."""

    @property
    def snapshot_at(self) -> Instant:
        """Read before the snapshot opened: everything committed before this instant is in."""
        ...

    @property
    def row_count(self) -> int:
        """How many tasks the filter selects in this snapshot."""
        ...

    def batches(self) -> Iterator[Sequence[TaskRow]]:
        """Yield the rows in bounded batches, by `created_at` and `id`.

        A row is a tuple of all columns in the order of `Column`, statuses as text and instants as integers; what
        stands behind them is not for the file.

        Raises `OwnershipViolation` when a row of another owner turns up.
        """
        ...


class TaskSnapshots(Protocol):
    """Consistent reads that are too long for a unit of work."""

    def open(self, owner_id: OwnerId, chosen: TaskFilter) -> AbstractContextManager[TaskSnapshot]:
        """Open a snapshot on a connection of its own, to be used and closed on one thread."""
        ...


class Rendering(Protocol):
    """A file being made."""

    @property
    def rows_total(self) -> int:
        """How many rows it will have."""
        ...

    def chunks(self) -> AsyncIterator[Chunk]:
        """Yield the file in order, to be iterated once. The same snapshot and parameters give the same bytes.

        Raises `ResultTooLarge` before the first chunk that would pass a limit.
        """
        ...

    @property
    def file(self) -> RenderedFile:
        """What the whole is. Only after the last chunk."""
        ...


class Renderer(Protocol):
    """Makes the file of an export from a snapshot of its own."""

    def render(self, owner_id: OwnerId, parameters: ExportParameters) -> AbstractAsyncContextManager[Rendering]:
        """Open a snapshot and begin to render it; leaving the context stops the work and frees what it holds."""
        ...


class ImportFormat(StrEnum):
    """What kind of file is imported."""

    CSV = "csv"
    JSON_LINES = "jsonl"


class ImportRow(Struct, frozen=True):
    """A sound row of an import: the line on which it begins (1-based) and the task that it states."""

    line: int
    task: NewTask


class RefusedRow(Struct, frozen=True):
    """A row that cannot be imported: its line (1-based), the column at fault where one is, and why."""

    line: int
    column: str | None
    reason: str


class ImportReader(Protocol):
    """Reads tasks out of a file."""

    def read(
        self, file: BinaryIO, kind: ImportFormat, *, formula_protection: FormulaProtection
    ) -> Iterator[ImportRow | RefusedRow]:
        """Yield every record of the file in order, sound or refused, in bounded memory. Text is kept exactly.

        With APOSTROPHE one leading apostrophe is taken off title and description, which undoes the protection that an
        export adds. A CSV file has a header line that names its columns in any order; `id` and `version` are accepted
        and not used, since an imported task is a new one.

        Raises `InvalidInput` when the file as a whole cannot be read: not UTF-8, no header, an unknown or missing
        column, broken quoting.
        """
        ...
