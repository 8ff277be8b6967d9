"""Holds the committed contract against a running service: `python -m tests.contract.fuzz --duration 60 --seed 1`.

The service runs as real processes on a database of its own, with two owners. The fuzzer works in rounds, each with a
seed that follows from the given one, until the time is used up. Whatever it reports is a fault, and so is anything that
would make its silence worthless: an operation that never succeeded, too many requests turned away, a defect in the
service's log, a process that died. The last line counts the faults, and the status is 0 only for none.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from adapters.system.clock import SystemClock
from domain.account import Scope, TokenId, token_from
from domain.errors import OwnerDisabled
from domain.export import ErrorCode, JobId, LeaseToken
from domain.parameters import ExportParameters
from domain.policies import Policies, classify
from domain.ports import UnitOfWork
from domain.task import NewTask, TaskId
from domain.use_cases.accounts import add_user, disable_user, issue_token
from domain.use_cases.exports import ExportRequest, enqueue_export
from domain.use_cases.tasks import create_task
from domain.use_cases.work import claim_export, fail_export, holder_of
from entrypoints.bootstrap import assemble, migrate_database
from entrypoints.http.contract import OPERATIONS
from entrypoints.settings import Settings
from entrypoints.telemetry import LogEvent
from tests.processes import Running, fencepost, free_port
from tests.tree import ROOT

CONTRACT = ROOT / "contracts" / "openapi.json"
CONFIGURATION = ROOT / "contracts" / "schemathesis.toml"
OWNERS = ("ann", "ben")
SAMPLE_TASKS = 20
# Dead letters to requeue, of an owner who is disabled: they fail again, for a reason that is told apart from a defect.
DISABLED = "carl"
DEAD_LETTERS = 20
MOST_TURNED_AWAY = 0.2
# Phases by round, and each round's share of the time. What leads from one operation to another comes first, since every
# operation must succeed at least once; the deterministic inputs once; then everything that chance can find.
ROUNDS = (
    ("examples,stateful", 0.35),
    ("coverage,fuzzing", 0.45),
    ("fuzzing,stateful", 0.2),
)
MOST_EXAMPLES = 30
# On a machine with much else to do some operations may not have succeeded when the time is over: they get more.
MOST_EXTRA_ROUNDS = 4
EXTRA_ROUND_SECONDS = 20
# Less is not worth starting the fuzzer for; more than this beyond its time and it hangs.
SHORTEST_ROUND_SECONDS = 8
GRACE_SECONDS = 90
# A file system in memory, where there is one: what is fuzzed is the contract, not the disk.
FAST_FOLDER = Path("/dev/shm")  # noqa: S108 - a folder is made in it that is nobody else's
# These say that something is wrong in the service, whatever the client was answered.
DEFECTS = (
    LogEvent.REQUEST_FAILED,
    LogEvent.RESULT_DAMAGED,
    LogEvent.IMPORT_LEFT_BEHIND,
    LogEvent.OWNERSHIP_VIOLATED,
    LogEvent.ATTEMPT_FAILED,
    LogEvent.CHILD_EXITED,
)


def main() -> int:
    """Fuzz for as long as was asked for, tell what was done, and count the faults."""
    parser = argparse.ArgumentParser(prog="python -m tests.contract.fuzz", description="Fuzz the committed contract.")
    parser.add_argument("--duration", type=int, default=60, metavar="SECONDS", help="how long (default: 60)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="which inputs (default: 1)")
    stated = parser.parse_args()
    with TemporaryDirectory(prefix="fencepost-fuzz-", dir=FAST_FOLDER if FAST_FOLDER.is_dir() else None) as folder:
        faults = list(fuzz(Path(folder), seconds=stated.duration, seed=stated.seed))
    for fault in faults:
        print(f"FAULT {fault}")
    print(f"faults found: {len(faults)}")
    return 1 if faults else 0


def fuzz(folder: Path, *, seconds: int, seed: int) -> Iterator[str]:
    """Run the service and the fuzzer, and yield each fault in words."""
    settings = Settings(
        database=str(folder / "fencepost.db"),
        port=free_port(),
        # An idle worker leaves an export queued for a moment, so that some can be cancelled.
        worker_poll_seconds=1,
    )
    identities = folder / "identities.json"
    identities.write_text(json.dumps(asyncio.run(prepared(settings))), encoding="utf-8")
    with fencepost("up", "--workers", "1", settings=settings, directory=folder) as service:
        yield from rounds(service, folder, identities, seconds=seconds, seed=seed)
        service.signal(signal.SIGTERM)
        if status := service.ended():
            yield f"the service ended with status {status} when it was told to stop"
        yield from verdict(service)


async def prepared(settings: Settings) -> dict[str, object]:
    """Make a database with the owners and some tasks of each; return their credentials as the fuzzer reads them."""
    migrate_database(settings)
    async with assemble(settings) as application:
        credentials = []
        for name in OWNERS:
            token = token_from(application.randomness.new_secret())
            ids = [application.randomness.new_id() for _ in range(SAMPLE_TASKS + 1)]
            await application.store.write(set_up, name, token=token, ids=ids)
            header = {"name": "Authorization", "value": f"Bearer {token}"}
            credentials.append({"name": name, "fixedHeaders": [header]})
        ids = [application.randomness.new_id() for _ in range(DEAD_LETTERS)]
        await application.store.write(bury, ids, policies=application.policies)
        return {"auth": credentials}


def set_up(uow: UnitOfWork, name: str, *, token: str, ids: list[str]) -> None:
    """Add an owner with a token for everything, and some tasks."""
    owner = add_user(uow, name)
    issue_token(uow, name, token_id=TokenId(ids[0]), token=token, scopes=frozenset(Scope))
    for number, task_id in enumerate(ids[1:]):
        create_task(uow, owner.id, NewTask(title=f"Sample {number}"), task_id=TaskId(task_id))


def bury(uow: UnitOfWork, ids: list[str], *, policies: Policies) -> None:
    """Add an owner who is disabled, and exports of theirs that failed for that reason."""
    owner = add_user(uow, DISABLED)
    for job_id in ids:
        request = ExportRequest(
            owner_id=owner.id, request_key=job_id, parameters=ExportParameters(), job_id=JobId(job_id)
        )
        enqueue_export(uow, request, policies=policies)
        job = claim_export(uow, worker_id="prepared", lease_token=LeaseToken(job_id), lease=policies.lease)
        assert job is not None
        failure = classify(OwnerDisabled("the owner is disabled"))
        fail_export(uow, holder_of(job), failure, jitter=0, policies=policies)
    disable_user(uow, DISABLED)


def rounds(service: Running, folder: Path, identities: Path, *, seconds: int, seed: int) -> Iterator[str]:
    """Run the fuzzer until the time is used up, and yield what it found."""
    url = str(service.event(LogEvent.SERVICE_READY)["url"])
    clock = SystemClock()
    ends = clock.monotonic() + seconds
    number = extra = 0
    while number == 0 or ends - clock.monotonic() >= SHORTEST_ROUND_SECONDS or unreached(answers_of(service)):
        phases, share = ROUNDS[min(number, len(ROUNDS) - 1)]
        left = round(min(seconds * share, ends - clock.monotonic()))
        if left < SHORTEST_ROUND_SECONDS and number:
            extra += 1
            left = EXTRA_ROUND_SECONDS
            if extra > MOST_EXTRA_ROUNDS:
                return
        left = max(left, SHORTEST_ROUND_SECONDS)
        report = folder / f"report-{number}.json"
        options = ("--phases", phases, "--max-examples", str(MOST_EXAMPLES), "--seed", str(seed * 10_000 + number))
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIGURATION), "run", str(CONTRACT)),
            *("--url", url, "--no-color", "--continue-on-failure", "--generation-database", "none"),
            *("--report-json-path", str(report), "--max-time", str(left), *options),
        ]
        finished = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "FENCEPOST_FUZZ_IDENTITIES": str(identities)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=left + GRACE_SECONDS,
        )
        yield from findings(finished, report, described=" ".join(options))
        if not report.exists():
            return
        number += 1


def findings(finished: "subprocess.CompletedProcess[str]", report: Path, *, described: str) -> Iterator[str]:
    """Tell how a round went, and yield its findings; the fuzzer's own words are printed where there are some."""
    if not report.exists():
        print(finished.stdout)
        yield f"the fuzzer ended with status {finished.returncode} and wrote no report"
        return
    told = json.loads(report.read_text(encoding="utf-8"))
    failures, errors = told["failures"], told["errors"]
    cases = told["test_cases"]["generated"]
    print(f"round {described}: {cases} cases, {len(failures)} failures, {len(errors)} errors")
    if failures or errors or finished.returncode:
        print(finished.stdout)
    yield from (f"{failure.get('title', 'failure')} ({described})" for failure in failures)
    yield from (f"{error.get('title', 'error')} ({described})" for error in errors)
    if finished.returncode and not failures and not errors:
        yield f"the fuzzer ended with status {finished.returncode} ({described})"


