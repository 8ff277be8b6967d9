"""How long a result holds SQLite's write lock: in one row, against chunks of 1 MiB in a transaction each.

Both ways use the shipped schema, statement and driver. Meanwhile another process creates tasks as the API does, one
durable transaction after another, and notes how long it had to wait for the lock.
"""

import argparse
import os
import random
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from statistics import median

from adapters.sqlite import driver, migrate, results, tasks
from benchmarks.report import keep, show

MEBIBYTE = 1 << 20
ROUNDS = 5
JITTER_SECONDS = 0.0005, 0.003
WAYS = {"one row": None, "1 MiB chunks": MEBIBYTE}


def begin(connection: driver.Connection) -> float:
    """Take the write lock as the store does, by short sleeps of random length; return how long it took, in seconds."""
    asked = time.perf_counter()
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except driver.Error as error:
            if not driver.is_busy(error):
                raise
            time.sleep(random.uniform(*JITTER_SECONDS))
        else:
            return time.perf_counter() - asked


def create_tasks(path: Path, done: Path) -> list[float]:
    """Create tasks until the file `done` is there; return how long each transaction waited for the lock, in seconds."""
    waits: list[float] = []
    with closing(driver.connect(path)) as connection:
        for number in count():
            if done.exists():
                return waits
            task = {"id": f"{number:036}", "owner_id": 1, "title": "t", "description": "", "status": "open"}
            task |= {"priority": 3, "due_at": None, "created_at": 0, "updated_at": 0, "version": 1, "import_id": None}
            waits.append(begin(connection))
            connection.execute(tasks.SQL["add_task"], task)
            connection.execute("COMMIT")
    return waits


def stage(path: Path, payload: bytes, chunk_bytes: int | None) -> tuple[list[float], float]:
    """Store the payload; return how long each transaction held the lock, and how long all took, in seconds."""
    held: list[float] = []
    size = chunk_bytes or len(payload)
    with closing(driver.connect(path)) as connection:
        started = time.perf_counter()
        for seq, offset in enumerate(range(0, len(payload), size)):
            piece = payload[offset : offset + size]
            row = {"job_id": "0" * 36, "attempt": 1, "seq": seq, "byte_offset": offset, "byte_count": len(piece)}
            row |= {"row_count": 1, "sha256": "0" * 64, "payload": piece}
            begin(connection)
            locked = time.perf_counter()
            connection.execute(results.SQL["stage_chunk"], row)
            connection.execute("COMMIT")
            held.append(time.perf_counter() - locked)
        return held, time.perf_counter() - started


def run(path: Path, payload: bytes, chunk_bytes: int | None) -> dict[str, float]:
    """Store the payload once while another process creates tasks; return one figure a column."""
    migrate.migrate(path)
    with closing(driver.connect(path)) as connection:
        connection.execute("INSERT INTO users (id, name, created_at) VALUES (1, 'ann', 0)")
    done = path.with_suffix(".done")
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        pool.submit(os.getpid).result()  # started, so that its imports are not part of the figures
        waiting = pool.submit(create_tasks, path, done)
        time.sleep(0.2)
        held, took = stage(path, payload, chunk_bytes)
        wal = path.with_name(path.name + "-wal").stat().st_size
        done.touch()
        waits = waiting.result()
    return {
        "longest hold of the lock, ms": max(held) * 1e3,
        "longest wait of a task request, ms": max(waits) * 1e3,
        "to store the result, ms": took * 1e3,
        "WAL afterwards, MiB": wal / MEBIBYTE,
    }


def measure(folder: Path, payload: bytes) -> dict[str, dict[str, list[float]]]:
    """Let the ways take turns; return one figure a round, by way and column."""
    figures: dict[str, dict[str, list[float]]] = {way: {} for way in WAYS}
    for turn in range(ROUNDS):
        for way, chunk_bytes in WAYS.items():
            path = folder / f"{way.replace(' ', '-')}-{turn}.db"
            for column, figure in run(path, payload, chunk_bytes).items():
                figures[way].setdefault(column, []).append(figure)
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table and the ratios, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mebibytes", type=int, default=64, help="size of the result (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write the figures to this file")
    options = parser.parse_args(arguments)
    payload = random.Random(1).randbytes(options.mebibytes * MEBIBYTE)
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), payload)
    whole, chunked = figures.values()
    rows = {
        way: {column: f"{median(of):.3g} ({min(of):.3g} to {max(of):.3g})" for column, of in columns.items()}
        for way, columns in figures.items()
    }
    rows["ratio within a round"] = {
        column: f"{median(one / other for one, other in zip(whole[column], chunked[column], strict=True)):.2g}"
        for column in whole
    }
    show(f"A result of {options.mebibytes} MiB, median (lowest to highest of {ROUNDS} rounds)", rows)
    keep({"result_chunks": figures}, options.json, sqlite=".".join(map(str, driver.VERSION)))


if __name__ == "__main__":
    main()
