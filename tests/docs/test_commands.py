"""The command line and the README name the same commands and the same exit statuses."""

import re
from collections.abc import Iterator

import rich_click as click

from entrypoints.cli.main import command_of, fencepost, summaries
from tests.tree import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (`fencepost [^|]+) \|", re.MULTILINE)
WORD = re.compile(r"[a-z][a-z-]*")
SPAN = re.compile(r"`([^`]+)`")
STATUS_ROW = re.compile(r"^\| (\d+) \| (\w+)", re.MULTILINE)
STATUS_TOLD = re.compile(r"(\d+) (\w+)")


def commands() -> Iterator[str]:
    """Yield every command that can be run, with its group before it."""
    for name in summaries():
        command = command_of(name)
        if isinstance(command, click.Group):
            yield from (f"{name} {inner}" for inner in command.commands)
        else:
            yield name


def documented() -> Iterator[str]:
    """Yield every command of the README's table; behind `fencepost users add`, `list` stands for `users list`."""
    for row in ROW.findall(README):
        group = ""
        for span in SPAN.findall(row):
            words = [word for word in span.split() if WORD.fullmatch(word) and word != "fencepost"]
            group = words[0] if len(words) > 1 else group
            yield " ".join(words if len(words) > 1 or not group else [group, *words])


def test_the_readme_names_every_command_and_no_other() -> None:
    """The README's table holds each command of `fencepost --help`, those of its groups included, once."""
    assert sorted(documented()) == sorted(commands())


def test_the_readme_tells_the_exit_statuses_that_the_help_tells() -> None:
    """Both list the same numbers, each beginning with the same word."""
    assert fencepost.epilog is not None
    told = dict(STATUS_TOLD.findall(fencepost.epilog.partition(":")[2]))
    assert told
    assert dict(STATUS_ROW.findall(README)) == told
