"""`fencepost settings`: what can be configured, as the program itself reads it."""

from typing import Annotated, get_args, get_origin, get_type_hints

import rich_click as click
from msgspec import Meta
from msgspec.structs import fields

from entrypoints.cli.printing import show_json, show_table
from entrypoints.settings import PREFIX, Settings


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, as_json: bool) -> None:
    """List every setting: its variable, default and meaning."""
    rows = [
        {"variable": PREFIX + field.name.upper(), "default": field.default, "meaning": _meaning(field.name)}
        for field in fields(Settings)
    ]
    if as_json:
        show_json(rows)
    else:
        show_table(("VARIABLE", "DEFAULT", "MEANING"), [tuple(map(_shown, row.values())) for row in rows])


def _meaning(name: str) -> str:
    hint = get_type_hints(Settings, include_extras=True)[name]
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((note.description for note in notes if isinstance(note, Meta) and note.description), "")


def _shown(value: object) -> str:
    return "(empty)" if value == "" else f"{value:g}" if isinstance(value, float) else str(value)
