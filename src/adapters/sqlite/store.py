"""The store: runs a function as one transaction, in one hop to the thread that owns the connection.

Nothing can be awaited while the write lock is held, and cancelling the caller leaves no transaction open: the function
runs to its end on its thread, and commits or rolls back there.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

import aiosqlite

from adapters.sqlite import driver, migrate
from adapters.sqlite.accounts import SqliteApiTokens, SqliteUsers
from adapters.sqlite.directory import SqliteJobDirectory
from adapters.sqlite.exports import SqliteExportJobs, SqliteExportQueue
from adapters.sqlite.load import SqliteExportLoad, SqliteStorage
from adapters.sqlite.maintenance import SqliteMaintenanceLease, SqliteRetention
from adapters.sqlite.results import SqliteExportResults, SqliteResultStore
from adapters.sqlite.tasks import SqliteIdempotencyKeys, SqliteImports, SqliteTasks
from domain.errors import EnvironmentFailure, PoolExhausted
from domain.instants import Instant
from domain.ports import Bulkhead, Clock, Randomness, UnitOfWork

P = ParamSpec("P")
T = TypeVar("T")

# SQLite's own waiting starves whoever came last; short sleeps of random length do not (ADR 0007 has the figures).
_SHORTEST_SLEEP: Final = 0.0005
_LONGEST_SLEEP: Final = 0.003
# A WAL of this many pages is what SQLite keeps by itself; a longer one is left by a long reader, and cut back.
_ORDINARY_WAL_PAGES: Final = 1000


class SqliteUnitOfWork:
    """`UnitOfWork` on one connection, for the length of one transaction."""

    def __init__(self, connection: driver.Connection, now: Instant, path: Path) -> None:
        self.now = now
        self.users = SqliteUsers(connection, now)
        self.api_tokens = SqliteApiTokens(connection)
        self.tasks = SqliteTasks(connection)
        self.idempotency_keys = SqliteIdempotencyKeys(connection, now)
        self.imports = SqliteImports(connection, now)
        self.exports = SqliteExportJobs(connection, now)
        self.queue = SqliteExportQueue(connection, now)
        self.load = SqliteExportLoad(connection, now)
        self.storage = SqliteStorage(connection, path)
        self.directory = SqliteJobDirectory(connection, now)
        self.results = SqliteExportResults(connection, now)
        self.result_store = SqliteResultStore(connection)
        self.maintenance = SqliteMaintenanceLease(connection)
        self.retention = SqliteRetention(connection)


class _Thread(aiosqlite.Connection):
    """A connection on a thread of its own, that runs whole functions there."""

    @classmethod
    async def open(cls, connect: Callable[[], driver.Connection]) -> Self:
        """Start the thread and open the connection on it."""
        thread = cls(connect, iter_chunk_size=1)
        try:
            await thread
        except EnvironmentFailure:
            # The bridge told its thread to stop and did not wait: alone, it would speak to a loop that has ended.
            await thread.ended()
            raise
        return thread

    async def ended(self) -> None:
        """Return once the thread, which was told to stop, has."""
        await asyncio.to_thread(self._thread.join)

    async def run(self, function: Callable[[driver.Connection], T]) -> T:
        """Run the function on the connection's thread; cancelling the caller does not stop it."""
        result: T = await self._execute(function, self._conn)  # type: ignore[no-untyped-call]  # one hop needs it
        return result


class _ReadPool:
    """A few read connections, opened when first needed, handed out one caller at a time."""

    def __init__(self, path: Path, *, size: int, wait_seconds: float) -> None:
        self._path = path
        self._wait_seconds = wait_seconds
        self._free: list[_Thread] = []
        self._opened: list[_Thread] = []
        self._working: set[asyncio.Future[Any]] = set()
        self._permits = asyncio.Semaphore(size)

    async def run(self, function: Callable[[driver.Connection], T]) -> T:
        """Run the function on a free connection.

        Raises:
            PoolExhausted: none became free within the limit.
        """
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._permits.acquire()
        except TimeoutError as error:
            raise PoolExhausted(f"no read connection became free within {self._wait_seconds:g} s") from error
        # Shielded: when the caller goes away, the connection is busy until the function has ended.
        work = asyncio.ensure_future(self._run_on_free(function))
        self._working.add(work)
        work.add_done_callback(self._release)
        return await asyncio.shield(work)

    async def _run_on_free(self, function: Callable[[driver.Connection], T]) -> T:
        connection = self._free.pop() if self._free else await self._open()
        try:
            return await connection.run(function)
        finally:
            self._free.append(connection)

    async def _open(self) -> _Thread:
        connection = await _Thread.open(partial(driver.connect, self._path, read_only=True))
        self._opened.append(connection)
        return connection

    def _release(self, work: "asyncio.Future[Any]") -> None:
        self._permits.release()
        self._working.discard(work)
        if not work.cancelled():
            work.exception()  # seen, also when the caller that would have raised it has gone

    async def close(self) -> None:
        """Close every connection, after what runs on it: also one that is still being opened for a caller who left."""
        if self._working:
            await asyncio.wait(self._working)
        for connection in self._opened:
            await connection.close()


