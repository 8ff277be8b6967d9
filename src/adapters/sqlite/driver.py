"""The one module that chooses and opens SQLite.

One process uses one SQLite library: two of them on one file drop each other's locks.

Versions 3.7.0 to 3.51.2 can corrupt a database that several connections write and checkpoint in WAL mode, which is what
an API and its workers do (the WAL-reset bug; fixed in 3.51.3, and in 3.50.7 and 3.44.6 on their branches; 3.52.0 was
withdrawn). So the standard library's SQLite is used where it is sound, else the one that `pysqlite3` brings, and
otherwise the program refuses to start.
"""

import os
from contextlib import suppress
from pathlib import Path
from sqlite3 import sqlite_version_info as standard_version
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from domain.errors import EnvironmentFailure, OutcomeUnknown, StoreBusy, StoreFull, StoreUnavailable


def is_sound(version: tuple[int, int, int]) -> bool:
    """Tell whether this SQLite is free of the WAL-reset bug."""
    if version == (3, 52, 0):
        return False
    return version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51, 0) or (3, 44, 6) <= version < (3, 45, 0)


if TYPE_CHECKING:
    import sqlite3 as dbapi
else:
    import sqlite3 as dbapi

    if not is_sound(standard_version):
        with suppress(ImportError):
            import pysqlite3 as dbapi

Connection = dbapi.Connection
Error = dbapi.Error
IntegrityError = dbapi.IntegrityError
complete_statement = dbapi.complete_statement
VERSION: Final = dbapi.sqlite_version_info

# Each of these is per connection, so it is set on every one.
PRAGMAS: Final = (
    "PRAGMA synchronous = FULL",  # a 202 survives a power cut; NORMAL would lose the last commits
    "PRAGMA foreign_keys = ON",  # off by default, for compatibility with 2009
    "PRAGMA trusted_schema = OFF",  # a schema that was tampered with runs no function of ours
    "PRAGMA journal_size_limit = 67108864",  # after a long reader the WAL is cut back to 64 MiB, and not kept large
)
_READ_ONLY: Final = "PRAGMA query_only = ON"  # a reader that wrote would bypass the one writer
_WAITS_FOR_NO_LOCK: Final = "PRAGMA busy_timeout = 0"  # a writer waits by itself, with short sleeps of random length
# Opening and reading meet a lock only while another process creates, recovers or closes the database: milliseconds, so
# waiting is right.
_BUSY_SECONDS: Final = 2.0
_CACHED_STATEMENTS: Final = 256  # more than there are, so that none is ever compiled twice


def require_sound_version(version: tuple[int, int, int] = VERSION) -> None:
    """Refuse an SQLite that can corrupt the database.

    Raises:
        StoreUnavailable: with the version that is here, those that will do, and how to get one.
    """
    if not is_sound(version):
        found = ".".join(map(str, version))
        raise StoreUnavailable(
            f"SQLite {found} can corrupt a database that several processes write (WAL-reset bug); "
            "3.51.3 or newer is needed: install the package pysqlite3, or a Python that is linked to a newer SQLite"
        )


def connect(path: Path, *, create: bool = False, read_only: bool = False) -> Connection:
    """Open the database with every PRAGMA set.

    Transactions are begun and ended by hand. A writer waits for no lock by itself: the store does, fairly.

    Raises:
        StoreUnavailable: the file is not there, cannot be opened, or SQLite is unsafe.
    """
    require_sound_version()
    mode = "rwc" if create else "rw"
    try:
        connection = dbapi.connect(
            # As bytes: a name need not be UTF-8.
            f"file:{quote(os.fsencode(path))}?mode={mode}",
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,  # made on one thread and used on another, never on two at once
            cached_statements=_CACHED_STATEMENTS,
        )
    except Error as error:
        raise translated(error, path, create=create) from error
    try:
        for pragma in (*PRAGMAS, _READ_ONLY if read_only else _WAITS_FOR_NO_LOCK):
            connection.execute(pragma)
    except Error as error:
        connection.close()
        raise translated(error, path, create=create) from error
    return connection


def is_busy(error: Error) -> bool:
    """Tell whether another connection has the lock that this statement needs."""
    return "locked" in str(error) or "busy" in str(error)


def translated(error: Error, path: Path | None = None, *, create: bool = False) -> EnvironmentFailure:
    """Return the refusal that a driver's error means. Its text is SQLite's own and quotes no data.

    `create` tells that the database was to be created where there was none.
    """
    text = str(error)
    where = f" ({path})" if path is not None else ""
    if is_busy(error):
        return StoreBusy("the database is locked by another writer")
    if "full" in text:
        return StoreFull("the disk or the database's quota is full")
    if "unable to open" in text and path is not None and (create or os.path.lexists(path)):
        return StoreUnavailable(
            f"the database cannot be opened{where}: this user must be able to read and write the file and its "
            "directory; choose another one with FENCEPOST_DATABASE"
        )
    if "unable to open" in text:
        return StoreUnavailable(f"there is no database to open{where}; run `fencepost migrate` to create it")
    if "not a database" in text:
        return StoreUnavailable(f"this file is not a database{where}; choose another one with FENCEPOST_DATABASE")
    return StoreUnavailable(f"the database cannot be used{where}: {text}")


def commit_failed(error: Error) -> EnvironmentFailure:
    """Return what a COMMIT that reported an error means: a full disk has rolled back, anything else is unknown."""
    is_known = "full" in str(error) or is_busy(error)
    return translated(error) if is_known else OutcomeUnknown("the commit reported an error")
