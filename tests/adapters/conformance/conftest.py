"""The adapters that keep the ports' laws: a second one is one more row of `ADAPTERS`."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, Protocol

import pytest

from adapters.sqlite.snapshots import SqliteTaskSnapshots
from adapters.sqlite.store import SqliteStore
from domain.account import User
from domain.ports import Clock, Randomness, Store, TaskSnapshots
from domain.use_cases.accounts import add_user
from tests.fakes import ManualClock, SequentialRandomness


class Adapter(Protocol):
    """One database, and the ways into it. A second store on it stands for another process."""

    def open_store(
        self,
        *,
        clock: Clock | None = None,
        read_connections: int = 2,
        write_wait_seconds: float = 5,
        read_wait_seconds: float = 5,
    ) -> AbstractAsyncContextManager[Store]:
        """Open a store of its own on the database; by the clock of the test if no other is given."""
        ...

    def snapshots(self, clock: Clock | None = None) -> TaskSnapshots:
        """Return the way to read an owner's tasks for an export; by the clock of the test if no other is given."""
        ...


class SqliteAdapter:
    """`Adapter` on one SQLite file, which is there."""

    def __init__(self, path: Path, clock: Clock, randomness: Randomness) -> None:
        self._path = path
        self._clock = clock
        self._randomness = randomness

    def open_store(
        self,
        *,
        clock: Clock | None = None,
        read_connections: int = 2,
        write_wait_seconds: float = 5,
        read_wait_seconds: float = 5,
    ) -> AbstractAsyncContextManager[SqliteStore]:
        """Open a store of its own on the file."""
        return SqliteStore.open(
            self._path,
            clock=clock or self._clock,
            randomness=self._randomness,
            read_connections=read_connections,
            write_wait_seconds=write_wait_seconds,
            read_wait_seconds=read_wait_seconds,
        )

    def snapshots(self, clock: Clock | None = None) -> SqliteTaskSnapshots:
        """Return snapshots of the file."""
        return SqliteTaskSnapshots(self._path, clock=clock or self._clock)


# For each, the fixture that makes its empty database, and what opens that.
ADAPTERS: Final[dict[str, tuple[str, Callable[[Path, Clock, Randomness], Adapter]]]] = {
    "sqlite": ("database", SqliteAdapter),
}


@pytest.fixture(params=ADAPTERS)
def adapter(request: pytest.FixtureRequest, clock: ManualClock, randomness: SequentialRandomness) -> Adapter:
    """An adapter on an empty database of its own."""
    database, opener = ADAPTERS[request.param]
    return opener(request.getfixturevalue(database), clock, randomness)


@pytest.fixture
async def store(adapter: Adapter) -> AsyncIterator[Store]:
    """The store that is held to the laws."""
    async with adapter.open_store() as opened:
        yield opened


@pytest.fixture
async def neighbour(store: Store) -> User:
    """Somebody else with an account, who must never see what is not theirs."""
    return await store.write(add_user, "Bob")
