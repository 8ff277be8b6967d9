"""THE TABLE OF EXIT STATUSES: every failure of a command, as one sentence that says what to do."""

from typing import Final

import rich_click as click
from msgspec import Struct

from domain.errors import EnvironmentFailure, Refusal
from entrypoints.cli.main import EXIT_FAILED
from entrypoints.client.failures import BadConnection, BadKey, ClientFailure, OutOfReach, TimedOut, Unproven
from entrypoints.settings import SettingsError

EXIT_USAGE: Final = 2
EXIT_OUT_OF_REACH: Final = 3
EXIT_UNPROVEN: Final = 4


class Explained(Struct, frozen=True):
    """What a person, and what a script, gets to see of a failure."""

    exit_status: int
    sentence: str


def explain(error: BaseException) -> Explained:
    """Return exit status and sentence. What is in no row is a defect, and says how to see more."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    match error:
        case click.UsageError():
            path = error.ctx.command_path if error.ctx else "fencepost"
            status, said = EXIT_USAGE, f"{error.format_message().removesuffix('.')}. See `{path} --help`."
        case click.ClickException():
            status, said = EXIT_FAILED, error.format_message()
        case SettingsError() | BadConnection() | BadKey():
            status, said = EXIT_USAGE, str(error)
        case EnvironmentFailure() | OutOfReach() | TimedOut():
            status, said = EXIT_OUT_OF_REACH, str(error)
        case Unproven():
            status, said = EXIT_UNPROVEN, str(error)
        case Refusal() | ClientFailure():
            status, said = EXIT_FAILED, str(error)
        case OSError():
            subject = f"{error.filename}: " if error.filename else ""
            status, said = EXIT_FAILED, f"{subject}{error.strerror or error}"
        case _:
            said = f"unexpected {type(error).__name__}: {error} (`fencepost --debug …` shows where)"
            status = EXIT_FAILED
    return Explained(status, " ".join(said.split()))
