"""Restart API and workers again and again while clients export: no client notices, but for a longer wait."""

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from entrypoints.settings import Settings
from entrypoints.telemetry import LogEvent
from tests.soak.clients import Client, Ledger, connected
from tests.soak.place import WORKERS, prepared, up

TASK_COUNTS: Final = {"ann": 20, "ben": 2_000, "cleo": 10_000, "dora": 30_000}
CLIENTS_PER_OWNER: Final = 3


def main() -> int:
    """Restart as often as was asked for, tell what the clients were told, and count the faults."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.restarts", description="Rolling restarts under load.")
    parser.add_argument("--count", type=int, default=100, metavar="N", help="how many (default: 100)")
    stated = parser.parse_args()
    ledger = Ledger()
    with TemporaryDirectory(prefix="fencepost-restarts-") as folder:
        faults = asyncio.run(restart(Path(folder), count=stated.count, ledger=ledger))
    print(f"{stated.count} restarts of the API and {len(WORKERS)} workers; {ledger.loops} client loops")
    print(f"answers  {dict(ledger.answers)}\nends     {dict(ledger.ends)}")
    for fault in faults:
        print(f"FAULT {fault}")
    print(f"faults found: {len(faults)}")
    return 1 if faults else 0


async def restart(folder: Path, *, count: int, ledger: Ledger) -> list[str]:
    """Renew every child so many times while each owner exports in a loop; return each fault in words."""
    settings = Settings(database=str(folder / "fencepost.db"), port=0)
    tokens = await prepared(settings, TASK_COUNTS)
    enough = asyncio.Event()
    faults = ledger.faults
    async with up(settings, folder) as service:
        url = str(service.event(LogEvent.SERVICE_READY)["url"])

        async def export(owner: str, token: str, number: int) -> None:
            async with connected(url, token) as http:
                client = Client(http, owner, ledger=ledger, chance=Random(f"{owner} {number}"))
                while not enough.is_set():
                    await client.export({})

        async with asyncio.TaskGroup() as group:
            for owner, token in tokens.items():
                for number in range(CLIENTS_PER_OWNER):
                    group.create_task(export(owner, token, number))
            try:
                for number in range(1, count + 1):
                    service.signal(signal.SIGHUP)
                    await asyncio.to_thread(service.event, LogEvent.API_READY, count=number + 1)
                    started = number * len(WORKERS) + len(WORKERS)
                    await asyncio.to_thread(service.event, LogEvent.WORKER_STARTED, count=started)
            finally:
                enough.set()
        faults += [f"a child died: {event}" for event in service.events(LogEvent.CHILD_EXITED)]
        faults += [f"a child was killed: {event}" for event in service.events(LogEvent.CHILD_KILLED)]
    if ledger.refused_connections:
        faults.append(f"{ledger.refused_connections} connections were refused")
    for end in ledger.ends.keys() - {"succeeded"}:
        faults.append(f"{ledger.ends[end]} exports ended with {end}")
    if not ledger.loops:
        faults.append("no client was done with an export: this run proves nothing")
    return faults


if __name__ == "__main__":
    sys.exit(main())
