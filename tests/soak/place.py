"""A service with some owners and their tasks, for long runs: brought up, and told to stop."""

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from domain.account import Scope, TokenId, token_from
from domain.ports import UnitOfWork
from domain.task import NewTask, TaskId
from domain.use_cases.accounts import add_user, issue_token
from domain.use_cases.imports import begin_import, publish_import, store_batch
from entrypoints.bootstrap import assemble, migrate_database
from entrypoints.settings import Settings
from entrypoints.telemetry import LogEvent
from tests.processes import Running, fencepost

WORKERS: Final = ("worker-1", "worker-2")


async def prepared(settings: Settings, task_counts: Mapping[str, int]) -> dict[str, str]:
    """Make a database with owners who have so many tasks; return the token of each."""
    migrate_database(settings)
    tokens = {}
    async with assemble(settings) as app:
        for owner, count in task_counts.items():
            tokens[owner] = token_from(app.randomness.new_secret())
            ids = [app.randomness.new_id() for _ in range(count + 1)]
            await app.store.write(_move_in, owner, token=tokens[owner], ids=ids)
    return tokens


def _move_in(uow: UnitOfWork, name: str, *, token: str, ids: list[str]) -> None:
    owner = add_user(uow, name)
    issue_token(uow, name, token_id=TokenId(ids[0]), token=token, scopes=frozenset(Scope))
    number = begin_import(uow, owner.id)
    rows = [(TaskId(task_id), NewTask(title=f"task {row} of {name}")) for row, task_id in enumerate(ids[1:])]
    store_batch(uow, owner.id, number, rows)
    publish_import(uow, owner.id, number, keyed=None)


@asynccontextmanager
async def up(settings: Settings, folder: Path) -> AsyncIterator[Running]:
    """Bring the service up with two workers; when the block is left, tell it to stop and wait for that."""
    arguments = ("up", "--workers", str(len(WORKERS)))
    with fencepost(*arguments, settings=settings, directory=folder) as service:
        try:
            await asyncio.to_thread(service.event, LogEvent.SERVICE_READY)
            yield service
        finally:
            service.signal(signal.SIGTERM)
            await asyncio.to_thread(service.ended)