class SqliteStore:
    """`Store` on one SQLite file: one writer connection, and a pool of readers for each bulkhead."""

    def __init__(  # noqa: PLR0913 - as `open`, which makes it
        self,
        path: Path,
        writer: _Thread,
        pools: dict[Bulkhead, _ReadPool],
        *,
        clock: Clock,
        randomness: Randomness,
        write_wait_seconds: float,
    ) -> None:
        self._path = path
        self._writer = writer
        self._pools = pools
        self._clock = clock
        self._randomness = randomness
        self._write_wait_seconds = write_wait_seconds

    @classmethod
    @asynccontextmanager
    async def open(  # noqa: PLR0913 - one parameter a thing that the composition root decides
        cls,
        path: Path,
        *,
        clock: Clock,
        randomness: Randomness,
        read_connections: int,
        write_wait_seconds: float,
        read_wait_seconds: float,
    ) -> AsyncIterator["SqliteStore"]:
        """Open the database, which must have this program's schema, and close every connection at the end.

        Raises:
            StoreUnavailable: the file is not there, is of another schema version, or SQLite is unsafe.
        """
        async with AsyncExitStack() as stack:
            writer = await _Thread.open(partial(driver.connect, path))
            stack.push_async_callback(writer.close)
            await writer.run(partial(migrate.require_current, path=path))
            pools = {
                bulkhead: _ReadPool(path, size=read_connections, wait_seconds=read_wait_seconds)
                for bulkhead in Bulkhead
            }
            for pool in pools.values():
                stack.push_async_callback(pool.close)
            yield cls(path, writer, pools, clock=clock, randomness=randomness, write_wait_seconds=write_wait_seconds)

    async def write(self, function: Callable[Concatenate[UnitOfWork, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the function in one write transaction."""
        # From here on and not from its turn: behind others that wait in vain, a limit for each would add up.
        give_up_at = self._clock.monotonic() + self._write_wait_seconds
        return await self._writer.run(
            partial(self._write, lambda uow: function(uow, *args, **kwargs), give_up_at=give_up_at)
        )

    async def read(
        self, bulkhead: Bulkhead, function: Callable[Concatenate[UnitOfWork, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run the function on one snapshot."""
        return await self._pools[bulkhead].run(partial(self._read, lambda uow: function(uow, *args, **kwargs)))

    async def checkpoint(self) -> None:
        """Move what is committed from the WAL into the file, as far as readers allow."""
        await self._writer.run(_checkpoint)

    def _write(self, function: Callable[[UnitOfWork], T], connection: driver.Connection, *, give_up_at: float) -> T:
        self._begin(connection, give_up_at=give_up_at)
        try:
            result = function(SqliteUnitOfWork(connection, self._clock.now(), self._path))
        except BaseException as error:
            _roll_back(connection)
            if isinstance(error, driver.Error) and not isinstance(error, driver.IntegrityError):
                raise driver.translated(error) from error
            raise
        try:
            connection.execute("COMMIT")
        except driver.Error as error:
            _roll_back(connection)
            raise driver.commit_failed(error) from error
        return result

    def _begin(self, connection: driver.Connection, *, give_up_at: float) -> None:
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except driver.Error as error:
                if not driver.is_busy(error) or self._clock.monotonic() >= give_up_at:
                    raise driver.translated(error) from error
            else:
                return
            sleep(_SHORTEST_SLEEP + self._randomness.fraction() * (_LONGEST_SLEEP - _SHORTEST_SLEEP))

    def _read(self, function: Callable[[UnitOfWork], T], connection: driver.Connection) -> T:
        try:
            now = self._clock.now()
            connection.execute("BEGIN")
            return function(SqliteUnitOfWork(connection, now, self._path))
        except driver.Error as error:
            raise driver.translated(error) from error
        finally:
            _roll_back(connection)


def _checkpoint(connection: driver.Connection) -> None:
    try:
        # PASSIVE takes no lock that a reader or a writer would miss. TRUNCATE does, for a moment: only where there is
        # nothing left to move, and it gives up at once when anyone is there.
        _, logged, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if _ORDINARY_WAL_PAGES < logged == moved:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except driver.Error as error:
        raise driver.translated(error) from error


def _roll_back(connection: driver.Connection) -> None:
    # A full disk has rolled back by itself, and then there is nothing left to roll back.
    if connection.in_transaction:
        connection.execute("ROLLBACK")
