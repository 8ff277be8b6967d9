"""What every test shares: the event loop that the product uses, how Hypothesis searches, and a database of its own."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import settings

from adapters.sqlite import migrate
from adapters.sqlite.store import SqliteStore
from domain.account import User
from domain.admission import AdmissionPolicy
from domain.policies import (
    BreakerPolicy,
    DeadlinePolicy,
    LeasePolicy,
    MaintenancePolicy,
    Policies,
    ResultPolicy,
    RetryPolicy,
)
from domain.rate import RatePolicy
from domain.use_cases.accounts import add_user
from tests.fakes import ManualClock, SequentialRandomness

# The quick suite is the same for everyone, every time; the long searches have a seed. How long an example takes is not
# a property: two cores with other work on them would refute it.
settings.register_profile("house", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("house")


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """Runs asynchronous tests on asyncio with uvloop, as the API and the worker run."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
def clock() -> ManualClock:
    """The only clock of the test."""
    return ManualClock()


@pytest.fixture
def randomness() -> SequentialRandomness:
    """The only source of ids, secrets and chance of the test."""
    return SequentialRandomness()


@pytest.fixture
def policies() -> Policies:
    """Rules in round figures: a lease of a minute, three attempts, two seconds of backoff, an hour to the deadline.

    What is accepted is not limited: a test that is about limits states its own.
    """
    return Policies(
        lease=LeasePolicy(lease=timedelta(minutes=1), longest_lease=timedelta(minutes=2), running_per_owner=10),
        retry=RetryPolicy(
            max_attempts=3, floor=timedelta(seconds=2), cap=timedelta(minutes=1), attempt=timedelta(seconds=1)
        ),
        breaker=BreakerPolicy(failures=3, pause=timedelta(seconds=1), longest_pause=timedelta(seconds=30)),
        deadline=DeadlinePolicy(
            default=timedelta(hours=1), shortest=timedelta(seconds=10), longest=timedelta(hours=24)
        ),
        result=ResultPolicy(max_rows=100_000, max_bytes=64 << 20, retention=timedelta(days=7)),
        admission=AdmissionPolicy(
            max_pending=100_000,
            oldest_age=timedelta(days=60),
            max_database_bytes=1 << 40,
            min_free_bytes=0,
            active_per_owner=100_000,
            assumed=timedelta(seconds=2),
        ),
        requests=RatePolicy(quota=1_000, window_seconds=10),
        maintenance=MaintenancePolicy(
            lease=timedelta(minutes=1),
            longest_lease=timedelta(minutes=2),
            download=timedelta(hours=1),
            retention=timedelta(days=30),
        ),
    )


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a database with this program's schema and nothing in it: made once, since that waits for disks."""
    path = tmp_path_factory.mktemp("empty") / "fencepost.db"
    migrate.migrate(path)
    return path.read_bytes()


@pytest.fixture
def database(tmp_path: Path, empty_database: bytes) -> Path:
    """The path of a database of the test's own, with this program's schema and nothing in it."""
    path = tmp_path / "fencepost.db"
    path.write_bytes(empty_database)
    return path


@pytest.fixture
async def store(database: Path, clock: ManualClock, randomness: SequentialRandomness) -> AsyncIterator[SqliteStore]:
    """The store that the product runs on, opened on a database of its own."""
    async with SqliteStore.open(
        database, clock=clock, randomness=randomness, read_connections=2, write_wait_seconds=5, read_wait_seconds=5
    ) as opened:
        yield opened


@pytest.fixture
async def owner(store: SqliteStore) -> User:
    """Somebody with an account."""
    return await store.write(add_user, "Ann")
