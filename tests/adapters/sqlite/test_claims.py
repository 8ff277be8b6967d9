"""What a claim costs: as much with twenty thousand jobs as with a hundred."""

from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from adapters.sqlite import driver
from adapters.sqlite.store import SqliteUnitOfWork
from domain.account import OwnerId
from domain.events import Cancel, Claim, Event, Fail
from domain.export import ErrorCode, Failure, FailureKind, LeaseToken
from domain.instants import Instant, later
from domain.policies import LeasePolicy
from domain.ports import UnitOfWork
from domain.use_cases.work import claim_export, has_work
from tests.adapters.conformance.steps import live
from tests.builders import HOUR, an_enqueue
from tests.fakes import START

POLICY: Final = LeasePolicy(lease=timedelta(minutes=1), longest_lease=timedelta(minutes=2), running_per_owner=10**6)
TOKEN: Final = LeaseToken("the-lease-token")
CLAIM: Final = Claim(
    now=START, worker_id="worker-1", lease_token=TOKEN, lease=POLICY.lease, longest_lease=POLICY.longest_lease
)
BACK_OFF: Final = Fail(
    now=START,
    lease_token=TOKEN,
    longest_lease=POLICY.longest_lease,
    failure=Failure(FailureKind.TRANSIENT, ErrorCode.INTERNAL_ERROR, "ZeroDivisionError"),
    retry_at=Instant(START + HOUR // 2),
    retry_ends_at=Instant(START + HOUR // 2),
)
# Each kind of job that can lie about; an equal part of all jobs is of each.
LIVES: Final[tuple[tuple[Event, ...], ...]] = (
    (),
    (Cancel(now=START, actor="owner"),),
    (CLAIM,),
    (CLAIM, BACK_OFF),
)
FEW: Final = 100
MANY: Final = 20_000


def fill(uow: UnitOfWork, count: int) -> None:
    """Make jobs of every kind: half of them one owner's, the others of a new owner each."""
    busy = uow.users.add("busy").id
    for number in range(1, count + 1):
        owner_id = busy if number % 2 else uow.users.add(f"owner {number}").id
        live(uow, an_enqueue(owner_id, number), *LIVES[number // 2 % len(LIVES)])


def steps_of(connection: driver.Connection, function: Callable[[], object]) -> int:
    """Return how many instructions SQLite's virtual machine takes for what the function asks."""
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    connection.set_progress_handler(step, 1)
    try:
        function()
    finally:
        connection.set_progress_handler(None, 1)
    return count


def look(uow: UnitOfWork) -> object:
    """Ask whether there is work, as an idle worker does."""
    return has_work(uow, lease=POLICY)


def candidates(uow: UnitOfWork) -> object:
    """Ask what a claim may take."""
    return uow.queue.candidates(
        longest_lease_until=later(uow.now, POLICY.longest_lease), running_limit=POLICY.running_per_owner, limit=8
    )


def claim(uow: UnitOfWork) -> object:
    """Take a job, or end the first that can never succeed."""
    return claim_export(uow, worker_id="worker-2", lease_token=LeaseToken("next"), lease=POLICY)


def enqueue(uow: UnitOfWork) -> object:
    """Put one more job in line."""
    return live(uow, an_enqueue(OwnerId(1), 1_000_000))


def admission(uow: UnitOfWork) -> object:
    """Ask what an enqueue is decided by, each count up to a limit that both databases reach."""
    owner_id = OwnerId(1)
    counts = uow.load.pending(most=20), uow.load.active(owner_id, most=20)
    return counts, uow.load.oldest_available_at(), uow.load.ended(since=Instant(START - HOUR), most=20)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, empty_database: bytes) -> dict[int, Path]:
    """A database with few jobs and one with many."""
    paths: dict[int, Path] = {}
    for count in (FEW, MANY):
        paths[count] = tmp_path_factory.mktemp("filled") / "fencepost.db"
        paths[count].write_bytes(empty_database)
        with closing(driver.connect(paths[count])) as connection:
            connection.execute("BEGIN IMMEDIATE")
            fill(SqliteUnitOfWork(connection, START, paths[count]), count)
            connection.execute("COMMIT")
    return paths


@pytest.mark.parametrize("at", [timedelta(), timedelta(minutes=1), timedelta(minutes=30), timedelta(hours=1)])
@pytest.mark.parametrize("function", [look, candidates, claim, enqueue, admission])
def test_the_cost_of_a_claim_does_not_grow_with_the_jobs(
    filled: dict[int, Path], function: Callable[[UnitOfWork], object], at: timedelta
) -> None:
    """With live leases, with dead ones, with many due from backoff, and past every deadline: the steps are as many."""
    steps: dict[int, int] = {}
    for count, path in filled.items():
        with closing(driver.connect(path)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            uow = SqliteUnitOfWork(connection, later(START, at), path)
            steps[count] = steps_of(connection, partial(function, uow))
            connection.execute("ROLLBACK")
    assert steps[FEW] > 0
    assert steps[MANY] <= 1.5 * steps[FEW], steps


def test_the_yardstick_notices_a_missing_index(filled: dict[int, Path]) -> None:
    """Without the index of the leases, the steps grow with the jobs."""
    steps: dict[int, int] = {}
    for count, path in filled.items():
        with closing(driver.connect(path)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("DROP INDEX export_jobs_leased")
            steps[count] = steps_of(connection, partial(candidates, SqliteUnitOfWork(connection, START, path)))
            connection.execute("ROLLBACK")
    assert steps[MANY] > 10 * steps[FEW]
