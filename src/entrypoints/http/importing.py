"""How a file becomes tasks: received, checked whole, stored in short transactions, shown in one.

Everything slow happens while no lock and no connection is held: the upload, into a file on the disk, and the check,
which writes the sound rows to a second one. Memory stays flat whatever the file holds. What is stored of an import
that does not come to its end is taken back; what a killed process leaves behind, the worker's sweep takes back.
"""

import errno
from asyncio import CancelledError, ensure_future, shield, to_thread, wait
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from hashlib import sha256
from itertools import islice
from typing import BinaryIO, Final, ParamSpec, TypeVar

import msgspec
from msgspec import Struct

from domain import parameters
from domain.account import OwnerId
from domain.errors import Refusal, StoreFull
from domain.parameters import FormulaProtection
from domain.ports import Bulkhead, ImportFormat, ImportRow, KeyedOutcome, RefusedRow
from domain.task import NewTask, TaskId
from domain.use_cases.imports import IMPORT_ROUTE, begin_import, discard_import, publish_import, store_batch
from domain.use_cases.tasks import find_outcome
from entrypoints.bootstrap import Application
from entrypoints.telemetry import LogEvent, evidence_of, logger

P = ParamSpec("P")
T = TypeVar("T")

log = logger()

# One write transaction holds at most this much, so that it is over in tens of milliseconds: others write in between.
_BATCH_ROWS: Final = 400
_BATCH_BYTES: Final = 256 << 10
# How many rows are read in one visit to another thread.
_CHECKED_ROWS: Final = 1_000
_WRITTEN_BYTES: Final = 256 << 10
_SHOWN_REFUSALS: Final = 1_000
_LENGTH_BYTES: Final = 4


class OnError(StrEnum):
    """What becomes of a file in which some rows are at fault: nothing of it is imported, or all other rows are."""

    REFUSE = "refuse"
    SKIP = "skip"


class ImportOrder(Struct, frozen=True, kw_only=True):
    """What is to be done with a file that was received; `sha256` is of its bytes."""

    owner_id: OwnerId
    kind: ImportFormat
    on_error: OnError
    formula_protection: FormulaProtection
    request_key: str | None
    sha256: str

    @property
    def digest(self) -> str:
        """What the order is compared by under its key."""
        return parameters.digest(f"{self.kind} {self.on_error} {self.formula_protection} {self.sha256}")


class Survey:
    """What the check of a file found: its sound rows, in a file of their own, and those at fault."""

    def __init__(self, sound: BinaryIO) -> None:
        self.sound = sound
        self.sound_count = 0
        self.refused_count = 0
        self.refused: list[RefusedRow] = []

    def take(self, row: ImportRow | RefusedRow) -> None:
        """Count a row, and keep it."""
        if isinstance(row, RefusedRow):
            self.refused_count += 1
            if len(self.refused) < _SHOWN_REFUSALS:
                self.refused.append(row)
            return
        record = msgspec.msgpack.encode(row.task)
        self.sound.write(len(record).to_bytes(_LENGTH_BYTES, "big") + record)
        self.sound_count += 1

    def batches(self) -> Iterator[list[NewTask]]:
        """Yield the sound rows, in order, in what one transaction may hold."""
        self.sound.seek(0)
        batch: list[NewTask] = []
        size = 0
        while header := self.sound.read(_LENGTH_BYTES):
            record = self.sound.read(int.from_bytes(header, "big"))
            if batch and (len(batch) >= _BATCH_ROWS or size + len(record) > _BATCH_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(msgspec.msgpack.decode(record, type=NewTask))
            size += len(record)
        if batch:
            yield batch


async def spool(pieces: AsyncIterator[bytes], file: BinaryIO) -> str:
    """Write a body to a file as it arrives, and return its SHA-256.

    Raises:
        StoreFull: the disk has no room for it.
    """
    digest = sha256()

    def keep(content: bytes) -> None:
        with _room():
            file.write(content)
        digest.update(content)

    waiting: list[bytes] = []
    size = 0
    async for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _WRITTEN_BYTES:
            await _on_thread(keep, b"".join(waiting))
            waiting, size = [], 0
    await _on_thread(keep, b"".join(waiting))
    return digest.hexdigest()


async def earlier_outcome(application: Application, order: ImportOrder) -> str | None:
    """Return what an earlier import under the same key came to.

    Raises:
        IdempotencyConflict: the key was used with another file or other options.
    """
    if order.request_key is None:
        return None
    found = await application.store.read(
        Bulkhead.TASKS,
        find_outcome,
        order.owner_id,
        route=IMPORT_ROUTE,
        request_key=order.request_key,
        parameters_digest=order.digest,
    )
    return None if found is None else found.outcome_json


async def survey(application: Application, order: ImportOrder, file: BinaryIO, sound: BinaryIO) -> Survey:
    """Read the whole file and return what is in it.

    Raises:
        InvalidInput: the file as a whole cannot be read.
        StoreFull: the disk has no room for the sound rows.
    """
    file.seek(0)
    found = Survey(sound)
    rows = application.import_reader.read(file, order.kind, formula_protection=order.formula_protection)

    def take_some() -> bool:
        with _room():
            some = list(islice(rows, _CHECKED_ROWS))
            for row in some:
                found.take(row)
        return bool(some)

    while await _on_thread(take_some):
        pass
    return found


async def store(application: Application, order: ImportOrder, found: Survey, *, outcome_json: str) -> str | None:
    """Make every sound row a task, all visible in one moment, and keep the outcome under the order's key.

    Returns the outcome of an earlier import under the same key, which was published meanwhile: then nothing is added.

    Raises:
        NotFound: the import was taken back because it took too long.
        IdempotencyConflict: the key was used with another file or other options.
    """
    transactions, new_id = application.store, application.randomness.new_id
    import_id = await transactions.write(begin_import, order.owner_id)
    is_published = False
    try:
        batches = found.batches()
        while (batch := await _on_thread(next, batches, None)) is not None:
            rows = [(TaskId(new_id()), task) for task in batch]
            await transactions.write(store_batch, order.owner_id, import_id, rows)
        keyed = None if order.request_key is None else _keyed(order, order.request_key, import_id, outcome_json)
        earlier = await transactions.write(publish_import, order.owner_id, import_id, keyed=keyed)
        is_published = earlier is None
    finally:
        if not is_published:
            # Also when this very task is being cancelled: the taking back goes on by itself.
            await shield(ensure_future(_take_back(application, import_id)))
    return None if earlier is None else earlier.outcome_json


def _keyed(order: ImportOrder, request_key: str, import_id: int, outcome_json: str) -> KeyedOutcome:
    return KeyedOutcome(order.owner_id, IMPORT_ROUTE, request_key, order.digest, str(import_id), outcome_json)


async def _take_back(application: Application, import_id: int) -> None:
    try:
        while not await application.store.write(discard_import, import_id, limit=_BATCH_ROWS):
            pass
    except Refusal as error:
        # Nobody sees the rows; the sweep takes them back later.
        log.warning(LogEvent.IMPORT_LEFT_BEHIND, **evidence_of(error))


async def _on_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function on another thread, and be cancelled only between such visits: the files stay open until then."""
    visit = ensure_future(to_thread(function, *args, **kwargs))
    try:
        return await shield(visit)
    except CancelledError:
        await wait([visit])
        raise


@contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise StoreFull("there is no room on the disk for the file") from error
        raise
