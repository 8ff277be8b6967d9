"""What the limits cost: the request rate in each authenticated request, and admission under the write lock.

Both as they are shipped. A request goes through the whole application, without a socket, with the shipped rate and with
one that grants everything and remembers nothing; the two take turns. Admission is asked on the shipped store, over
queues of different length and histories of different size.
"""

import asyncio
import logging
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, cast

import structlog

from benchmarks.report import keep, parse, show
from domain.account import OwnerId, Scope, TokenId
from domain.events import Claim, Enqueue, Fail
from domain.export import Failure, FailureKind, JobId, LeaseToken
from domain.instants import later
from domain.lifecycle import advance, enqueue
from domain.policies import Policies
from domain.ports import UnitOfWork
from domain.rate import Allowance
from domain.use_cases.accounts import add_user, issue_token
from domain.use_cases.admission import require_quota, require_room
from entrypoints.bootstrap import Application, assemble, migrate_database
from entrypoints.http import app as http
from entrypoints.http.edge import Edge
from entrypoints.http.rates import RequestRates
from entrypoints.settings import Settings

ROUNDS = 9
OFFERED = "fp_benchmark"
# Jobs that wait, and jobs that ended a moment ago.
SHAPES = {"nothing waits": (0, 0), "1,000 wait": (1_000, 0), "1,000 wait, 20,000 ended": (1_000, 20_000)}
GRANTED = Allowance(is_granted=True, remaining=0, retry_after_seconds=0, renewed_after_seconds=0, whole_at=0)


class NoRates(RequestRates):
    """What there would be without a limit: the same calls, and nothing behind them."""

    def ask(self, _: OwnerId) -> Allowance:
        """Grant it."""
        return GRANTED

    def headers(self, _: Allowance) -> Mapping[str, str]:
        """Tell of nothing."""
        return {}


async def timed(act: Callable[[], Awaitable[object]], seconds: float) -> float:
    """Return how long one takes, in microseconds."""
    started, times = time.perf_counter(), 0
    while (passed := time.perf_counter() - started) < seconds:
        await act()
        times += 1
    return passed / times * 1e6


async def send(application: Edge) -> None:
    """Ask for one page of tasks, of which there are none."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/v1/tasks",
        "raw_path": b"/v1/tasks",
        "query_string": b"",
        "root_path": "",
        "headers": [(b"authorization", f"Bearer {OFFERED}".encode()), (b"host", b"benchmark")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 1),
        "state": {},
    }
    status: list[int] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def answered(message: Mapping[str, object]) -> None:
        if message["type"] == "http.response.start":
            status.append(int(str(message["status"])))

    # ASGI in other words than those of the framework.
    await cast("Any", application)(scope, receive, answered)
    if status != [200]:
        raise SystemExit(f"the request was answered {status}")


def set_up(uow: UnitOfWork) -> OwnerId:
    """Add an owner with a token."""
    owner = add_user(uow, "benchmark")
    issue_token(uow, owner.name, token_id=TokenId("benchmark"), token=OFFERED, scopes=frozenset(Scope))
    return owner.id


def fill(uow: UnitOfWork, owner: OwnerId, ids: Sequence[str], *, ended: bool) -> None:
    """Store jobs that wait, or that have just failed."""
    for job_id in ids:
        step = enqueue(
            Enqueue(
                now=uow.now,
                job_id=JobId(job_id),
                owner_id=owner,
                request_key=job_id,
                parameters_json="{}",
                parameters_digest="",
                deadline_at=later(uow.now, LONG),
                max_attempts=5,
            )
        )
        uow.exports.save(step)
        if ended:
            events = (
                Claim(now=uow.now, worker_id="benchmark", lease_token=LEASE, lease=LONG, longest_lease=LONG),
                Fail(
                    now=uow.now,
                    lease_token=LEASE,
                    longest_lease=LONG,
                    failure=Failure(FailureKind.PERMANENT, None, "Benchmark"),
                    retry_at=uow.now,
                    retry_ends_at=uow.now,
                ),
            )
            for event in events:
                step = advance(step.after, event)
                uow.exports.save(step)


LONG = Settings().policies.deadline.longest
LEASE = LeaseToken("benchmark")


def admission_microseconds(uow: UnitOfWork, owner: OwnerId, policies: Policies, *, times: int = 50) -> float:
    """Return how long the questions of one enqueue take."""
    started = time.perf_counter()
    for _ in range(times):
        require_quota(uow, owner, policies.admission)
        require_room(uow, policies.admission)
    return (time.perf_counter() - started) / times * 1e6


async def rate_figures(app: Application, seconds: float) -> dict[str, list[float]]:
    """Return microseconds a request, one figure a round."""
    ways = {}
    for name, kind in {"without a limit": NoRates, "with the shipped limit": RequestRates}.items():
        vars(http)["RequestRates"] = kind
        ways[name] = http.create_app(app)
    figures: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, application in ways.items():
            figures[name].append(await timed(partial(send, application), seconds / ROUNDS / len(ways)))
    rates = RequestRates(app.policies.requests, clock=app.clock)

    async def count() -> None:
        rates.headers(rates.ask(OwnerId(1)))

    figures["the limit alone"] = [await timed(count, seconds / 20) for _ in range(ROUNDS)]
    return figures


async def measure(folder: Path, seconds: float) -> dict[str, dict[str, list[float]]]:
    """Return all figures, in microseconds, one a round."""
    admission: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    for number, (shape, (waiting, ended)) in enumerate(SHAPES.items()):
        # So many requests that no round is cut short by the limit that is measured.
        settings = Settings(
            database=str(folder / f"{number}.db"),
            requests_per_owner=1 << 40,
            max_pending=waiting + 1,
            active_per_owner=waiting + 1,
            write_wait_seconds=60,
        )
        migrate_database(settings)
        async with assemble(settings) as app:
            owner = await app.store.write(set_up)
            for count, has_ended in ((ended, True), (waiting, False)):
                ids = [app.randomness.new_id() for _ in range(count)]
                for start in range(0, count, 1000):
                    await app.store.write(fill, owner, ids[start : start + 1000], ended=has_ended)
            admission[shape] = [
                await app.store.write(admission_microseconds, owner, app.policies) for _ in range(ROUNDS)
            ]
            if not number:
                rates = await rate_figures(app, seconds)
    return {"request_rate": rates, "admission": admission}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the tables, write the JSON."""
    options = parse(arguments, doc=__doc__, seconds=6, meaning="seconds of requests")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(Path(folder), options.seconds))
    for name, rows in figures.items():
        table = {
            row: {"µs, median": f"{median(of):.1f}", "lowest": f"{min(of):.1f}", "highest": f"{max(of):.1f}"}
            for row, of in rows.items()
        }
        show(f"{name.replace('_', ' ').capitalize()}, {ROUNDS} rounds", table)
    keep(figures, options.json)


if __name__ == "__main__":
    main()
