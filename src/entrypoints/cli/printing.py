"""What commands print: results on standard output, everything said to a person beside it on standard error."""

from collections.abc import Sequence

import msgspec
import rich_click as click


def note(text: str) -> None:
    """Say something to the person who waits."""
    click.echo(text, err=True)


def show_json(value: object) -> None:
    """Print a value for a script: JSON, two spaces deep."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def show_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns that line up; no line ends in blanks."""
    widths = [max(len(cell) for cell in column) for column in zip(headings, *rows, strict=True)]
    for row in (headings, *rows):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
