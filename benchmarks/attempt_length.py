"""How long an attempt takes: what the lease has to be longer than, and how many tasks fit the expected length of one.

The shipped worker processes exports on the shipped store in a database of its own. Two shapes of task are measured: one
of few bytes, which comes to the row limit first, and one of about the size at which both limits are met together.
"""

import argparse
import asyncio
import logging
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import structlog

from benchmarks.report import keep, show
from domain.account import OwnerId
from domain.export import JobId
from domain.parameters import ExportParameters
from domain.ports import Bulkhead
from domain.task import NewTask, TaskId
from domain.use_cases.accounts import add_user
from domain.use_cases.exports import ExportRequest, enqueue_export, get_export
from domain.use_cases.imports import begin_import, publish_import, store_batch
from entrypoints.bootstrap import Application, assemble, migrate_database
from entrypoints.settings import Settings
from entrypoints.worker import Worker

ROUNDS, BATCH = 3, 1000
SENTENCE = 'Somebody wrote "this", and somebody else answered; then it was put aside until Monday. '
DESCRIPTIONS = {"few bytes": "", "many bytes": SENTENCE * 5}


async def make_tasks(app: Application, owner: OwnerId, rows: int, description: str) -> None:
    """Store tasks as an import does."""
    number = await app.store.write(begin_import, owner)
    for start in range(0, rows, BATCH):
        batch = [
            (
                TaskId(app.randomness.new_id()),
                NewTask(title=f"Task {row}", description=description, due_at=app.clock.now()),
            )
            for row in range(start, min(rows, start + BATCH))
        ]
        await app.store.write(store_batch, owner, number, batch)
    await app.store.write(publish_import, owner, number, keyed=None)


async def measure(folder: Path, rows: int) -> dict[str, dict[str, list[float]]]:
    """Process exports of each shape in turn; return seconds and bytes, one figure a round."""
    settings = Settings(database=str(folder / "attempt_length.db"))
    migrate_database(settings)
    figures: dict[str, dict[str, list[float]]] = {shape: {"seconds": [], "bytes": []} for shape in DESCRIPTIONS}
    async with assemble(settings) as app:
        worker = Worker(app, worker_id="benchmark", stopping=asyncio.Event())
        owners = {shape: (await app.store.write(add_user, shape)).id for shape in DESCRIPTIONS}
        for shape, owner in owners.items():
            await make_tasks(app, owner, rows, DESCRIPTIONS[shape])
        for turn in range(ROUNDS):
            for shape, owner in owners.items():
                job_id = JobId(app.randomness.new_id())
                request = ExportRequest(
                    owner_id=owner, request_key=f"round {turn}", parameters=ExportParameters(), job_id=job_id
                )
                await app.store.write(enqueue_export, request, policies=app.policies)
                started = time.perf_counter()
                await worker.process_next()
                figures[shape]["seconds"].append(time.perf_counter() - started)
                view = await app.store.read(Bulkhead.EXPORTS, get_export, owner, job_id)
                if view.result is None:
                    raise SystemExit(f"the export of {shape} ended as {view.job.status}")
                figures[shape]["bytes"].append(view.result.byte_count)
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000, help="tasks of each export (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write the figures to this file")
    options = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(Path(folder), options.rows))
    settings = Settings()
    rows = {}
    for shape, of in figures.items():
        seconds, size = median(of["seconds"]), of["bytes"][0]
        times = min(settings.result_max_rows / options.rows, settings.result_max_bytes / size)
        rows[shape] = {
            "bytes a row": round(size / options.rows),
            "rows a second": f"{options.rows / seconds:,.0f}",
            "MB a second": f"{size / seconds / 1e6:.1f}",
            "at the limit": f"{options.rows * times:,.0f} rows, {size * times / 1e6:,.0f} MB",
            "would take, s": f"{seconds * times:.0f}",
            "of the lease": f"{seconds * times / settings.lease_seconds:.0%}",
            f"in {settings.attempt_seconds:g} s": f"{settings.attempt_seconds * options.rows / seconds:,.0f} rows",
        }
    show(f"Exports of {options.rows:,} tasks, median of {ROUNDS} rounds, lease {settings.lease_seconds:g} s", rows)
    keep({"attempt_length": figures}, options.json)


if __name__ == "__main__":
    main()
