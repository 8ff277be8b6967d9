"""The renderer beside the event loop: from the database to the chunks, and nothing left behind however it ends."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from adapters.rendering.csv_file import ThreadedCsvRenderer
from adapters.sqlite import driver
from adapters.sqlite.snapshots import SqliteTaskSnapshots
from adapters.sqlite.store import SqliteStore
from domain.account import OwnerId, User
from domain.errors import ResultTooLarge, StoreUnavailable
from domain.export import Chunk
from domain.parameters import Column, ExportParameters
from domain.policies import Policies
from domain.ports import TaskRow, TaskSnapshot
from domain.task import TaskFilter, TaskStatus
from tests.adapters.conformance.pauses import Pause
from tests.adapters.conformance.steps import keep_tasks
from tests.adapters.rendering.rows import read_back, written_by_csv_writer
from tests.builders import a_task
from tests.fakes import START, ManualClock

DEFAULT: Final = ExportParameters()
DEADLINE_SECONDS: Final = 20
# Enough for four chunks.
LONG: Final = "x" * 100_000


@pytest.fixture
def renderer(database: Path, clock: ManualClock, policies: Policies) -> ThreadedCsvRenderer:
    """The renderer that the worker runs."""
    return ThreadedCsvRenderer(SqliteTaskSnapshots(database, clock=clock), limits=policies.result)


@pytest.fixture
async def busy(store: SqliteStore, owner: User) -> User:
    """An owner with tasks for a file of several chunks."""
    await store.write(keep_tasks, *(a_task(owner.id, number, description=LONG) for number in range(40)))
    return owner


async def chunks_of_export(renderer: ThreadedCsvRenderer, owner: User, parameters: ExportParameters) -> list[Chunk]:
    """Return the chunks of an export."""
    async with renderer.render(owner.id, parameters) as rendering:
        return [chunk async for chunk in rendering.chunks()]


def rendering_threads() -> list[threading.Thread]:
    """Return the threads that render."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("rendering")]


