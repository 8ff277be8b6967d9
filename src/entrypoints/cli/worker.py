"""`fencepost worker`: one worker process."""

import asyncio

import rich_click as click

from entrypoints.settings import Settings
from entrypoints.worker import run_worker


@click.command()
@click.option("--id", "worker_id", metavar="NAME", help="The name under which it claims; made up when not given.")
def command(*, worker_id: str | None) -> None:
    """Run one worker process, until SIGTERM or Ctrl-C: then it finishes or gives back the export that it works on."""
    asyncio.run(run_worker(Settings.from_environment(), worker_id=worker_id))
