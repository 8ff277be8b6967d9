"""`fencepost export`: tasks of a running service into a file that is proven complete, or not there."""

import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, Final, NoReturn, Unpack

import rich_click as click

from domain.parameters import Column, Delimiter, FormulaProtection, LineEnding, Quoting
from domain.task import PRIORITIES, TaskStatus
from entrypoints.cli.printing import counted, note, show_json, written_to_standard_output
from entrypoints.cli.progress import showing
from entrypoints.cli.service import ServiceOptions, connected, service_options
from entrypoints.cli.values import Seconds, Text, WholeNumber
from entrypoints.client.answers import Export
from entrypoints.client.failures import OutOfReach, TimedOut, Unproven
from entrypoints.client.proving import Proof
from entrypoints.client.saving import whole_file
from entrypoints.client.session import Client, result_of

_STANDARD_OUTPUT: Final = "-"
_DELIMITERS: Final = {delimiter.name.lower(): delimiter.value for delimiter in Delimiter}
_INSTANT: Final = "INSTANT"
_TERMINATED: Final = 128 + signal.SIGTERM


class ExportOptions(ServiceOptions):
    """What `export` can be told; None and empty leave it to the service."""

    output: str
    columns: list[str] | None
    status: tuple[str, ...]
    priority: tuple[str, ...]
    due_before: str | None
    due_after: str | None
    created_before: str | None
    created_after: str | None
    updated_since: str | None
    timezone: str | None
    delimiter: str | None
    line_ending: str | None
    quoting: str | None
    formula_protection: str | None
    bom: bool
    deadline: int | None
    timeout: float
    as_json: bool


class _Columns(click.ParamType[list[str]]):
    """Names of columns with commas between them."""

    name = "columns"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        """Return the names, each of which there is."""
        names = [name.strip() for name in str(value).split(",")]
        for name in names:
            if name not in _words(Column):
                self.fail(f"there is no column {name!r}; there are {', '.join(Column)}.", param, ctx)
        return names


def _words(words: type[StrEnum]) -> list[str]:
    # Given the members themselves, click would offer their names in upper case.
    return [word.value for word in words]


def _filter_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--updated-since", metavar=_INSTANT, help="Changed at that instant or later."),
        click.option("--created-after", metavar=_INSTANT, help="Created later than that."),
        click.option("--created-before", metavar=_INSTANT, help="Created earlier than that."),
        click.option("--due-after", metavar=_INSTANT, help="Due later than that, such as 2026-01-31T08:30:00Z."),
        click.option("--due-before", metavar=_INSTANT, help="Due earlier than that."),
        click.option(
            "--priority",
            type=click.Choice([*map(str, PRIORITIES)]),
            multiple=True,
            help="Only tasks of this priority, of which 1 is the most urgent; can be given several times.",
        ),
        click.option(
            "--status",
            type=click.Choice(_words(TaskStatus)),
            multiple=True,
            help="Only tasks of this status; can be given several times.",
        ),
    ):
        command = option(command)
    return command


def _csv_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--bom", is_flag=True, help="Begin the file with a byte-order mark."),
        click.option(
            "--formula-protection",
            type=click.Choice(_words(FormulaProtection)),
            help="apostrophe (the default) keeps spreadsheets from running text; none is for programs.",
        ),
        click.option(
            "--quoting",
            type=click.Choice(_words(Quoting)),
            help="minimal (the default) quotes where it must; all, always.",
        ),
        click.option("--line-ending", type=click.Choice(_words(LineEnding)), help="crlf (the default), or lf."),
        click.option(
            "--delimiter", type=click.Choice([*_DELIMITERS]), help="What stands between cells; comma by default."
        ),
        click.option("--timezone", metavar="ZONE", help="Show instants in this zone, such as Europe/Berlin."),
        click.option("--columns", type=_Columns(), metavar="A,B,…", help=f"Of {','.join(Column)}; in this order."),
    ):
        command = option(command)
    return command


