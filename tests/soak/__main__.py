"""The service under mixed failures for as long as one likes, judged from outside when it has healed.

    python -m tests.soak --duration 300 --seed 7

A seed repeats who wants what and what is done to the service. When exactly that meets, no seed repeats.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from domain.errors import EnvironmentFailure
from domain.export import ErrorCode
from domain.use_cases.accounts import disable_user, enable_user
from entrypoints.bootstrap import Application, assemble
from entrypoints.settings import Settings
from entrypoints.telemetry import LogEvent
from tests.processes import NotInTimeError, Running, eventually_so
from tests.soak.clients import Client, Ledger, connected
from tests.soak.judge import judge, left, lines_astray
from tests.soak.place import WORKERS, prepared, up

# From here on a run must have met what it is for; less may not have had the time.
LONG_SECONDS: Final = 120
GREEDY, DISABLED = "owner-1", "owner-2"
MOST_ROWS: Final = 40_000
# Two have more tasks than a file may have rows, two as many as it may: a second of work, so that it is met under way.
TASK_COUNTS: Final = {
    f"owner-{number}": MOST_ROWS + 1 if number in {5, 6} else MOST_ROWS if number in {7, 8} else 150 * number
    for number in range(1, 21)
}
GREEDY_CLIENTS: Final = 12
HEALED_WITHIN_SECONDS: Final = 90
LEASE_SECONDS: Final = 2
# These say that something is wrong in the service, whatever the clients were answered.
DEFECTS: Final = (
    LogEvent.RESULT_DAMAGED,
    LogEvent.OWNERSHIP_VIOLATED,
    LogEvent.CHILD_GIVEN_UP,
    LogEvent.WORKER_STUCK,
)


def main() -> int:
    """Soak for as long as was asked for, tell what happened, and count the faults."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="Mixed failures, judged from outside.")
    parser.add_argument("--duration", type=int, default=60, metavar="SECONDS", help="how long (default: 60)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="which mixture (default: 1)")
    stated = parser.parse_args()
    with TemporaryDirectory(prefix="fencepost-soak-") as folder:
        faults = asyncio.run(soak(Path(folder), seconds=stated.duration, seed=stated.seed))
    for fault in faults:
        print(f"FAULT {fault}")
    print(f"faults found: {len(faults)}")
    return 1 if faults else 0


async def soak(folder: Path, *, seconds: int, seed: int) -> list[str]:
    """Run service, clients and failures, let all of it end, and return each fault in words."""
    settings = Settings(
        database=str(folder / "fencepost.db"),
        port=0,
        lease_seconds=LEASE_SECONDS,
        longest_lease_seconds=2 * LEASE_SECONDS,
        write_wait_seconds=1,
        attempt_seconds=0.5,
        retry_floor_seconds=0.2,
        retry_cap_seconds=2,
        deadline_seconds=60,
        deadline_shortest_seconds=1,
        result_max_rows=MOST_ROWS,
        max_pending=20,
        active_per_owner=8,
        maintenance_seconds=0.5,
        maintenance_lease_seconds=LEASE_SECONDS,
        # Less than the longest attempts take, so that draining workers give some back.
        drain_seconds=0.1,
    )
    tokens = await prepared(settings, TASK_COUNTS)
    ledger = Ledger(may_be_disabled=DISABLED)
    async with assemble(settings) as app:
        async with up(settings, folder) as service:
            harm = Harm(service, app, seed=seed)
            await live(service, harm, tokens, ledger, seconds=seconds)
            try:
                await eventually_so(lambda: _is_over(settings.database_path), within=HEALED_WITHIN_SECONDS)
            except NotInTimeError:
                ledger.faults += [f"{count} {name} are left" for name, count in left(settings.database_path).items()]
        return [*ledger.faults, *await verdict(service, harm, app, ledger, seconds=seconds)]


async def live(service: Running, harm: "Harm", tokens: dict[str, str], ledger: Ledger, *, seconds: int) -> None:
    """Let everybody export while harm is done, until the time is over; then heal, and let each loop end."""
    url = str(service.event(LogEvent.SERVICE_READY)["url"])
    enough = asyncio.Event()

    async def use(owner: str, number: int) -> None:
        chance = Random(f"{harm.seed} {owner} {number}")
        async with connected(url, tokens[owner]) as http:
            client = Client(http, owner, ledger=ledger, chance=chance)
            while not enough.is_set():
                wanted = {"deadline_seconds": chance.choice((1, 2))} if chance.random() < 0.1 else {}
                cancel_after = chance.uniform(0, 1.5) if chance.random() < 0.15 else None
                await client.export(dict(wanted), cancel_after=cancel_after)

    async with asyncio.TaskGroup() as group:
        for owner in tokens:
            for number in range(GREEDY_CLIENTS if owner == GREEDY else 2):
                group.create_task(use(owner, number))
        try:
            await harm.go_on(seconds)
        finally:
            enough.set()


class Harm:
    """What is done to the service, and how often it was."""

    def __init__(self, service: Running, app: Application, *, seed: int) -> None:
        self.seed = seed
        self._service = service
        self._app = app
        self._chance = Random(seed)
        self.done: Counter[str] = Counter()
        self.lines_astray = 0

    async def go_on(self, seconds: float) -> None:
        """Do one thing after another until the time is over; whatever was stopped or disabled is not, afterwards."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        ways: dict[Callable[[], Awaitable[None]], int] = {
            self._kill_worker: 4,
            self._stop_worker: 4,
            self._kill_api: 1,
            self._renew: 2,
            self._disable: 1,
        }
        while (time_left := ends - loop.time()) > 0:
            await asyncio.sleep(min(time_left, self._chance.uniform(0.5, 3)))
            (way,) = self._chance.choices(list(ways), weights=list(ways.values()))
            await way()
            self.done[way.__name__.strip("_")] += 1
            self.lines_astray += lines_astray(self._app.settings.database_path)

    async def _kill_worker(self) -> None:
        self._signal(self._chance.choice(WORKERS), signal.SIGKILL)

    async def _kill_api(self) -> None:
        self._signal("api", signal.SIGKILL)

    async def _stop_worker(self) -> None:
        pid = self._signal(self._chance.choice(WORKERS), signal.SIGSTOP)
        try:
            await asyncio.sleep(LEASE_SECONDS * self._chance.uniform(0.5, 2))
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    async def _renew(self) -> None:
        self._service.signal(signal.SIGHUP)

    async def _disable(self) -> None:
        await self._write_user(disable_user)
        try:
            await asyncio.sleep(self._chance.uniform(0.5, 2))
        finally:
            await self._write_user(enable_user)

    async def _write_user(self, change: Callable[..., object]) -> None:
        while True:
            with suppress(EnvironmentFailure):
                await self._app.store.write(change, DISABLED)
                return

    def _signal(self, child: str, number: signal.Signals) -> int:
        pid = self._service.events(LogEvent.CHILD_STARTED, child=child)[-1]["pid"]
        assert isinstance(pid, int)
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        return pid


async def _is_over(database: Path) -> bool:
    return not left(database)


async def verdict(service: Running, harm: Harm, app: Application, ledger: Ledger, *, seconds: int) -> list[str]:
    """Tell what happened; return what is wrong with it, and what makes a long run worthless."""
    paths = ledger.paths
    faults = await judge(app, ledger)
    status = service.ended()
    if status:
        faults.append(f"the service ended with status {status} when it was told to stop")
    faults += [f"in the log: {event}" for name in DEFECTS for event in service.events(name)]
    # A stopped worker may hold the write lock: that is a warning, answered with 503. A defect is an error.
    faults += [f"in the log: {event}" for event in service.events(LogEvent.REQUEST_FAILED, level="error")]
    faults += [
        f"in the log: {event}" for event in service.events(LogEvent.ATTEMPT_FAILED, code=ErrorCode.INTERNAL_ERROR)
    ]
    faults += [f"in the log: {event}" for event in service.events(LogEvent.CHILD_EXITED) if "exit_status" in event]
    if ledger.refused_connections:
        faults.append(f"{ledger.refused_connections} connections were refused")
    if harm.lines_astray or lines_astray(app.settings.database_path):
        faults.append("what waits and runs for an owner is not what is counted")
    paths["attempts that their worker gave up as lost"] = len(service.events(LogEvent.ATTEMPT_LOST))
    paths["attempts given back by a draining worker"] = len(service.events(LogEvent.ATTEMPT_RELEASED))
    paths["requests turned away"] = ledger.answers["429"] + ledger.answers["503"]
    children = len(service.events(LogEvent.CHILD_STARTED)) - 1 - len(WORKERS)
    renewals = len(service.events(LogEvent.SERVICE_RENEWING))
    print(f"{sum(ledger.answers.values())} requests, {ledger.loops} client loops, {len(ledger.keys)} keys")
    print(f"answers  {dict(sorted(ledger.answers.items()))}\nends     {dict(sorted(ledger.ends.items()))}")
    print(f"done     {dict(sorted(harm.done.items()))}, {children} children started again, {renewals} rolling restarts")
    for path, count in sorted(paths.items()):
        print(f"{count:8} {path}")
    if seconds >= LONG_SECONDS:
        rare = (
            "attempts lost to a dead or stopped worker",
            "attempts that their worker gave up as lost",
            "running exports cancelled",
            "requests turned away",
        )
        faults += [f"this run proves little: no {path}" for path in rare if not paths[path]]
    return faults


if __name__ == "__main__":
    sys.exit(main())