def has_reader(database: Path) -> bool:
    """Tell whether some connection still reads an old state of the database, which keeps a checkpoint from ending."""
    with closing(driver.connect(database)) as connection:
        connection.execute("INSERT INTO users (name, created_at) VALUES (hex(randomblob(8)), 0)")
        (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return bool(busy)


@pytest.fixture(autouse=True)
def nothing_left_behind(database: Path) -> Iterator[None]:
    """Asserts after each test that no thread renders and no snapshot is open."""
    yield
    assert rendering_threads() == []
    assert not has_reader(database)


async def test_an_export_is_the_owners_tasks_in_order(
    store: SqliteStore, renderer: ThreadedCsvRenderer, owner: User
) -> None:
    """From the database to the last byte it is what an independent writer makes of the same tasks."""
    tasks = [
        a_task(owner.id, number, title=f"Task {number}; é\U0001f600 \"'", description="a\r\nb,c" * (number % 3))
        for number in range(600)
    ]
    await store.write(keep_tasks, *reversed(tasks))
    async with renderer.render(owner.id, DEFAULT) as rendering:
        text = b"".join([chunk.text() async for chunk in rendering.chunks()]).decode()
        assert rendering.rows_total == len(tasks)
        assert rendering.file.staged.row_count == len(tasks)
        assert rendering.file.snapshot_at == START
    rows = [tuple(getattr(task, column.value) for column in Column) for task in tasks]
    assert text == written_by_csv_writer(rows, DEFAULT)


async def test_the_filter_of_the_parameters_selects_the_rows(
    store: SqliteStore, renderer: ThreadedCsvRenderer, owner: User
) -> None:
    """Only those rows are counted and written."""
    tasks = [a_task(owner.id, number, status=list(TaskStatus)[number % 3]) for number in range(9)]
    await store.write(keep_tasks, *tasks)
    parameters = ExportParameters(columns=(Column.STATUS,), filter=TaskFilter(status=(TaskStatus.DONE,)))
    chunks = await chunks_of_export(renderer, owner, parameters)
    assert read_back(b"".join(chunk.text() for chunk in chunks).decode(), parameters) == [["status"], *[["done"]] * 3]


async def test_tasks_that_change_meanwhile_are_exported_as_they_were(
    store: SqliteStore, renderer: ThreadedCsvRenderer, busy: User
) -> None:
    """A write between two chunks is not in the file, and the file of the next export has it."""
    before = await chunks_of_export(renderer, busy, DEFAULT)
    during: list[Chunk] = []
    async with renderer.render(busy.id, DEFAULT) as rendering:
        async for chunk in rendering.chunks():
            during.append(chunk)
            if chunk.seq == 0:
                assert await store.write(lambda uow: uow.tasks.remove(a_task(busy.id, 39)))
    assert len(during) > 2
    assert during == before
    assert await chunks_of_export(renderer, busy, DEFAULT) != before


async def test_the_event_loop_goes_on_while_a_chunk_is_made(renderer: ThreadedCsvRenderer, busy: User) -> None:
    """Rendering happens on a thread of its own."""
    async with renderer.render(busy.id, DEFAULT) as rendering:
        assert [thread.name for thread in rendering_threads()] == ["rendering_0"]
        assert len([chunk async for chunk in rendering.chunks()]) > 2
        assert threading.current_thread() not in rendering_threads()


async def test_leaving_early_frees_thread_and_connection(
    database: Path, renderer: ThreadedCsvRenderer, busy: User
) -> None:
    """With most chunks never made."""
    async with renderer.render(busy.id, DEFAULT) as rendering:
        async for _ in rendering.chunks():
            break
        assert rendering_threads()
        assert has_reader(database)


async def test_an_error_of_whoever_renders_frees_thread_and_connection(
    renderer: ThreadedCsvRenderer, busy: User
) -> None:
    """It comes out as it is."""

    async def fail() -> None:
        async with renderer.render(busy.id, DEFAULT) as rendering:
            async for _ in rendering.chunks():
                raise LookupError

    with pytest.raises(LookupError):
        await fail()


@pytest.mark.parametrize("times", [1, 2])
async def test_a_cancellation_frees_thread_and_connection(
    renderer: ThreadedCsvRenderer, busy: User, times: int
) -> None:
    """In the middle of the rendering, within the chunk that is being made; also when the leaving is cancelled."""
    begun = asyncio.Event()

    async def render() -> None:
        async with renderer.render(busy.id, DEFAULT) as rendering:
            begun.set()
            async for _ in rendering.chunks():
                pass
            await asyncio.Event().wait()

    rendering = asyncio.ensure_future(render())
    async with asyncio.timeout(DEADLINE_SECONDS):
        await begun.wait()
        for _ in range(times):
            rendering.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await rendering


class WatchedSnapshots:
    """`TaskSnapshots` of one without a row, that stands still while it is read and notes how it is closed."""

    def __init__(self) -> None:
        self.pause = Pause()
        self.snapshot_at = START
        self.row_count = 0
        self.closed_by: list[tuple[str, bool]] = []
        self._is_read = False

    @contextmanager
    def open(self, owner_id: OwnerId, chosen: TaskFilter) -> Iterator[TaskSnapshot]:  # noqa: ARG002 - as the port has it
        """Open the one."""
        try:
            yield self
        finally:
            self.closed_by.append((threading.current_thread().name, self._is_read))

    def batches(self) -> Iterator[list[TaskRow]]:
        """Yield no batch, once the test lets it go on."""
        self._is_read = True
        self.pause.here()
        self._is_read = False
        yield from ()


@pytest.mark.parametrize("cancellations", [1, 2, 3])
async def test_a_snapshot_is_closed_by_its_own_thread_once_it_is_not_read_any_more(
    policies: Policies, owner: User, cancellations: int
) -> None:
    """However often whoever renders is cancelled: a connection that is closed under a query takes the process along."""
    snapshots = WatchedSnapshots()
    renderer = ThreadedCsvRenderer(snapshots, limits=policies.result)
    rendering = asyncio.ensure_future(chunks_of_export(renderer, owner, DEFAULT))
    await snapshots.pause.reached()
    # From another thread, and later: the loop itself may wait for the reading one to end.
    threading.Timer(0.2, snapshots.pause.go_on).start()
    for _ in range(cancellations):
        rendering.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await rendering
    assert snapshots.closed_by == [("rendering_0", False)]


@pytest.mark.parametrize("limit", ["max_rows", "max_bytes"])
async def test_a_result_that_is_too_large_is_refused_and_leaves_nothing_behind(
    database: Path, policies: Policies, busy: User, limit: str
) -> None:
    """Too many rows at the opening, too many bytes at the chunk."""
    limits = replace(policies.result, **{limit: 39})
    small = ThreadedCsvRenderer(SqliteTaskSnapshots(database, clock=ManualClock()), limits=limits)
    with pytest.raises(ResultTooLarge):
        await chunks_of_export(small, busy, DEFAULT)


async def test_a_database_that_cannot_be_opened_is_unavailable(
    tmp_path: Path, clock: ManualClock, policies: Policies, owner: User
) -> None:
    """A failure of the environment, which an attempt is excused for."""
    lost = ThreadedCsvRenderer(SqliteTaskSnapshots(tmp_path / "lost.db", clock=clock), limits=policies.result)
    with pytest.raises(StoreUnavailable):
        await chunks_of_export(lost, owner, DEFAULT)


async def test_two_exports_at_once_do_not_meet(renderer: ThreadedCsvRenderer, busy: User) -> None:
    """Each has a thread, a connection and a snapshot of its own."""
    both = await asyncio.gather(*(chunks_of_export(renderer, busy, DEFAULT) for _ in range(2)))
    assert both[0] == both[1]
    assert len(both[0]) > 2
