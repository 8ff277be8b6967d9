"""Run all benchmarks, or those that are named, one after the other; each leaves its figures in a JSON file."""

import argparse
import sys
from importlib import import_module
from pathlib import Path

BENCHMARKS = ("sqlite_binding", "write_lock_fairness", "result_chunks", "attempt_length", "admission_cost")


def main() -> None:
    """Start what was asked for, with the seconds that each script finds enough."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(BENCHMARKS)}; all without a name")
    parser.add_argument("--output", type=Path, default=Path(".bench"), help="folder of the JSON files (%(default)s)")
    options = parser.parse_args()
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.names or BENCHMARKS:
        path = options.output / f"{name}.json"
        sys.stdout.write(f"## {name}\n\n")
        import_module(f"benchmarks.{name}").main(["--json", str(path)])
        sys.stdout.write(f"figures: {path}\n\n")


if __name__ == "__main__":
    main()
