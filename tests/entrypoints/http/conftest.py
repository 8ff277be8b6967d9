"""An application on a database of its own, a client for it, and the record of what it answered."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from domain.account import Scope
from entrypoints.bootstrap import Application, assemble
from entrypoints.settings import Settings
from tests.entrypoints.http.api import Api, api_of, set_up_owner
from tests.entrypoints.http.recorder import missing_statuses
from tests.fakes import ManualClock, SequentialRandomness

HERE = Path(__file__).parent
EVERYTHING = frozenset(Scope)


@pytest.fixture
def settings(database: Path) -> Settings:
    """Settings of the application: small sizes, so that a test reaches them, and times that no busy machine reaches."""
    return Settings(
        database=str(database),
        max_body_bytes=200_000,
        import_max_bytes=2_000_000,
        receive_seconds=60,
        import_receive_seconds=60,
        read_wait_seconds=30,
        write_wait_seconds=30,
    )


@pytest.fixture
async def application(
    settings: Settings, clock: ManualClock, randomness: SequentialRandomness
) -> AsyncIterator[Application]:
    """The application with two owners, Ann and Ben, who may do everything, and others who may do less."""
    async with assemble(settings, clock=clock, randomness=randomness) as opened:
        for name, scopes in {
            "ann": EVERYTHING,
            "ben": EVERYTHING,
            "tasks-only": frozenset({Scope.TASKS}),
            "exports-only": frozenset({Scope.EXPORTS}),
            "ops-only": frozenset({Scope.OPS}),
        }.items():
            await opened.store.write(set_up_owner, name, scopes=scopes)
        yield opened


@pytest.fixture
async def api(application: Application) -> AsyncIterator[Api]:
    """A client that speaks for Ann."""
    async with api_of(application) as client:
        yield client


class EveryStatus(pytest.Item):
    """Fails when a documented status was never produced by any of the tests before it."""

    def runtest(self) -> None:
        """Compare what the contract documents with what was seen."""
        missing = missing_statuses()
        assert missing == [], "\n".join(missing)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:  # noqa: ARG002 - pytest's
        """Return the statuses, one a line."""
        return str(excinfo.value)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Adds the record's verdict behind all tests, where all of these tests run: a part cannot produce everything."""
    files = {item.path for item in items}
    narrowed = config.option.keyword or config.option.markexpr or any("::" in argument for argument in config.args)
    if files.issuperset(HERE.glob("test_*.py")) and not narrowed and not hasattr(config, "workerinput"):
        items.append(EveryStatus.from_parent(session, name="every documented status was produced"))
