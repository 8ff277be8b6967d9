"""`fencepost tasks import`: tasks out of a file, into a running service."""

import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, Final, Unpack

import rich_click as click

from entrypoints.cli.printing import counted, note, show_json
from entrypoints.cli.service import ServiceOptions, connected, service_options
from entrypoints.client.failures import OutOfReach, Refused
from entrypoints.client.session import ImportMedia

_STANDARD_INPUT: Final = "-"
_KINDS: Final = {"csv": ImportMedia.CSV, "jsonl": ImportMedia.JSON_LINES}
_SUFFIXES: Final = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


class ImportOptions(ServiceOptions):
    """What `import` can be told."""

    file: str
    kind: str | None
    on_error: str
    formula_protection: str
    as_json: bool


@click.group()
def command() -> None:
    """Bring tasks into a running service."""


@command.command("import")
@click.argument("file", metavar="FILE")
@click.option("--format", "kind", type=click.Choice([*_KINDS]), help="What FILE is, where its name does not say it.")
@click.option(
    "--on-error",
    type=click.Choice(["refuse", "skip"]),
    default="refuse",
    show_default=True,
    help="What a faulty row does: refuse the whole file, or only itself.",
)
@click.option(
    "--formula-protection",
    type=click.Choice(["none", "apostrophe"]),
    default="none",
    show_default=True,
    help="apostrophe: FILE is an export; take off the apostrophe that it added.",
)
@service_options
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def import_(**stated: Unpack[ImportOptions]) -> None:
    """Import every task of FILE (CSV or JSON Lines; - is standard input), all at once or not at all."""
    options = {"on_error": stated["on_error"], "formula_protection": stated["formula_protection"]}
    media = _KINDS[stated["kind"] or _kind_of(stated["file"])]
    with (
        _opened(stated["file"]) as file,
        connected(stated) as client,
    ):
        key = stated["key"] or client.new_key()
        try:
            outcome = client.import_file(file, media, key=key, options=options)
        except Refused as refused:
            # Faults of the file as a whole are told by the refusal itself, which only counts those of rows.
            if (count := refused.problem.error_count) is not None:
                _list([*map(str, refused.problem.errors)], count)
                note("To leave such rows out and import the others, add: --on-error skip")
            raise
        except (OutOfReach, KeyboardInterrupt):
            note(f"Safe to repeat with: --key {shlex.quote(key)}")
            raise
    if stated["as_json"]:
        show_json(outcome)
        return
    _list([*map(str, outcome.refused_rows)], outcome.refused)
    refused_note = f", refused {outcome.refused:,}" if outcome.refused else ""
    click.echo(f"Imported {counted(outcome.imported, 'task')}{refused_note}.")


def _kind_of(name: str) -> str:
    kind = "csv" if name == _STANDARD_INPUT else _SUFFIXES.get(Path(name).suffix.lower())
    if kind is None:
        raise click.UsageError(f"the name {Path(name).name!r} does not say what it is; add --format csv or jsonl.")
    return kind


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    if name != _STANDARD_INPUT:
        with Path(name).open("rb") as file:
            yield file
        return
    # A request that has to be sent again begins at the start, to which a pipe does not go back.
    with TemporaryFile() as spool:
        shutil.copyfileobj(sys.stdin.buffer, spool)
        yield spool


def _list(faults: Sequence[str], count: int) -> None:
    for fault in faults:
        note(f"  {fault}")
    if count > len(faults):
        note(f"  … and {count - len(faults):,} more")
