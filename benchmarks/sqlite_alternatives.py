"""The ways to reach SQLite from asyncio that `sqlite_binding` compares: the same work, each by its own means.

sqlite-anyio opens nothing but the standard library's SQLite. Before 3.51.3 that has the WAL-reset bug, so its rows then
measure a binding that could not be shipped. Two SQLite libraries must never meet on one file: whoever opens a database
with an alternative fills it with the library of that alternative.
"""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import aiosqlite

if missing := [name for name in ("pysqlite3", "sqlite_anyio") if find_spec(name) is None]:
    sys.exit(f"not installed: {', '.join(missing)}; install requirements/dev.txt on a platform that has the wheels")

T = TypeVar("T")
Row = tuple[object, ...]
LIBRARIES = {name: import_module(name) for name in ("pysqlite3", "sqlite3")}
JOBS, BATCH = 64, 256
BUSY_SECONDS = 2.0
SCHEMA = """PRAGMA journal_mode = WAL;
CREATE TABLE tasks (id INTEGER PRIMARY KEY, title TEXT NOT NULL, description TEXT NOT NULL) STRICT;
CREATE TABLE export_jobs (id INTEGER PRIMARY KEY, version INTEGER NOT NULL) STRICT;
CREATE TABLE export_events (id INTEGER PRIMARY KEY, job_id INTEGER NOT NULL) STRICT;"""
SELECT = "SELECT title FROM tasks WHERE id = ?"
STREAM = "SELECT id, title, description FROM tasks ORDER BY id"
INSERT = "INSERT INTO export_events (job_id) VALUES (?)"
UPDATE = "UPDATE export_jobs SET version = version + 1 WHERE id = ?"

Connection = Any  # pysqlite3 has no stubs, and its connections are not the standard library's.


def connect(path: Path, library: str = "pysqlite3", timeout: float = BUSY_SECONDS) -> Connection:
    """Open with explicit transactions and durable commits; the caller keeps threads apart."""
    connection = LIBRARIES[library].connect(path, isolation_level=None, timeout=timeout, check_same_thread=False)
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def fill(path: Path, library: str, rows: int) -> None:
    """Make a database with the library that is going to use it."""
    with closing(connect(path, library)) as connection:
        connection.executescript(SCHEMA)
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO export_jobs VALUES (?, 0)", ((job,) for job in range(JOBS)))
        tasks = ((task, f"task {task}", "a few words of text " * 5) for task in range(rows))
        connection.executemany("INSERT INTO tasks VALUES (?, ?, ?)", tasks)
        connection.execute("COMMIT")


class Access(NamedTuple):
    """The same three operations, whichever way they reach the database."""

    select: Callable[[int], Awaitable[object]]
    transact: Callable[[int], Awaitable[None]]
    batches: Callable[[], AsyncIterator[Iterable[Row]]]


def by_function(run: Callable[..., Awaitable[Any]]) -> Access:
    """Operations as functions of a connection: a whole transaction is one call of `run`."""

    def transact(connection: Connection, number: int) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute(INSERT, (number,))
            connection.execute(UPDATE, (number % JOBS,))
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise

    async def batches() -> AsyncIterator[Iterable[Row]]:
        cursor = await run(lambda connection: connection.execute(STREAM))
        while batch := await run(lambda _: cursor.fetchmany(BATCH)):
            yield batch

    return Access(
        select=lambda number: run(lambda connection: connection.execute(SELECT, (number,)).fetchone()),
        transact=lambda number: run(transact, number),
        batches=batches,
    )


def by_statement(connection: Connection, select: Callable[[int], Awaitable[object]]) -> Access:
    """Operations with one await a statement; a lock keeps the transactions of one connection apart."""
    lock = asyncio.Lock()

    async def transact(number: int) -> None:
        async with lock:
            await connection.execute("BEGIN IMMEDIATE")
            try:
                await connection.execute(INSERT, (number,))
                await connection.execute(UPDATE, (number % JOBS,))
                await connection.execute("COMMIT")
            except BaseException:
                await connection.execute("ROLLBACK")
                raise

    async def batches() -> AsyncIterator[Iterable[Row]]:
        cursor = await connection.execute(STREAM)
        while batch := await cursor.fetchmany(BATCH):
            yield batch

    return Access(select, transact, batches)


