"""`fencepost queue`: how the queue does, once or for as long as somebody looks."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

import msgspec
import rich_click as click
from rich.live import Live
from rich.text import Text

from domain.export import JobStatus
from domain.instants import format_instant
from domain.ports import Bulkhead
from domain.use_cases.operations import COUNTED_UP_TO, LimitUse, QueueStatus, queue_status
from entrypoints.bootstrap import Application
from entrypoints.cli.database import database_option, in_application, settings_for
from entrypoints.cli.job_listing import ago
from entrypoints.cli.printing import show_json, table
from entrypoints.cli.values import Seconds
from entrypoints.http.job_bodies import queue_body

Show = Callable[[QueueStatus], None]
# Nobody reads faster, and the queue has other things to do.
_SHORTEST_INTERVAL: Final = 0.1
_WINDOW_NAMES: Final = {timedelta(minutes=1): "minute", timedelta(hours=1): "hour"}


@click.group()
def command() -> None:
    """See how the queue does."""


@command.command()
@click.option("--watch", is_flag=True, help="Go on until Ctrl-C: a live view on a terminal, a line a look elsewhere.")
@click.option(
    "--interval",
    type=Seconds(),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How often --watch looks.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON; with --watch, one line a look.")
@database_option
def status(*, watch: bool, interval: float, as_json: bool, database: str | None) -> None:
    """Show counts, oldest ages, what happened of late, how near the limits of admission are, and workers."""

    async def work(app: Application) -> None:
        with _showing(watch=watch, as_json=as_json) as show:
            while True:
                show(await app.store.read(Bulkhead.OPERATIONS, queue_status, policies=app.policies))
                if not watch:
                    return
                await asyncio.sleep(max(interval, _SHORTEST_INTERVAL))

    in_application(settings_for(database), work)


@contextmanager
def _showing(*, watch: bool, as_json: bool) -> Iterator[Show]:
    if as_json:
        yield _json_line if watch else lambda status: show_json(queue_body(status))
    elif watch and sys.stdout.isatty():
        with Live(auto_refresh=False) as live:
            yield lambda status: live.update(Text("\n".join(lines_of(status))), refresh=True)
    elif watch:
        yield lambda status: click.echo(line_of(status))
    else:
        yield lambda status: click.echo("\n".join(lines_of(status)))


def _json_line(status: QueueStatus) -> None:
    click.echo(msgspec.json.encode(queue_body(status)))


def line_of(status: QueueStatus) -> str:
    """Return the queue in one line, for where lines are kept."""
    minute = status.rates[0].happened
    nearest = max(status.limits, key=lambda use: use.share)
    counts = "  ".join(f"{name.value} {_count(status.counts[name])}" for name in JobStatus)
    return (
        f"{format_instant(status.at)}  {counts}  oldest available {ago(status.oldest_available_at, status.at)}  "
        f"last minute +{minute.enqueued_count + minute.requeued_count} -{_ended(status)}  "
        f"nearest limit {nearest.name} {nearest.share:.0%}"
    )


def lines_of(status: QueueStatus) -> list[str]:
    """Return the queue in full."""
    counts = [(name.value, _count(status.counts[name])) for name in JobStatus]
    ages = [
        ("oldest available", ago(status.oldest_available_at, status.at)),
        ("longest running", ago(status.oldest_claim_at, status.at)),
    ]
    rates = [
        (
            _window(rate.window),
            str(rate.happened.enqueued_count),
            str(rate.happened.requeued_count),
            str(rate.happened.succeeded_count),
            str(rate.happened.failed_count),
            str(rate.happened.cancelled_count),
        )
        for rate in status.rates
    ]
    limits = [(use.name, *_use(use), f"{use.share:.0%}") for use in status.limits]
    workers = [
        (worker.worker_id, f"{ago(worker.last_seen_at, status.at)} ago", str(worker.running_count))
        for worker in status.workers
    ]
    return [
        format_instant(status.at),
        "",
        *table(("STATUS", "EXPORTS"), counts),
        "",
        *table(("WAIT", "FOR"), ages),
        "",
        *table(("LAST", "ENQUEUED", "REQUEUED", "SUCCEEDED", "FAILED", "CANCELLED"), rates),
        "",
        *table(("LIMIT", "NOW", "REACHED AT", "NEAR"), limits),
        "",
        *table(("WORKER", "SEEN", "RUNNING"), workers),
    ]


def _count(count: int) -> str:
    return f"{count:,}+" if count >= COUNTED_UP_TO else f"{count:,}"


def _ended(status: QueueStatus) -> int:
    minute = status.rates[0].happened
    return minute.succeeded_count + minute.failed_count + minute.cancelled_count


def _window(window: timedelta) -> str:
    return _WINDOW_NAMES.get(window) or f"{window // timedelta(minutes=1)} minutes"


def _use(use: LimitUse) -> tuple[str, str]:
    if use.name.endswith("_bytes"):
        return f"{use.used / 2**20:,.1f} MiB", f"{use.limit / 2**20:,.1f} MiB"
    return f"{use.used:,.0f}", f"{use.limit:,.0f}"
