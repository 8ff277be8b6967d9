"""What the database says when all is over, held against what the clients were told."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Final

from adapters.sqlite import driver
from domain.export import ExportJob, ExportResult, HistoryEntry, JobId, JobStatus
from domain.ports import Bulkhead, UnitOfWork
from domain.use_cases.accounts import named_user
from domain.use_cases.exports import read_chunk
from entrypoints.bootstrap import Application
from tests.soak.clients import Ledger

# Each counts what there must be none of: the first once and for all, the others when nothing runs.
_ASTRAY: Final = """
    SELECT count(*) FROM users LEFT JOIN owner_lines ON owner_user_id = users.id
    WHERE coalesce(waiting_count, 0) != (
        SELECT count(*) FROM export_jobs WHERE export_jobs.owner_user_id = users.id AND in_line = 1
    ) OR coalesce(running_count, 0) != (
        SELECT count(*) FROM export_jobs WHERE export_jobs.owner_user_id = users.id AND status = 'running'
    )
"""
_LEFT: Final = {
    "exports that have not ended": "SELECT count(*) FROM export_jobs WHERE finished_at IS NULL",
    "unpublished attempts": "SELECT count(*) FROM unpublished_attempts",
    "orphan chunks": """
        SELECT count(*) FROM export_result_chunks AS chunk WHERE NOT EXISTS (
            SELECT 1 FROM export_results AS result
            WHERE result.job_id = chunk.job_id AND result.attempt = chunk.attempt AND gone_at IS NULL
        )
    """,
    "results of jobs that did not succeed": """
        SELECT count(*) FROM export_results JOIN export_jobs ON id = job_id WHERE status != 'succeeded'
    """,
}


def lines_astray(path: Path) -> int:
    """Return how many owners' counts of waiting and running jobs are not those of their jobs, in one snapshot."""
    with closing(driver.connect(path, read_only=True)) as connection:
        return int(connection.execute(_ASTRAY).fetchone()[0])


def left(path: Path) -> dict[str, int]:
    """Return what is there and must not be once nothing runs any more; an empty answer is a good one."""
    with closing(driver.connect(path, read_only=True)) as connection:
        counts = {name: int(connection.execute(query).fetchone()[0]) for name, query in _LEFT.items()}
    return {name: count for name, count in counts.items() if count}


async def judge(app: Application, ledger: Ledger) -> list[str]:
    """Return each fault in words, and count in the ledger which rare ways the exports went."""
    faults = []
    for (owner, key), ids in ledger.accepted.items():
        if len(ids) > 1:
            faults.append(f"{owner}'s key {key} made several exports: {ids}")
    known = {job_id for ids in ledger.accepted.values() for job_id in ids}
    for owner, key in sorted(ledger.keys):
        job, history, result = await app.store.read(Bulkhead.EXPORTS, _look, owner, key)
        ids = ledger.accepted[owner, key]
        if job is None:
            faults.extend(f"{owner}'s export {job_id} was accepted and is not there" for job_id in ids)
            continue
        if ids and job.id not in ids:
            faults.append(f"{owner}'s key {key} leads to {job.id}, and its owner was told {ids}")
        ledger.paths["accepted, and the answer never arrived"] += job.id not in known
        faults += [f"{job.id}: {fault}" for fault in _history_faults(job, history, result, ledger.paths)]
        if result is not None:
            faults += [f"{job.id}: {fault}" for fault in await _file_faults(app, result, ledger)]
    return faults


def _look(uow: UnitOfWork, owner: str, key: str) -> tuple[ExportJob | None, list[HistoryEntry], ExportResult | None]:
    job = uow.exports.find_by_key(named_user(uow, owner).id, key)
    if job is None:
        return None, [], None
    return job, uow.exports.history(job.id), uow.results.find(job.id)


def _history_faults(
    job: ExportJob, history: list[HistoryEntry], result: ExportResult | None, paths: Counter[str]
) -> Iterator[str]:
    if not job.status.is_terminal:
        yield f"has not ended: {job.status}"
    if (job.status is JobStatus.SUCCEEDED) != (result is not None):
        yield f"{job.status}, and its result is {result}"
    if [entry.version for entry in history] != list(range(1, job.version + 1)):
        yield f"version {job.version}, and the history is of {[entry.version for entry in history]}"
    if history[-1].status is not job.status:
        yield f"{job.status}, and the history ends with {history[-1].status}"
    if sum(entry.event == "complete" for entry in history) != (result is not None):
        yield "not as many completions as results"
    if sum(entry.event == "claim" for entry in history) != job.attempt_count:
        yield f"{job.attempt_count} attempts, and not as many claims"
    for before, after in pairwise(history):
        if after.attempt != before.attempt + (after.event == "claim"):
            yield f"{after.event} leads from attempt {before.attempt} to {after.attempt}"
        was_running = before.status is JobStatus.RUNNING
        paths["attempts lost to a dead or stopped worker"] += was_running and after.event in {"claim", "expire"}
        paths["running exports cancelled"] += was_running and after.event == "cancel"


async def _file_faults(app: Application, result: ExportResult, ledger: Ledger) -> Iterator[str]:
    digest = sha256()
    for seq in range(result.chunk_count):
        digest.update((await app.store.read(Bulkhead.DOWNLOADS, read_chunk, result, seq)).text())
    downloaded = ledger.downloaded.get(JobId(result.job_id), result.sha256)
    return (
        f"{what} has digest {found}, and the result {result.sha256}"
        for what, found in (("what is stored", digest.hexdigest()), ("what was downloaded", downloaded))
        if found != result.sha256
    )
