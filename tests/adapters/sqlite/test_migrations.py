"""Migrations: one schema, reached from anywhere, whole or not at all."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Final

import pytest

from adapters.sqlite import driver, migrate
from adapters.sqlite.store import SqliteStore
from domain.errors import StoreUnavailable
from domain.ports import Bulkhead
from tests.adapters.sqlite.dump_schema import SCHEMA, migrated_schema, schema_of
from tests.fakes import ManualClock, SequentialRandomness
from tests.tree import ROOT

NEWEST: Final = max(migrate.migrations())
PROCESS_SECONDS: Final = 60


@contextmanager
def opened(path: Path) -> Iterator[driver.Connection]:
    """Open a database that may be anyone's, and close it."""
    with closing(driver.connect(path, create=True)) as connection:
        yield connection


@asynccontextmanager
async def store_on(path: Path) -> AsyncIterator[SqliteStore]:
    """Open a store on a file."""
    async with SqliteStore.open(
        path,
        clock=ManualClock(),
        randomness=SequentialRandomness(),
        read_connections=1,
        write_wait_seconds=5,
        read_wait_seconds=5,
    ) as store:
        yield store


def run(program: str, *arguments: object) -> subprocess.Popen[str]:
    """Start another process that can import the project."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT / "src",
    )


def test_the_schema_is_the_one_that_is_committed() -> None:
    """A change of the schema is seen in review; `python -m tests.adapters.sqlite.dump_schema` writes it down."""
    assert migrated_schema() == SCHEMA.read_text(encoding="utf-8")


def test_migrating_again_does_nothing(tmp_path: Path) -> None:
    """The second call applies no migration and touches neither schema nor data."""
    path = tmp_path / "fencepost.db"
    assert migrate.migrate(path) == list(migrate.migrations())
    with opened(path) as connection:
        connection.execute("INSERT INTO users (name, created_at) VALUES ('Ann', 0)")
        before = schema_of(connection)
    assert migrate.migrate(path) == []
    with opened(path) as connection:
        assert schema_of(connection) == before
        assert connection.execute("SELECT name FROM users").fetchall() == [("Ann",)]


def test_migrating_makes_the_directories_of_the_path(tmp_path: Path) -> None:
    """A first start needs nothing to be there."""
    path = tmp_path / "var" / "lib" / "fencepost.db"
    assert migrate.migrate(path)
    assert path.is_file()


def test_processes_that_migrate_at_once_do_it_once(tmp_path: Path) -> None:
    """However many start together on one new file, each migration is applied by exactly one, and none of them fails."""
    program = (
        "import json, sys; from pathlib import Path; from adapters.sqlite.migrate import migrate; "
        "print(json.dumps(migrate(Path(sys.argv[1]))))"
    )
    processes = [run(program, tmp_path / "fencepost.db") for _ in range(4)]
    ended = [process.communicate(timeout=PROCESS_SECONDS) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, [errors for _, errors in ended]
    assert sorted(number for output, _ in ended for number in json.loads(output)) == list(migrate.migrations())
    with opened(tmp_path / "fencepost.db") as connection:
        assert schema_of(connection) == SCHEMA.read_text(encoding="utf-8")


def test_running_jobs_are_counted_by_owner_when_a_database_is_brought_up(tmp_path: Path) -> None:
    """An owner with a line of their own gets the count added, one without gets a line, and others stay at none."""
    path = tmp_path / "fencepost.db"
    older(path)
    with opened(path) as connection:
        connection.executescript(migrate.migrations()[1])
        connection.execute("PRAGMA user_version = 1")
        for owner, statuses in {1: "rrq", 2: "r", 3: "q"}.items():
            connection.execute("INSERT INTO users (id, name, created_at) VALUES (?, ?, 0)", [owner, f"user {owner}"])
            for number, status in enumerate(statuses):
                add_job(connection, owner, number, runs=status == "r")
        connection.execute("INSERT INTO owner_lines VALUES (1, 7, 1), (3, 5, 1)")
    assert migrate.migrate(path)[0] == 2
    with opened(path) as connection:
        lines = connection.execute("SELECT owner_user_id, turn, waiting_count, running_count FROM owner_lines")
        assert sorted(lines) == [(1, 7, 1, 2), (2, 0, 0, 1), (3, 5, 1, 0)]


def add_job(connection: driver.Connection, owner: int, number: int, *, runs: bool) -> None:
    """Add a job that is queued, or running, to a database of the first schema."""
    connection.execute(
        """
        INSERT INTO export_jobs (
            id, owner_user_id, request_key, parameters_json, parameters_digest, status, version, in_line, created_at,
            available_at, deadline_at, attempt_count, excused_count, max_attempts, lease_token, lease_until, worker_id
        )
        VALUES (
            printf('%036d', :id), :owner, :id, '{}', '', iif(:runs, 'running', 'queued'), 1, NOT :runs, 0, 0, 0, :runs,
            0, 3, iif(:runs, 'token', NULL), iif(:runs, 1, NULL), iif(:runs, 'worker', NULL)
        )
        """,
        {"id": owner * 10 + number, "owner": owner, "runs": runs},
    )


# ── Files that are not what they should be ────────────────────────────────────────────────────────────────────────────


def newer(path: Path) -> None:
    """Make a database that a later program wrote."""
    migrate.migrate(path)
    with opened(path) as connection:
        connection.execute(f"PRAGMA user_version = {NEWEST + 1}")


def older(path: Path) -> None:
    """Make a database that has none of the migrations yet."""
    with opened(path) as connection:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute(f"PRAGMA application_id = {migrate.APPLICATION_ID}")


def foreign(path: Path) -> None:
    """Make a database of another program."""
    with opened(path) as connection:
        connection.execute("CREATE TABLE places (url TEXT)")


def empty(path: Path) -> None:
    """Make a file without a byte."""
    path.touch()


def garbage(path: Path) -> None:
    """Make a file that is no database."""
    path.write_bytes(b"This is a letter, not a database.\n" * 1000)


def truncated(path: Path) -> None:
    """Make a database whose end is missing."""
    migrate.migrate(path)
    path.write_bytes(path.read_bytes()[:5000])


def missing(path: Path) -> None:
    """Make nothing."""


def directory(path: Path) -> None:
    """Make a directory."""
    path.mkdir()


def link_to_nowhere(path: Path) -> None:
    """Make a link into a directory that is not there."""
    path.symlink_to(path.parent / "gone" / "fencepost.db")


NOT_TO_OPEN: Final = {
    missing: "run `fencepost migrate`",
    directory: "must be able to read and write the file and its directory",
    link_to_nowhere: "must be able to read and write the file and its directory",
    newer: f"has schema {NEWEST + 1}, newer than the {NEWEST} that this program knows: install a newer version",
    older: f"has schema 0 and this program needs {NEWEST}: run `fencepost migrate`",
    foreign: "is not a Fencepost database",
    empty: "is not a Fencepost database",
    garbage: "is not a database",
    truncated: "malformed",
}
NOT_TO_MIGRATE: Final = {
    directory: "must be able to read and write the file and its directory",
    link_to_nowhere: "must be able to read and write the file and its directory",
    newer: "install a newer version",
    foreign: "belongs to another program; choose another file with FENCEPOST_DATABASE",
    garbage: "choose another one with FENCEPOST_DATABASE",
    truncated: "malformed",
}


@pytest.mark.parametrize(("make", "sentence"), NOT_TO_OPEN.items(), ids=[make.__name__ for make in NOT_TO_OPEN])
async def test_no_store_opens_on_another_file(tmp_path: Path, make: Callable[[Path], None], sentence: str) -> None:
    """One `StoreUnavailable` in one line, which names the file and says what to do; the file stays as it was."""
    path = tmp_path / "fencepost.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreUnavailable) as refusal:
        async with store_on(path):
            pass
    text = str(refusal.value)
    assert sentence in text
    assert str(path) in text
    assert "\n" not in text
    assert (path.read_bytes() if path.is_file() else None) == before


@pytest.mark.parametrize(("make", "sentence"), NOT_TO_MIGRATE.items(), ids=[make.__name__ for make in NOT_TO_MIGRATE])
def test_no_other_file_is_migrated(tmp_path: Path, make: Callable[[Path], None], sentence: str) -> None:
    """One `StoreUnavailable` in one line, which names the file and says what to do; the file stays as it was."""
    path = tmp_path / "fencepost.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreUnavailable) as refusal:
        migrate.migrate(path)
    text = str(refusal.value)
    assert sentence in text
    assert str(path) in text
    assert "\n" not in text
    assert (path.read_bytes() if path.is_file() else None) == before


@pytest.mark.parametrize("make", [missing, empty, older], ids=["missing", "empty", "older"])
async def test_what_is_not_a_database_yet_becomes_one(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """After `migrate` the store opens, and the schema is that of any other."""
    path = tmp_path / "fencepost.db"
    make(path)
    migrate.migrate(path)
    async with store_on(path) as store:
        assert await store.read(Bulkhead.OPERATIONS, lambda uow: uow.users.all()) == []
    with opened(path) as connection:
        assert schema_of(connection) == SCHEMA.read_text(encoding="utf-8")


def test_a_path_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    """A file where a directory must be is told, not thrown."""
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="cannot be created"):
        migrate.migrate(tmp_path / "file" / "fencepost.db")


# ── Interruptions ─────────────────────────────────────────────────────────────────────────────────────────────────────

MIGRATING_OVER_AND_OVER: Final = """
import itertools, sys
from pathlib import Path
from adapters.sqlite.migrate import migrate
for number in itertools.count():
    path = Path(sys.argv[1]) / str(number)
    print(path, flush=True)
    migrate(path)
