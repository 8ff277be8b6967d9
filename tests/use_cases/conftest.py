"""What the tests of use cases share: a second owner, and a bench on which exports are worked."""

import pytest

from adapters.sqlite.store import SqliteStore
from domain.account import User
from domain.policies import Policies
from domain.use_cases.accounts import add_user
from tests.fakes import ManualClock, SequentialRandomness
from tests.use_cases.bench import Bench


@pytest.fixture
async def neighbour(store: SqliteStore) -> User:
    """Somebody else with an account, who must never see what is not theirs."""
    return await store.write(add_user, "Bob")


@pytest.fixture
def bench(store: SqliteStore, policies: Policies, clock: ManualClock, randomness: SequentialRandomness) -> Bench:
    """The steps of an owner and of a worker, on the store of the test."""
    return Bench(store, policies, clock, randomness)
