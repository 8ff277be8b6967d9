"""Files of the repository that this program was checked out with; an installed program has none of them."""

from pathlib import Path
from typing import Final

import rich_click as click

_ROOT: Final = Path(__file__).resolve().parents[3]


def in_checkout(name: str) -> Path | None:
    """Return the file of the repository, or None outside of a checkout."""
    path = _ROOT / name
    return path if (_ROOT / "pyproject.toml").is_file() and path.parent.is_dir() else None


def document(stated: str, name: str) -> Path:
    """Return the path that was stated, or that of the repository's own copy when none was.

    Raises:
        UsageError: there is no checkout to take it from.
    """
    found = Path(stated) if stated else in_checkout(name)
    if found is None:
        raise click.UsageError(f"this is no checkout with a {name}: say which file is meant.")
    return found
