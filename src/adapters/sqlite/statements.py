"""SQL lives in `.sql` files, one an aggregate, as named blocks.

    -- part: visible
    -- Why every statement that reads tasks says this.
    import_id IS NULL OR …

    -- name: find_task
    -- Why it is safe: the index it uses, the lock it takes.
    SELECT … WHERE id = :id AND {visible};

A statement is loaded once, by name. What several must say alike is a part, which stands above them and is written into
them. A test explains every statement against the migrated schema.
"""

from importlib.resources import files
from re import MULTILINE, compile as pattern
from typing import Final

_HEAD: Final = pattern(r"^-- (name|part): (\w+)$", MULTILINE)
_COMMENT: Final = pattern(r"^--.*\n", MULTILINE)
_PART: Final = pattern(r"\{(\w+)\}")


def load(aggregate: str) -> dict[str, str]:
    """Return the statements of `<aggregate>.sql` by name, with their parts written into them.

    Raises:
        ValueError: a name is used twice.
        KeyError: a part does not stand above its use.
    """
    text = (files(__package__) / f"{aggregate}.sql").read_text(encoding="utf-8")
    _, *blocks = _HEAD.split(text)
    parts: dict[str, str] = {}
    statements: dict[str, str] = {}
    for kind, name, body in zip(blocks[::3], blocks[1::3], blocks[2::3], strict=True):
        if name in parts or name in statements:
            raise ValueError(f"a statement of {aggregate}.sql has the name of another")
        whole = _PART.sub(lambda found: parts[found[1]], body).strip()
        if kind == "part":
            parts[name] = _COMMENT.sub("", whole)
        else:
            statements[name] = whole.removesuffix(";")
    return statements