@click.command()
@click.option(
    "-o",
    "--output",
    type=Text(),
    required=True,
    metavar="FILE",
    help="Where the file goes; - is standard output.",
)
@_csv_options
@_filter_options
@click.option("--deadline", type=WholeNumber(min=1), metavar="SECONDS", help="How long the export is worth doing.")
@click.option(
    "--timeout",
    type=Seconds(),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for it here.",
)
@service_options
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def command(**stated: Unpack[ExportOptions]) -> None:
    """Export tasks from a running service into a file, proven complete.

    Asks, waits, downloads, proves, and only then puts FILE in its place. The key is printed first: when anything goes
    wrong after that, the same command with --key goes on where it was.
    """
    to_standard_output = stated["output"] == _STANDARD_OUTPUT
    if to_standard_output and stated["as_json"]:
        raise click.UsageError("--json and the file cannot both go to standard output.")
    with _ended_by_sigterm(), connected(stated) as client, _place(stated["output"]) as file:
        key = stated["key"] or client.new_key()
        note(f"Key: {key}")
        with _advice(key):
            export, proof = _exported(client, stated, key, file)
    result = result_of(export)
    if stated["as_json"]:
        show_json(
            {
                "key": key,
                "id": export.id,
                "file": stated["output"],
                "rows": result.rows,
                "bytes": proof.byte_count,
                "sha256": proof.sha256,
                "formula_escaped_cells": result.formula_escaped_cells,
                "snapshot_at": result.snapshot_at,
            }
        )
    else:
        place = "standard output" if to_standard_output else stated["output"]
        note(f"{place}: {counted(result.rows, 'row')}, {counted(proof.byte_count, 'byte')}, sha256 {proof.sha256}")


def _exported(client: Client, stated: ExportOptions, key: str, file: BinaryIO) -> tuple[Export, Proof]:
    with showing() as shown:
        export = client.create_export(_parameters(stated), key=key)
        shown.export(export)
        if not export.has_ended:
            export = client.wait(export, timeout=timedelta(seconds=stated["timeout"]), on_progress=shown.export)
        return export, client.download(export, file, on_bytes=shown.download)


def _parameters(stated: ExportOptions) -> dict[str, object]:
    """Return the request's body: what was stated and nothing else, so that the service's defaults hold."""
    chosen = {
        "status": stated["status"],
        "priority": [int(priority) for priority in stated["priority"]],
        "due_before": stated["due_before"],
        "due_after": stated["due_after"],
        "created_before": stated["created_before"],
        "created_after": stated["created_after"],
        "updated_since": stated["updated_since"],
    }
    dialect = {
        "delimiter": _DELIMITERS[stated["delimiter"]] if stated["delimiter"] else None,
        "line_ending": stated["line_ending"],
        "quoting": stated["quoting"],
        "formula_protection": stated["formula_protection"],
        "bom": stated["bom"] or None,
    }
    return _present(
        {
            "columns": stated["columns"],
            "filter": _present(chosen),
            "timezone": stated["timezone"],
            "csv": _present(dialect),
            "deadline_seconds": stated["deadline"],
        }
    )


def _present(members: Mapping[str, object]) -> dict[str, object]:
    # An empty text was stated, by a shell variable that is not set perhaps: to pass it over would export everything.
    return {name: member for name, member in members.items() if member or member == ""}


@contextmanager
def _place(output: str) -> Iterator[BinaryIO]:
    if output != _STANDARD_OUTPUT:
        with whole_file(Path(output)) as file:
            yield file
        return
    # What was written to a pipe cannot be taken back: it gets the file when the file is proven.
    with TemporaryFile() as spool:
        yield spool
        spool.seek(0)
        with written_to_standard_output():
            shutil.copyfileobj(spool, sys.stdout.buffer)
            sys.stdout.buffer.flush()


@contextmanager
def _advice(key: str) -> Iterator[None]:
    try:
        yield
    except (OutOfReach, TimedOut, Unproven, KeyboardInterrupt, SystemExit):
        note(f"Nothing was written. To go on with the same export, add: --key {shlex.quote(key)}")
        raise


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the block as an exception does, so that what was begun is taken back."""
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminated(*_: object) -> NoReturn:
    raise SystemExit(_TERMINATED)
