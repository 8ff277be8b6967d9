"""Commands that work on the database themselves, beside a running service or without one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import rich_click as click
from msgspec.structs import replace

from entrypoints.bootstrap import Application, assemble
from entrypoints.cli.values import Text
from entrypoints.settings import Settings

T = TypeVar("T")

database_option = click.option(
    "--database",
    type=Text(),
    metavar="PATH",
    help="The database file, instead of the one that FENCEPOST_DATABASE names.",
)


def settings_for(database: str | None) -> Settings:
    """Return the settings of this process, with the database that the command line names."""
    settings = Settings.from_environment()
    return settings if database is None else replace(settings, database=database)


def in_application(settings: Settings, work: Callable[[Application], Awaitable[T]]) -> T:
    """Open the application, do the work, close it.

    Raises:
        StoreUnavailable: there is no such database, or it is of another schema version; the message says what to type.
    """

    async def run() -> T:
        async with assemble(settings) as app:
            return await work(app)

    return asyncio.run(run())
