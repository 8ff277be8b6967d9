"""The page of all settings, written from the settings themselves: `python -m tests.docs.configuration --write`."""

import sys
from typing import Final, get_args, get_type_hints

from msgspec.structs import FieldInfo, fields

from entrypoints.settings import CLIENT_VARIABLES, PREFIX, Settings, accepted
from tests.tree import ROOT

PAGE: Final = ROOT / "docs" / "configuration.md"

_HEAD: Final = """\
# Configuration

<!-- Written by `python -m tests.docs.configuration --write`, not by hand. -->

Each process reads its settings from the environment, once, when it starts. A variable with the prefix `{prefix}` that
is not in this table is refused, since a misspelt limit would be no limit. `fencepost settings` prints the same table,
and a command's `--help` says which options replace a variable.

| variable | default | accepts | means |
|---|---|---|---|
"""
_FOOT: Final = """
The commands that are clients of a running service (`fencepost export`, `fencepost tasks import`) read two more:

| variable | means |
|---|---|
| `{url}` | where the service is; `http://127.0.0.1:8080` when it is not set |
| `{token}` | the bearer token |
"""


def page() -> str:
    """Return the page."""
    url, token = CLIENT_VARIABLES
    return _HEAD.format(prefix=PREFIX) + "".join(map(_row, fields(Settings))) + _FOOT.format(url=url, token=token)


def _row(field: FieldInfo) -> str:
    name, default = field.name, field.default
    hint = get_type_hints(Settings, include_extras=True)[name]
    meta = get_args(hint)[1]
    shown = "" if default == "" else f"`{default:g}`" if isinstance(default, float) else f"`{default}`"
    return f"| `{PREFIX}{name.upper()}` | {shown} | {accepted(name)} | {meta.description} |\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.docs.configuration --write")
    PAGE.write_text(page(), encoding="utf-8")
