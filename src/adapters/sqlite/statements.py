"""SQL lives in `.sql` files, one an aggregate, as named blocks.

    -- name: find_task
    -- Why it is safe: the index it uses, the lock it takes.
    SELECT …;

A block is loaded once, by name. A test explains every one of them against the migrated schema.
"""

from importlib.resources import files
from re import MULTILINE, compile as pattern
from typing import Final

_HEAD: Final = pattern(r"^-- name: (\w+)$", MULTILINE)


def load(aggregate: str) -> dict[str, str]:
    """Return the statements of `<aggregate>.sql` by name.

    Raises:
        ValueError: a name is used twice.
    """
    text = (files(__package__) / f"{aggregate}.sql").read_text(encoding="utf-8")
    parts = _HEAD.split(text)[1:]
    statements = dict(zip(parts[::2], (body.strip().removesuffix(";") for body in parts[1::2]), strict=True))
    if len(statements) != len(parts) // 2:
        raise ValueError(f"a statement of {aggregate}.sql has the name of another")
    return statements
