"""Commands that are clients of a running service: where it is, and who asks."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TypedDict

import rich_click as click
from msgspec.structs import replace

from entrypoints.bootstrap import system_clock, system_randomness
from entrypoints.cli.printing import note
from entrypoints.cli.values import Seconds, Text
from entrypoints.client.session import Client
from entrypoints.settings import ClientSettings


class ServiceOptions(TypedDict):
    """What `service_options` adds to a command."""

    url: str | None
    token_file: str | None
    patience: float
    key: str | None


def service_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say where the service is, who asks, and under which key."""
    for option in (
        click.option(
            "--key",
            type=Text(),
            metavar="KEY",
            help="The idempotency key; the same one repeats safely. Made up when not given.",
        ),
        click.option(
            "--token-file",
            type=Text(),
            metavar="FILE",
            help="Read the token from the file, instead of from FENCEPOST_TOKEN.",
        ),
        click.option(
            "--patience",
            type=Seconds(),
            default=30.0,
            show_default=True,
            metavar="SECONDS",
            help="How long to keep trying while the service is out of reach or busy.",
        ),
        click.option("--url", metavar="URL", help="Where the service is, instead of FENCEPOST_URL."),
    ):
        command = option(command)
    return command


def connected(stated: ServiceOptions) -> Client:
    """Return a client of the service that the options or the environment name.

    Raises:
        BadConnection: there is no token, or that is no address.
        OSError: the file of the token cannot be read.
    """
    settings = ClientSettings.from_environment()
    if stated["url"] is not None:
        settings = replace(settings, url=stated["url"])
    if stated["token_file"] is not None:
        token = Path(stated["token_file"]).read_text(encoding="utf-8", errors="replace")
        settings = replace(settings, token=token.strip())
    return Client(
        settings,
        clock=system_clock(),
        randomness=system_randomness(),
        patience=timedelta(seconds=stated["patience"]),
        on_trouble=note,
    )
