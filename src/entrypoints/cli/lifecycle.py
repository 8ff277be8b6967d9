"""`fencepost lifecycle`: the protocol as a drawing, from the table that the program runs."""

from typing import Final

import rich_click as click

from entrypoints.cli.checkout import document
from entrypoints.cli.lifecycle_diagram import render_lifecycle, update_document
from entrypoints.cli.printing import note

_COMMITTED: Final = "docs/lifecycle.md"


@click.command()
@click.option("--check", metavar="[PATH]", is_flag=False, flag_value="", help="Fail when the drawing in it differs.")
@click.option("--write", metavar="[PATH]", is_flag=False, flag_value="", help="Renew the drawing in it.")
def command(*, check: str | None, write: str | None) -> None:
    """Print, write or check the drawing of the protocol. Without a PATH the repository's docs/lifecycle.md is meant."""
    if write is not None:
        update_document(document(write, _COMMITTED), check=False)
    if check is not None:
        path = document(check, _COMMITTED)
        if not update_document(path, check=True):
            raise click.ClickException(
                f"{path} does not show what the program runs; `fencepost lifecycle --write` renews it"
            )
        note(f"{path} shows what the program runs.")
    if check is None and write is None:
        click.echo(render_lifecycle(), nl=False)
