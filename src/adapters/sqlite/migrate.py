"""Migrations: numbered forward-only `.sql` files, each applied whole in one transaction under `user_version`."""

from importlib.resources import files
from pathlib import Path
from re import compile as pattern
from time import sleep
from typing import Final

from adapters.sqlite import driver
from domain.errors import StoreUnavailable

APPLICATION_ID: Final = 0x46656E63  # "Fenc": tells our file from another program's
_NAME: Final = pattern(r"(\d{4})_\w+\.sql")
# Processes that switch one new file to WAL together refuse each other at once, whatever the timeout: all but one of
# them try again, a little later.
_TRIES: Final = 100
_PAUSE_SECONDS: Final = 0.05


def migrations() -> dict[int, str]:
    """Return the text of every migration by its number, in order, without a gap."""
    found = {
        int(match[1]): entry.read_text(encoding="utf-8")
        for entry in (files(__package__) / "migrations").iterdir()
        if (match := _NAME.fullmatch(entry.name))
    }
    if sorted(found) != list(range(1, len(found) + 1)):
        raise ValueError(f"migrations are not numbered without a gap: {sorted(found)}")
    return dict(sorted(found.items()))


def migrate(path: Path) -> list[int]:
    """Create the database, or bring it up to this program's schema; return the numbers that were applied.

    Safe to call from several processes at once, and again: each migration is checked for under the write lock.

    Raises:
        StoreUnavailable: the file cannot be opened, is another program's, or was written by a newer version.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(f"the directory {path.parent} cannot be created: {error.strerror}") from error
    connection = driver.connect(path, create=True)
    try:
        connection.execute("PRAGMA busy_timeout = 10000")  # two processes may start at once, and both migrate
        _prepare_in_turn(connection, path)
        return [number for number, text in migrations().items() if _apply(connection, number, text)]
    except driver.Error as error:
        raise driver.translated(error, path) from error
    finally:
        connection.close()


def require_current(connection: driver.Connection, path: Path) -> None:
    """Refuse a database whose schema is not the one that this program knows.

    Raises:
        StoreUnavailable: with what to type.
    """
    version, newest = _user_version(connection), max(migrations())
    if _application_id(connection) != APPLICATION_ID:
        raise StoreUnavailable(f"{path} is not a Fencepost database; run `fencepost migrate` to create one elsewhere")
    if version < newest:
        raise StoreUnavailable(f"{path} has schema {version} and this program needs {newest}: run `fencepost migrate`")
    if version > newest:
        raise StoreUnavailable(
            f"{path} has schema {version}, newer than the {newest} that this program knows: install a newer version"
        )


def _prepare_in_turn(connection: driver.Connection, path: Path) -> None:
    for _ in range(_TRIES - 1):
        try:
            return _prepare(connection, path)
        except driver.Error as error:
            if not driver.is_busy(error):
                raise
        sleep(_PAUSE_SECONDS)
    return _prepare(connection, path)


def _prepare(connection: driver.Connection, path: Path) -> None:
    is_empty = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
    if is_empty:
        # Both must be set before the first table; `auto_vacuum` cannot be changed without rewriting the file later.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    elif _application_id(connection) != APPLICATION_ID:
        raise StoreUnavailable(f"{path} belongs to another program; choose another file with FENCEPOST_DATABASE")
    if _user_version(connection) > max(migrations()):
        require_current(connection, path)
    connection.execute("PRAGMA journal_mode = WAL")  # readers and the writer do not wait for each other


def _apply(connection: driver.Connection, number: int, text: str) -> bool:
    connection.execute("BEGIN IMMEDIATE")
    try:
        is_new = _user_version(connection) < number
        if is_new:
            for statement in _statements(text):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
    except BaseException:
        if connection.in_transaction:  # a full disk has rolled back by itself, and is what must be told
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return is_new


def _statements(text: str) -> list[str]:
    # One by one: `executescript` would commit the transaction that is open.
    statements, pending = [], ""
    for line in text.splitlines(keepends=True):
        pending += line
        if driver.complete_statement(pending):
            statements.append(pending)
            pending = ""
    return statements


def _user_version(connection: driver.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _application_id(connection: driver.Connection) -> int:
    return int(connection.execute("PRAGMA application_id").fetchone()[0])
