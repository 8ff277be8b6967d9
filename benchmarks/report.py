"""What all benchmarks share: their options, and how figures are shown and kept."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def parse(arguments: Sequence[str] | None, *, doc: str | None, seconds: float, meaning: str) -> argparse.Namespace:
    """Return `seconds` and `json`; `doc` is the script's docstring, `meaning` says what the seconds are spent on."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=seconds, help=f"{meaning} (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write the figures to this file")
    options = parser.parse_args(arguments)
    if options.seconds <= 0:
        parser.error("--seconds must be more than 0")
    if options.json and not options.json.parent.is_dir():
        parser.error(f"--json: there is no folder {options.json.parent}; make it first")
    return options


def show(title: str, rows: Mapping[str, Mapping[str, object]]) -> None:
    """Print named rows of named cells as a Markdown table under its title."""
    heads = ["", *next(iter(rows.values()))]
    lines = [heads, ["---"] * len(heads), *([name, *map(str, row.values())] for name, row in rows.items())]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    sys.stdout.write(f"{title}:\n\n{table}\n\n")
    sys.stdout.flush()


def keep(figures: Mapping[str, object], path: Path | None, **versions: str) -> None:
    """Print where the figures were made, and write both to the file, if one was asked for."""
    machine = {"platform": platform.platform(), "cores": os.cpu_count(), "python": platform.python_version()} | versions
    sys.stdout.write(f"Made on: {', '.join(f'{name} {value}' for name, value in machine.items())}\n")
    if path:
        report = {**figures, "machine": machine}
        path.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
