"""`fencepost up`: the whole service on one machine, and for a first look a demo owner with tasks."""

import asyncio
from collections.abc import Sequence
from typing import Final

import rich_click as click
from msgspec.structs import replace

from domain.account import OwnerId, Scope, TokenId, token_from
from domain.ports import UnitOfWork
from domain.task import TaskFilter, TaskId
from domain.use_cases.accounts import add_user, issue_token, list_tokens, revoke_token
from domain.use_cases.tasks import create_task, list_tasks
from entrypoints.bootstrap import assemble
from entrypoints.cli.database import database_option, settings_for
from entrypoints.cli.sample_tasks import sample_tasks
from entrypoints.cli.values import Text, WholeNumber
from entrypoints.settings import LogFormat, LogLevel, Settings
from entrypoints.supervisor import run_up

_OWNER: Final = "demo"
_MOST_WORKERS: Final = 64


@click.command()
@click.option("--workers", type=WholeNumber(1, _MOST_WORKERS), default=1, show_default=True, help="How many workers.")
@click.option(
    "--demo",
    is_flag=True,
    help="Set up the user demo with sample tasks and a fresh token (its earlier tokens are revoked), "
    "and print commands to try.",
)
@click.option("--host", type=Text(), metavar="ADDRESS", help="Where the API listens, instead of FENCEPOST_HOST.")
@click.option("--port", type=WholeNumber(0, 65535), help="Its port, instead of FENCEPOST_PORT; 0 takes a free one.")
@database_option
@click.pass_context
def command(ctx: click.Context, /, *, workers: int, demo: bool, **where: str | int | None) -> None:
    """Start the API and workers, and keep them up.

    The database is created or brought up to date first. Ctrl-C or SIGTERM ends the service once what it began is done;
    the second one ends it at once. SIGHUP begins every process anew, and refuses no connection meanwhile.
    """
    settings = settings_for(None)
    settings = replace(settings, **{name: value for name, value in where.items() if value is not None})
    if demo:
        settings = _for_people(settings)
    ctx.exit(asyncio.run(_with_greeting(settings, workers) if demo else run_up(settings, workers)))


def _for_people(settings: Settings) -> Settings:
    """Return settings whose log does not bury what is printed; what was configured otherwise stays."""
    usual = Settings()
    if settings.log_format is usual.log_format:
        settings = replace(settings, log_format=LogFormat.TEXT)
    if settings.log_level is usual.log_level:
        settings = replace(settings, log_level=LogLevel.WARNING)
    return settings


async def _with_greeting(settings: Settings, workers: int) -> int:
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as group:
        greeting = group.create_task(_greet(settings, ready))
        try:
            return await run_up(settings, workers, on_ready=ready.set_result)
        finally:
            greeting.cancel()


async def _greet(settings: Settings, ready: "asyncio.Future[str]") -> None:
    url = await ready
    async with assemble(settings) as app:
        token = token_from(app.randomness.new_secret())
        task_ids = [TaskId(app.randomness.new_id()) for _ in sample_tasks(app.clock.now())]
        token_id = TokenId(app.randomness.new_id())
        await app.store.write(_set_up_demo, token=token, token_id=token_id, task_ids=task_ids)
        key = app.randomness.new_id()
    links_from = "" if settings.public_base_url else url
    click.echo(_greeting(settings.database, url=url, links_from=links_from, token=token, key=key))


def _set_up_demo(uow: UnitOfWork, *, token: str, token_id: TokenId, task_ids: Sequence[TaskId]) -> None:
    """Leave the demo owner with this one token in force, and with sample tasks if it has none."""
    owner = uow.users.find(_OWNER) or add_user(uow, _OWNER)
    for earlier in list_tokens(uow, _OWNER):
        if earlier.revoked_at is None:
            revoke_token(uow, earlier.id)
    issue_token(uow, _OWNER, token_id=token_id, token=token, scopes=frozenset(Scope))
    _add_sample(uow, owner.id, task_ids)


def _add_sample(uow: UnitOfWork, owner_id: OwnerId, task_ids: Sequence[TaskId]) -> None:
    if not list_tasks(uow, owner_id, TaskFilter(), after=None, limit=1).items:
        for task_id, task in zip(task_ids, sample_tasks(uow.now), strict=True):
            create_task(uow, owner_id, task, task_id=task_id)


def _greeting(database: str, *, url: str, links_from: str, token: str, key: str) -> str:
    lines = "\n".join(_commands(url=url, links_from=links_from, token=token, key=key))
    return f"""
Fencepost is ready at {url}

The user {_OWNER} has the token
  {token}

Ask for an export, read how it stands, download it: paste these three lines into a shell.

{lines}

Tasks and exports are kept in {database}. Ctrl-C stops the service once what it began is done;
once more, at once.
"""


def _commands(*, url: str, links_from: str, token: str, key: str) -> tuple[str, str, str]:
    """Return three lines of shell that run an export with curl alone."""
    bearer = f"-H 'Authorization: Bearer {token}'"
    ask = f"curl -sS -o /dev/null -D - -X POST {bearer} -H 'Idempotency-Key: {key}' -H 'Content-Type: application/json'"
    location = "sed -n 's/^[Ll]ocation: //p' | tr -d '\\r'"
    export = f"{links_from}$LOCATION"
    # Until the file is there the answer is a 409 that says when to come back, which curl does, and need not tell; what
    # is refused for good, as a token of an earlier start is, looks the same to it, and must not keep a person waiting.
    fetch = "curl -sf --retry 20 --retry-max-time 60 --retry-all-errors"
    return (
        f"LOCATION=$({ask} -d '{{}}' {url}/v1/exports | {location})",
        f"curl -sS {bearer} \"{export}\" -w '\\n'",
        f"{fetch} {bearer} \"{export}/result\" -o tasks.csv -w 'tasks.csv: %{{size_download}} bytes\\n'",
    )
