"""What commands print: results on standard output, everything said to a person beside it on standard error."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
import rich_click as click


def note(text: str) -> None:
    """Say something to the person who waits."""
    click.echo(text, err=True)


def counted(number: int, noun: str) -> str:
    """Return how many of what: "1 row", "2,000 rows"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def show_json(value: object) -> None:
    """Print a value for a script: JSON, two spaces deep."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def typed(argument: str) -> str:
    """Return the argument as it has to be typed into a shell, where it is the first of its command's."""
    quoted = shlex.quote(argument)
    return f"-- {quoted}" if argument.startswith("-") else quoted


@contextmanager
def written_to_standard_output() -> Iterator[None]:
    """Name standard output in what goes wrong while it is written to.

    Raises:
        OSError: it cannot be written to; a BrokenPipeError where its reader is gone.
    """
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from error


def show_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns that line up; no line ends in blanks."""
    for line in table(headings, rows):
        click.echo(line)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of such a table."""
    widths = [max(len(cell) for cell in column) for column in zip(headings, *rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (headings, *rows)
    ]
