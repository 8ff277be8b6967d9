"""The driver: one sound SQLite in the process, the same PRAGMAs on every connection, and errors in our words."""

import ast
import os
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from adapters.sqlite import driver
from domain.errors import EnvironmentFailure, OutcomeUnknown, StoreBusy, StoreFull, StoreUnavailable
from tests.tree import files_under, named

SOUND: Final = [
    (3, 44, 6),
    (3, 44, 9),
    (3, 50, 7),
    (3, 50, 99),
    (3, 51, 3),
    (3, 51, 4),
    (3, 53, 0),
    (3, 53, 4),
    (4, 0, 0),
]
UNSOUND: Final = [
    (3, 7, 0),
    (3, 40, 1),
    (3, 44, 5),
    (3, 45, 0),
    (3, 49, 1),
    (3, 50, 6),
    (3, 51, 0),
    (3, 51, 2),
    (3, 52, 0),
]
# What each kind of connection must read back; the numbers are SQLite's own.
ON_EVERY: Final = {
    "synchronous": 2,
    "foreign_keys": 1,
    "trusted_schema": 0,
    "journal_size_limit": 64 << 20,
    "journal_mode": "wal",
    "auto_vacuum": 2,
}
KINDS: Final = {
    "writer": ({}, {"query_only": 0, "busy_timeout": 0}),
    "creator": ({"create": True}, {"query_only": 0, "busy_timeout": 0}),
    "reader": ({"read_only": True}, {"query_only": 1, "busy_timeout": 2000}),
}


@pytest.mark.parametrize("version", SOUND)
def test_a_version_with_the_fix_is_sound(version: tuple[int, int, int]) -> None:
    """3.51.3 and later, and the two branches that got the fix, each from its release on."""
    assert driver.is_sound(version)
    driver.require_sound_version(version)


@pytest.mark.parametrize("version", UNSOUND)
def test_a_version_without_the_fix_is_refused_with_what_to_do(version: tuple[int, int, int]) -> None:
    """The refusal names the version that is here, the one that is needed, and how to get it."""
    assert not driver.is_sound(version)
    with pytest.raises(StoreUnavailable) as refusal:
        driver.require_sound_version(version)
    text = str(refusal.value)
    assert ".".join(map(str, version)) in text
    assert "3.51.3 or newer" in text
    assert "install the package pysqlite3" in text
    assert "\n" not in text


def test_the_library_that_is_linked_is_the_one_that_was_chosen(connection: driver.Connection) -> None:
    """The version that was judged is that of the code that runs, and it is sound."""
    (linked,) = connection.execute("SELECT sqlite_version()").fetchone()
    assert linked == ".".join(map(str, driver.VERSION))
    assert driver.is_sound(driver.VERSION)


def test_the_standard_librarys_sqlite_is_used_where_it_is_sound() -> None:
    """Otherwise the package's is: there is no third one."""
    standard = import_module("sqlite3")
    chosen = standard if driver.is_sound(standard.sqlite_version_info) else import_module("pysqlite3")
    assert driver.Connection is chosen.Connection


def test_no_other_module_imports_an_sqlite_library() -> None:
    """Two libraries on one file drop each other's locks, so a single module decides which one it is."""
    importers = {
        named(file)
        for file in files_under("src", "tests", suffix=".py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Import) and {"sqlite3", "pysqlite3"} & {alias.name for alias in node.names})
        or (isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in {"sqlite3", "pysqlite3"})
    }
    assert importers == {"src/adapters/sqlite/driver.py"}


@pytest.mark.parametrize(("arguments", "own"), KINDS.values(), ids=KINDS)
def test_every_pragma_reads_back(database: Path, arguments: dict[str, bool], own: dict[str, int]) -> None:
    """On each kind of connection, what was asked for is in force: SQLite ignores a PRAGMA that it does not know."""
    connection = driver.connect(database, **arguments)
    try:
        expected = ON_EVERY | own
        found = {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in expected}
    finally:
        connection.close()
    assert found == expected


def test_every_pragma_of_the_driver_is_among_those_that_are_read_back() -> None:
    """A new one must be added here too."""
    assert {text.split()[1] for text in driver.PRAGMAS} <= ON_EVERY.keys()


def test_a_connection_begins_no_transaction_by_itself(connection: driver.Connection) -> None:
    """A write outside of one is committed at once, and BEGIN is nobody's but the store's."""
    assert connection.isolation_level is None
    connection.execute("INSERT INTO users (name, created_at) VALUES ('Ann', 0)")
    assert not connection.in_transaction


def test_opening_makes_no_file(tmp_path: Path) -> None:
    """Only a migration creates a database; elsewhere a mistyped path is an error that says what to type."""
    path = tmp_path / "missing.db"
    for arguments in ({}, {"read_only": True}):
        with pytest.raises(StoreUnavailable, match="fencepost migrate"):
            driver.connect(path, **arguments)
    assert not path.exists()


@pytest.mark.parametrize("name", ["a b?mode=memory#%41&é.db", os.fsdecode(b"caf\xe9.db")], ids=ascii)
def test_a_path_is_taken_literally(tmp_path: Path, name: str) -> None:
    """Characters that mean something in a URI are part of the name, and so are bytes that mean nothing in UTF-8."""
    path = tmp_path / name
    driver.connect(path, create=True).close()
    connection = driver.connect(path)
    connection.execute("CREATE TABLE t (c)")
    connection.close()
    assert path.is_file()


# ── Errors ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def error_of(connection: driver.Connection, *statements: str) -> driver.Error:
    """Return the error that the last of the statements meets."""
    for statement in statements[:-1]:
        connection.execute(statement)
    with pytest.raises(driver.Error) as raised:
        connection.execute(statements[-1])
    return raised.value


def test_a_lock_of_another_connection_is_busy(database: Path, connection: driver.Connection) -> None:
    """Nothing else is: a lock is the one error that waiting mends."""
    other = driver.connect(database)
    other.execute("BEGIN IMMEDIATE")
    error = error_of(connection, "BEGIN IMMEDIATE")
    other.close()
    assert driver.is_busy(error)
    assert type(driver.translated(error)) is StoreBusy
    assert not driver.is_busy(error_of(connection, "SELECT nothing"))


def test_a_full_database_is_full(connection: driver.Connection) -> None:
    """No page can be added: `StoreFull`, also at the commit, since SQLite rolled back by itself."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    error = error_of(
        connection,
        f"PRAGMA max_page_count = {pages}",
        "BEGIN IMMEDIATE",
        "INSERT INTO users (name, created_at) VALUES (hex(randomblob(100000)), 0)",
    )
    assert type(driver.translated(error)) is StoreFull
    assert type(driver.commit_failed(error)) is StoreFull


def test_a_reader_that_writes_is_refused(database: Path) -> None:
    """The database is unavailable for writing from there."""
    reader = driver.connect(database, read_only=True)
    error = error_of(reader, "INSERT INTO users (name, created_at) VALUES ('Ann', 0)")
    reader.close()
    assert type(driver.translated(error)) is StoreUnavailable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("disk I/O error", OutcomeUnknown),
        ("database disk image is malformed", OutcomeUnknown),
        ("database or disk is full", StoreFull),
        ("database is locked", StoreBusy),
    ],
)
def test_a_commit_that_reports_an_error_is_unknown_unless_it_is_known(
    text: str, expected: type[EnvironmentFailure]
) -> None:
    """Only a full disk and a lock are certain to have written nothing."""
    assert type(driver.commit_failed(driver.Error(text))) is expected