Answers = dict[tuple[str, str], Counter[int]]


def answers_of(service: Running) -> Answers:
    """Return from the service's log how often each operation answered what, by method and path."""
    answers: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    for event in service.events(LogEvent.REQUEST_FINISHED):
        answers[str(event["method"]), str(event["route"])][int(str(event["status"]))] += 1
    return answers


def unreached(answers: Answers) -> list[str]:
    """Return the operations that never succeeded."""
    return [
        operation.id
        for operation in OPERATIONS
        if not any(200 <= status < 300 for status in answers.get((operation.method, operation.path), ()))
    ]


def verdict(service: Running) -> Iterator[str]:
    """Tell what was done, and yield what makes it worthless, and every defect that the service tells of."""
    answers = answers_of(service)
    for operation in OPERATIONS:
        statuses = answers.get((operation.method, operation.path), Counter())
        shown = "  ".join(f"{status}: {count}" for status, count in sorted(statuses.items()))
        print(f"{operation.id:20} {statuses.total():6}   {shown}")
    yield from (f"{name} never succeeded" for name in unreached(answers))
    everything = sum(answers.values(), Counter[int]())
    turned_away = (everything[429] + everything[503]) / max(everything.total(), 1)
    print(f"{everything.total()} requests, {turned_away:.1%} of them turned away (429, 503)")
    if turned_away > MOST_TURNED_AWAY:
        yield f"{turned_away:.0%} of the requests were turned away: this run proves little"
    for name in DEFECTS:
        for event in service.events(name):
            if event.get("code") == ErrorCode.OWNER_DISABLED:
                continue
            yield f"in the service's log: {json.dumps(event)}"


if __name__ == "__main__":
    sys.exit(main())
