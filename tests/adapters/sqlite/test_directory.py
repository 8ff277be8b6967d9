"""What it costs to look at the queue, and at the dead letters among all other jobs."""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from adapters.sqlite import driver
from adapters.sqlite.store import SqliteUnitOfWork
from domain.account import OwnerId
from domain.export import ErrorCode, JobStatus
from domain.ports import JobFilter, UnitOfWork
from tests.adapters.conformance.steps import live
from tests.adapters.conformance.test_job_directory import bury, cancel, claim
from tests.adapters.sqlite.test_claims import steps_of
from tests.builders import an_enqueue
from tests.fakes import START

FEW: Final = 100
MANY: Final = 10_000
FAILED: Final = frozenset({JobStatus.FAILED})
BUSY: Final = OwnerId(1)


def fill(uow: UnitOfWork, count: int) -> None:
    """Make so many cancelled jobs of one owner, and among the oldest of them twenty dead letters."""
    busy = uow.users.add("busy").id
    for number in range(1, count + 1):
        live(uow, an_enqueue(busy, number, now=START), *([claim(0), bury(1)] if number <= 20 else [cancel(1)]))


def newest(uow: UnitOfWork) -> object:
    """Ask for a page of everything."""
    return uow.directory.page(JobFilter(), before=None, limit=50)


def dead_letters(uow: UnitOfWork) -> object:
    """Ask for the dead letters of all owners."""
    return uow.directory.page(JobFilter(status=FAILED, code=ErrorCode.RESULT_TOO_LARGE), before=None, limit=50)


def dead_letters_of_owner(uow: UnitOfWork) -> object:
    """Ask for the dead letters of an owner who has much else."""
    return uow.directory.page(JobFilter(status=FAILED, owner_id=BUSY), before=None, limit=50)


def count(uow: UnitOfWork) -> object:
    """Count as far as fifty."""
    return [uow.directory.count(status, most=50) for status in JobStatus]


def running(uow: UnitOfWork) -> object:
    """Ask what runs."""
    return uow.directory.running(limit=50)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, empty_database: bytes) -> dict[int, Path]:
    """A database with few jobs and one with many."""
    paths: dict[int, Path] = {}
    for size in (FEW, MANY):
        paths[size] = tmp_path_factory.mktemp("filled") / "fencepost.db"
        paths[size].write_bytes(empty_database)
        with closing(driver.connect(paths[size])) as connection:
            connection.execute("BEGIN IMMEDIATE")
            fill(SqliteUnitOfWork(connection, START, paths[size]), size)
            connection.execute("COMMIT")
    return paths


@pytest.mark.parametrize("function", [newest, dead_letters, dead_letters_of_owner, count, running])
def test_the_cost_of_a_look_does_not_grow_with_the_jobs(
    filled: dict[int, Path], function: Callable[[UnitOfWork], object]
) -> None:
    """The steps that SQLite takes are as many with a hundred times the jobs."""
    steps: dict[int, int] = {}
    for size, path in filled.items():
        with closing(driver.connect(path, read_only=True)) as connection:
            steps[size] = steps_of(connection, partial(function, SqliteUnitOfWork(connection, START, path)))
    assert steps[FEW] > 0
    assert steps[MANY] <= 1.5 * steps[FEW], steps
