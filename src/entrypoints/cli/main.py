"""Where the `fencepost` command begins and ends: which commands there are, and what a failure looks like to a person.

A command's module is imported when it runs. Listing the commands must not take as long as starting the web framework.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from traceback import print_exception
from typing import Final, NoReturn

import rich_click as click

# The shell's convention for a program that a signal ended: 128 and its number, which is 2 for Ctrl-C.
EXIT_INTERRUPTED: Final = 130
EXIT_FAILED: Final = 1

_COMMANDS: Final = {
    "up": "Start the API and workers, and keep them up.",
    "api": "Run one API process.",
    "worker": "Run one worker process.",
    "migrate": "Create the database, or bring it up to date.",
    "users": "Add, list, disable and enable the owners of tasks.",
    "tokens": "Issue, list and revoke the tokens that speak for a user.",
    "tasks": "Bring tasks into a running service.",
    "export": "Export tasks from a running service into a file, proven complete.",
    "jobs": "Inspect, requeue and cancel exports of all owners.",
    "dead-letters": "List failed exports of all owners.",
    "queue": "See how the queue does.",
    "demo": "Prove the main job once, on a temporary database.",
    "settings": "List every setting: its variable, default and meaning.",
    "openapi": "Print, write or check the contract.",
    "lifecycle": "Print, write or check the drawing of the protocol.",
}

_EPILOG: Final = """\
Exit status: 0 done; 1 refused or failed; 2 wrong usage or configuration; 3 the service or the database is out of reach
or took too long; 4 a download did not prove complete; 130 interrupted.
"""


class DeferredGroup(click.RichGroup):
    """A group that knows the names of its commands, and imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names, in the order in which people meet them."""
        return [*_COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        """Return what a listing needs of a command: its name and what it does."""
        summary = _COMMANDS.get(cmd_name)
        return None if summary is None else click.RichCommand(name=cmd_name, help=summary)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command itself, to be run."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else command_of(name), rest


def command_of(name: str) -> click.Command:
    """Return the command of that name, imported."""
    command = import_module(f"entrypoints.cli.{name.replace('-', '_')}").command
    if not isinstance(command, click.Command):
        raise TypeError(f"entrypoints.cli.{name} has no command")
    return command


def summaries() -> Mapping[str, str]:
    """Return what the listing says of each command."""
    return _COMMANDS


class Session:
    """What the outermost handler needs to know of the options: whether a traceback is wanted."""

    def __init__(self) -> None:
        self.wants_traceback = False


def _remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
    if isinstance(ctx.obj, Session):
        ctx.obj.wants_traceback = value


@click.group(
    cls=DeferredGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog=_EPILOG,
)
@click.option(
    "--debug", is_flag=True, is_eager=True, expose_value=False, callback=_remember, help="Show where a failure arose."
)
@click.version_option(package_name="fencepost", message="%(prog)s %(version)s")
def fencepost() -> None:
    """Keep tasks, and export them through a durable queue: at least once processed, committed once."""


def run(arguments: Sequence[str]) -> int:
    """Run one command; return its exit status. A failure is one line on standard error."""
    session = Session()
    try:
        status = fencepost.main([*arguments], prog_name="fencepost", standalone_mode=False, obj=session)
        sys.stdout.flush()
    except (KeyboardInterrupt, click.Abort):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader had enough, as `| head` does.
        _let_go_of_output()
        return EXIT_FAILED
    except Exception as error:  # noqa: BLE001 - the outermost handler: a person is told, in one line
        _let_go_of_output()
        if session.wants_traceback:
            print_exception(error)
        explained = import_module("entrypoints.cli.failure").explain(error)
        click.echo(f"fencepost: {explained.sentence}", err=True)
        return int(explained.exit_status)
    return status if isinstance(status, int) else 0


def _let_go_of_output() -> None:
    """Drop what cannot be written: Python would try once more at exit, with words and a status of its own."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_closed_streams() -> None:
    """Open the standard streams that were closed when the process was started.

    The next file or connection would take their numbers otherwise, and get what is meant for a person. Reading the one
    and writing the other fails as on a closed stream; what would be said on standard error is dropped.
    """
    for number, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)
    sys.stdin = sys.stdin or os.fdopen(0, "r")
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")


def main() -> NoReturn:
    """Run the command that the process was started with, and end with its exit status."""
    _open_closed_streams()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
