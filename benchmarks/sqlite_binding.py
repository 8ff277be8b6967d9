"""Ways to reach SQLite from asyncio, side by side in one run: their speed, and what a cancelled transaction leaves.

Figures are medians over interleaved rounds. A ratio compares with the blocking driver inside the same round and is what
is worth quoting.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, closing
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import keep, parse, show
from benchmarks.sqlite_alternatives import ALTERNATIVES, CANCELLED, FLOOR, LIBRARIES, Access, Alternative, connect, fill

ROWS, ROUNDS = 100_000, 5
MARK = -1  # The job of the cancelled transaction; the timed ones count from 0, in databases of their own.
TICK_SECONDS, GRACE_SECONDS = 0.001, 0.3


async def microseconds(operation: Callable[[int], Awaitable[object]], seconds: float, callers: int = 1) -> float:
    """Return the wall time per operation while so many callers each ask again as soon as they are answered."""
    numbers, started = count(), time.perf_counter()

    async def ask() -> None:
        while time.perf_counter() - started < seconds:
            await operation(next(numbers) % ROWS)

    await asyncio.gather(*(ask() for _ in range(callers)))
    return (time.perf_counter() - started) / next(numbers) * 1e6


async def stream(access: Access) -> tuple[float, float]:
    """Return microseconds a row, to a consumer on the loop, and the worst lateness of a 1 ms timer meanwhile, in ms."""
    lateness: list[float] = []

    async def tick() -> None:
        while True:
            due = time.perf_counter() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            lateness.append(time.perf_counter() - due)

    ticker = asyncio.create_task(tick())
    await asyncio.sleep(0)
    started, size = time.perf_counter(), 0
    async for batch in access.batches():
        size += sum(len(str(row[2])) for row in batch)
        await asyncio.sleep(0)
    elapsed = time.perf_counter() - started
    await asyncio.sleep(2 * TICK_SECONDS)
    ticker.cancel()
    return elapsed / ROWS * 1e6, max(lateness) * 1e3


async def time_cases(folder: Path, seconds: float) -> dict[str, dict[str, list[float]]]:
    """Return one figure a round by case and alternative; who comes first moves on by one every round."""
    figures: dict[str, dict[str, list[float]]] = {}
    share = seconds / ROUNDS / len(ALTERNATIVES)
    async with AsyncExitStack() as stack:
        opened: list[tuple[str, Access]] = []
        for name, alternative in ALTERNATIVES.items():
            path = folder / f"timed {name}.db"
            fill(path, alternative.library, ROWS)
            opened.append((name, await stack.enter_async_context(alternative.open(path))))
        for turn in range(ROUNDS):
            for name, access in opened[turn:] + opened[:turn]:
                row, late = await stream(access)
                for case, figure in {
                    "point SELECT, µs": await microseconds(access.select, share),
                    "write transaction, µs": await microseconds(access.transact, share),
                    "the same, 4 callers, µs": await microseconds(access.transact, share, callers=4),
                    f"{ROWS:,} rows, µs a row": row,
                    "loop late meanwhile, ms": late,
                }.items():
                    figures.setdefault(case, {}).setdefault(name, []).append(figure)
    return figures


def summarise(rounds: dict[str, list[float]]) -> dict[str, dict[str, Any]]:
    """Reduce rounds to their median and extremes, and to the median of their ratios to the floor."""
    return {
        name: {
            "median": median(figures),
            "spread": [min(figures), max(figures)],
            "ratio": median(figure / floor for figure, floor in zip(figures, rounds[FLOOR], strict=True)),
        }
        for name, figures in rounds.items()
    }


async def cancel(alternative: Alternative, path: Path) -> dict[str, Any]:
    """Cancel a transaction that waits in BEGIN IMMEDIATE, free the lock a little later, and see who ends up with it."""
    fill(path, alternative.library, rows=0)
    async with alternative.open(path) as access:
        with closing(connect(path, alternative.library, timeout=0)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            started = time.perf_counter()
            waiting = asyncio.ensure_future(access.transact(MARK))
            await asyncio.sleep(10 * TICK_SECONDS)
            cancelled = time.perf_counter()
            waiting.cancel()
            answered: list[float] = []
            waiting.add_done_callback(lambda _: answered.append(time.perf_counter()))
            await asyncio.wait({waiting}, timeout=GRACE_SECONDS)
            holder.execute("ROLLBACK")
            [outcome] = await asyncio.gather(waiting, return_exceptions=True)
            await asyncio.sleep(GRACE_SECONDS)
            [written] = holder.execute("SELECT count(*) FROM export_events WHERE job_id = ?", (MARK,)).fetchone()
            try:
                holder.execute("BEGIN IMMEDIATE")
                lock = "free"
            except LIBRARIES[alternative.library].OperationalError:
                lock = "stranded"
    return {
        "loop stood still, ms": round((cancelled - started) * 1e3),
        "caller answered after, ms": round((answered[0] - cancelled) * 1e3),
        "with": type(outcome).__name__,
        "write lock": lock,
        "transaction": "committed" if written else "not applied",
    }


async def measure(folder: Path, seconds: float) -> dict[str, Any]:
    """Run the timed cases, then the cancellations."""
    timings = {case: summarise(rounds) for case, rounds in (await time_cases(folder, seconds)).items()}
    cancellation = {
        name: await cancel(alternative, folder / f"cancelled {name}.db") for name, alternative in CANCELLED.items()
    }
    return {"timings": timings, "cancellation": cancellation}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the tables, write the JSON."""
    options = parse(arguments, doc=__doc__, seconds=5, meaning="time of a case, over all alternatives and rounds")
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(Path(folder), options.seconds))
    cells: dict[str, dict[str, str]] = {name: {} for name in ALTERNATIVES}
    for case, alternatives in figures["timings"].items():
        for name, of in alternatives.items():
            low, high = of["spread"]
            cells[name][case] = f"{of['median']:.3g} ({low:.3g} to {high:.3g}), {of['ratio']:.2f}"
    show(f"Median (lowest to highest round), ratio to {FLOOR!r}", cells)
    show("A cancelled transaction", figures["cancellation"])
    keep(figures, options.json, **{library: module.sqlite_version for library, module in LIBRARIES.items()})


if __name__ == "__main__":
    main()
