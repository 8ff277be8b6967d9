"""THE COMPOSITION ROOT: the one place that knows which adapter stands behind which port."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from adapters.importing.files import FileReader
from adapters.rendering.csv_file import ThreadedCsvRenderer
from adapters.sqlite import migrate
from adapters.sqlite.snapshots import SqliteTaskSnapshots
from adapters.sqlite.store import SqliteStore
from adapters.system.clock import SystemClock
from adapters.system.randomness import SystemRandomness
from domain.policies import Policies
from domain.ports import Clock, ImportReader, Randomness, Renderer, Store
from entrypoints.settings import Settings


@dataclass(frozen=True, slots=True)
class Application:
    """What an entrypoint is given: ports, opened and ready, and the rules as configured."""

    settings: Settings
    policies: Policies
    store: Store
    renderer: Renderer
    import_reader: ImportReader
    clock: Clock
    randomness: Randomness


@asynccontextmanager
async def assemble(
    settings: Settings, *, clock: Clock | None = None, randomness: Randomness | None = None
) -> AsyncIterator[Application]:
    """Open everything that a process needs, and close it in reverse order.

    The clock and the randomness can be replaced by a test; everything else is what runs in production.

    Raises:
        StoreUnavailable: the database cannot be opened, is of another schema version, or its SQLite is unsafe. The
            message says what to type.
    """
    clock = clock or SystemClock()
    randomness = randomness or SystemRandomness()
    policies = settings.policies
    async with SqliteStore.open(
        settings.database_path,
        clock=clock,
        randomness=randomness,
        read_connections=settings.read_connections,
        write_wait_seconds=settings.write_wait_seconds,
        read_wait_seconds=settings.read_wait_seconds,
    ) as store:
        snapshots = SqliteTaskSnapshots(settings.database_path, clock=clock)
        yield Application(
            settings=settings,
            policies=policies,
            store=store,
            renderer=ThreadedCsvRenderer(snapshots, limits=policies.result),
            import_reader=FileReader(),
            clock=clock,
            randomness=randomness,
        )


def migrate_database(settings: Settings) -> list[int]:
    """Create the database or bring it up to this program's schema; return the numbers of the migrations applied.

    Raises:
        StoreUnavailable: the file cannot be opened, or was written by a newer program.
    """
    return migrate.migrate(settings.database_path)


def system_randomness() -> Randomness:
    """Return the machine's source of chance, for a process that opens no database."""
    return SystemRandomness()


def system_clock() -> Clock:
    """Return the machine's clocks, for a process that opens no database."""
    return SystemClock()
