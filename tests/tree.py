"""The files of this repository, as git sees them."""

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@cache
def repository_files() -> tuple[Path, ...]:
    """Returns every file that is committed, or that would be by `git add --all`; sorted, and there on disk."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - whichever git is on PATH
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    files = (ROOT / name for name in sorted(set(listed.split("\0")) - {""}))
    return tuple(file for file in files if file.is_file())


def files_under(*folders: str, suffix: str) -> tuple[Path, ...]:
    """Returns the repository's files with that suffix in any of the folders, which are relative to the root."""
    return tuple(
        file
        for file in repository_files()
        if file.suffix == suffix and any(file.is_relative_to(ROOT / folder) for folder in folders)
    )


def named(file: Path) -> str:
    """Returns a file's path from the root, as a message should show it."""
    return file.relative_to(ROOT).as_posix()
