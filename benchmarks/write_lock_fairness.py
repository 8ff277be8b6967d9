"""How long writer processes wait for SQLite's write lock: SQLite's own `busy_timeout` against a jittered busy handler.

SQLite keeps no queue of writers: whoever asks at the right moment wins. Its own patience backs off until it looks only
every 100 ms, and misses the lock again and again; short random sleeps give every waiter the same chance.
"""

import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from itertools import chain, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.report import keep, parse, show

if find_spec("pysqlite3") is None:
    sys.exit("not installed: pysqlite3; the standard library's driver has no busy handler to compare with")
pysqlite3 = import_module("pysqlite3")

WRITERS, ROUNDS, LIMIT_SECONDS = 8, 2, 5.0
JITTER_SECONDS = 0.0005, 0.003
SCHEMA = """PRAGMA journal_mode = WAL;
CREATE TABLE export_jobs (id INTEGER PRIMARY KEY, version INTEGER NOT NULL) STRICT;
CREATE TABLE export_events (id INTEGER PRIMARY KEY, job_id INTEGER NOT NULL) STRICT;
INSERT INTO export_jobs VALUES (1, 0);"""
TRANSACTION = (
    "INSERT INTO export_events (job_id) VALUES (1)",
    "UPDATE export_jobs SET version = version + 1 WHERE id = 1",
    "COMMIT",
)


def contend(path: Path, seconds: float, *, jittered: bool) -> list[float]:
    """Return how long (seconds) each BEGIN IMMEDIATE of one writer waited; a refused one counts with its wait."""
    waits: list[float] = []
    jitter = random.Random(os.getpid())

    def wait_a_little(_: int) -> bool:
        time.sleep(jitter.uniform(*JITTER_SECONDS))
        return time.perf_counter() - asked < LIMIT_SECONDS

    with closing(pysqlite3.connect(path, isolation_level=None, timeout=0 if jittered else LIMIT_SECONDS)) as connection:
        if jittered:
            connection.set_busy_handler(wait_a_little)
        asked = started = time.perf_counter()
        connection.execute("PRAGMA synchronous = FULL")
        while (asked := time.perf_counter()) - started < seconds:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except pysqlite3.OperationalError:
                waits.append(time.perf_counter() - asked)
                continue
            waits.append(time.perf_counter() - asked)
            for statement in TRANSACTION:
                connection.execute(statement)
    return waits


def percentile_99(waits: list[float]) -> float:
    """Return the wait that 99 of 100 do not exceed; with few waits, the longest."""
    return sorted(waits)[int(len(waits) * 0.99)]


def measure(folder: Path, seconds: float) -> dict[str, dict[str, Any]]:
    """Let the processes compete under either kind of patience, alternately."""
    waits: dict[bool, list[list[float]]] = {False: [], True: []}
    spawn = get_context("spawn")
    for turn, jittered in product(range(ROUNDS), waits):
        path = folder / f"{jittered}-{turn}.db"
        with closing(pysqlite3.connect(path)) as connection:
            connection.executescript(SCHEMA)
        start_together = spawn.Barrier(WRITERS, timeout=60).wait
        with ProcessPoolExecutor(WRITERS, spawn, initializer=start_together) as pool:
            writers = [pool.submit(contend, path, seconds, jittered=jittered) for _ in range(WRITERS)]
            waits[jittered] += [writer.result() for writer in writers]
    low, high = (limit * 1e3 for limit in JITTER_SECONDS)
    return {
        f"busy handler, sleeps {low}-{high} ms" if jittered else f"busy_timeout {LIMIT_SECONDS * 1e3:.0f} ms": {
            "worst wait, ms": round(max(map(max, writers)) * 1e3),
            "p99 of the unluckiest writer, ms": round(max(map(percentile_99, writers)) * 1e3),
            "p99 of all, ms": round(percentile_99(list(chain.from_iterable(writers))) * 1e3, 2),
            "fewest transactions of a writer": min(map(len, writers)),
            "most": max(map(len, writers)),
            "all": sum(map(len, writers)),
        }
        for jittered, writers in waits.items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print a table, write the JSON."""
    options = parse(arguments, doc=__doc__, seconds=4, meaning="time of each of the four runs")
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), options.seconds)
    show(f"{WRITERS} writer processes", figures)
    keep({"fairness": figures}, options.json, pysqlite3=pysqlite3.sqlite_version)


if __name__ == "__main__":
    main()
