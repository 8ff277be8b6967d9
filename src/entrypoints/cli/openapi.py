"""`fencepost openapi`: the contract, generated from the code and committed."""

from typing import Final

import rich_click as click

from entrypoints.cli.checkout import document
from entrypoints.cli.printing import note
from entrypoints.http.contract import openapi_json

_COMMITTED: Final = "contracts/openapi.json"


@click.command()
@click.option("--check", metavar="[PATH]", is_flag=False, flag_value="", help="Fail when the file differs.")
@click.option("--write", metavar="[PATH]", is_flag=False, flag_value="", help="Write the file.")
def command(*, check: str | None, write: str | None) -> None:
    """Print, write or check the contract. Without a PATH the repository's contracts/openapi.json is meant."""
    contract = openapi_json()
    if write is not None:
        document(write, _COMMITTED).write_bytes(contract)
    if check is not None:
        path = document(check, _COMMITTED)
        if path.read_bytes() != contract:
            raise click.ClickException(f"{path} is not what the code serves; `fencepost openapi --write` renews it")
        note(f"{path} is what the code serves.")
    if check is None and write is None:
        click.echo(contract, nl=False)