@asynccontextmanager
async def in_place(path: Path) -> AsyncIterator[Access]:
    """Run the blocking driver on the event loop itself: the floor."""
    with closing(connect(path)) as connection:

        async def run(function: Callable[..., T], *arguments: object) -> T:
            return function(connection, *arguments)

        yield by_function(run)


@asynccontextmanager
async def in_pool(path: Path) -> AsyncIterator[Access]:
    """Run each function on a thread of the loop's pool.

    The lock is taken on the thread: an asyncio lock would be let go by a cancelled caller whose thread still works.
    """
    with closing(connect(path)) as connection:
        lock = threading.Lock()

        def locked(function: Callable[..., T], *arguments: object) -> T:
            with lock:
                return function(connection, *arguments)

        async def run(function: Callable[..., T], *arguments: object) -> T:
            return await asyncio.to_thread(locked, function, *arguments)

        yield by_function(run)


class OneHopConnection(aiosqlite.Connection):
    """An aiosqlite connection whose thread can be handed a whole function."""

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Return or raise what the function does with the blocking connection, on the connection's thread."""
        result: T = await self._execute(function, self._conn, *arguments)  # type: ignore[no-untyped-call]  # as published
        return result


@asynccontextmanager
async def one_hop(path: Path) -> AsyncIterator[Access]:
    """Hand each function to aiosqlite's thread."""
    connection = OneHopConnection(lambda: connect(path), iter_chunk_size=BATCH)
    async with connection:
        yield by_function(connection.run)


@asynccontextmanager
async def statements(path: Path) -> AsyncIterator[Access]:
    """Use aiosqlite as its documentation shows it."""
    async with aiosqlite.Connection(lambda: connect(path), iter_chunk_size=BATCH) as connection:
        yield by_statement(connection, lambda number: connection.execute_fetchall(SELECT, (number,)))


@asynccontextmanager
async def careful_statements(path: Path) -> AsyncIterator[Access]:
    """Queue a ROLLBACK behind the statement that was given up: what every caller would have to remember."""
    async with aiosqlite.Connection(lambda: connect(path), iter_chunk_size=BATCH) as connection:
        careless = by_statement(connection, lambda number: connection.execute_fetchall(SELECT, (number,)))

        async def transact(number: int) -> None:
            try:
                await careless.transact(number)
            except asyncio.CancelledError:
                await connection.rollback()
                raise

        yield careless._replace(transact=transact)


@asynccontextmanager
async def anyio_statements(path: Path) -> AsyncIterator[Access]:
    """Use sqlite-anyio, which also has one call a statement."""
    connection = await import_module("sqlite_anyio").connect(str(path))
    await connection.execute("PRAGMA synchronous = FULL")
    await connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")

    async def select(number: int) -> object:
        return await (await connection.execute(SELECT, (number,))).fetchone()

    try:
        yield by_statement(connection, select)
    finally:
        await connection.close()


class Alternative(NamedTuple):
    """A way to open a database, and the library that it opens it with."""

    open: Callable[[Path], AbstractAsyncContextManager[Access]]
    library: str = "pysqlite3"


FLOOR = "blocking, in place"
ALTERNATIVES = {
    FLOOR: Alternative(in_place),
    "asyncio.to_thread and a lock": Alternative(in_pool),
    "aiosqlite, one hop": Alternative(one_hop),
    "aiosqlite, by statement": Alternative(statements),
    "sqlite-anyio": Alternative(anyio_statements, "sqlite3"),
}
CANCELLED = {**ALTERNATIVES, "aiosqlite, by statement, careful": Alternative(careful_statements)}