"""

WITHOUT_ROOM: Final = """
import json, resource, sys
from pathlib import Path
from adapters.sqlite.migrate import migrate
from domain.errors import EnvironmentFailure
refused = 0
for size in range(0, 200_000, 8_192):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        migrate(Path(sys.argv[1]) / str(size))
    except EnvironmentFailure:
        refused += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(json.dumps(refused))
"""


def assert_old_or_new(path: Path) -> None:
    """Assert that each migration is there whole or not at all, and that the next call applies those that are left."""
    if path.exists():
        with opened(path) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            (objects,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            assert (version, objects > 0) in {(0, False), *((number, True) for number in migrate.migrations())}
    migrate.migrate(path)
    with opened(path) as connection:
        assert schema_of(connection) == SCHEMA.read_text(encoding="utf-8")


@pytest.mark.parametrize("finished", [2, 3, 7])
def test_a_migration_whose_process_is_killed_leaves_the_old_or_the_new(tmp_path: Path, finished: int) -> None:
    """SIGKILL at some instant: every file that was being migrated is as before or done."""
    process = run(MIGRATING_OVER_AND_OVER, tmp_path)
    assert process.stdout is not None
    begun = [Path(process.stdout.readline().strip()) for _ in range(finished)]
    process.kill()
    rest, _ = process.communicate(timeout=PROCESS_SECONDS)
    for path in [*begun, *map(Path, rest.split())]:
        assert_old_or_new(path)


def test_a_migration_that_runs_out_of_room_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    """Whichever write is the first to fail, it is an `EnvironmentFailure`, and the file can be migrated later."""
    process = run(WITHOUT_ROOM, tmp_path)
    output, errors = process.communicate(timeout=PROCESS_SECONDS)
    assert process.returncode == 0, errors
    assert json.loads(output) > 5
    for path in sorted(tmp_path.iterdir()):
        if path.name.isdigit():
            assert_old_or_new(path)
