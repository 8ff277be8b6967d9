"""`fencepost api`: one API process."""

import rich_click as click

from entrypoints.cli.values import WholeNumber
from entrypoints.http.server import serve
from entrypoints.settings import Settings


@click.command()
@click.option("--fd", type=WholeNumber(min=0), metavar="N", help="Take connections from this open socket.")
def command(*, fd: int | None) -> None:
    """Run one API process. It listens where FENCEPOST_HOST and FENCEPOST_PORT say, until SIGTERM or Ctrl-C."""
    serve(Settings.from_environment(), fd=fd)
