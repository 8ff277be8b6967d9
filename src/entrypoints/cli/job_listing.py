"""Exports of all owners on the command line: how they are chosen, and how they are shown."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from re import ASCII, compile as pattern
from typing import Final, Required, TypedDict

import rich_click as click

from domain.export import ErrorCode, HistoryEntry, JobStatus
from domain.instants import Instant, between, format_instant, later
from domain.ports import Bulkhead, JobFilter
from domain.use_cases.accounts import named_user
from domain.use_cases.operations import JobRecord, JobView, list_jobs
from entrypoints.bootstrap import Application
from entrypoints.cli.printing import note, show_json, show_table
from entrypoints.cli.values import Text
from entrypoints.http.job_bodies import job_body

_PAGE: Final = 200
_AGE: Final = pattern(r"([0-9]{1,9})([smhd])", ASCII)
_UNITS: Final = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}


class _Age(click.ParamType[timedelta]):
    """How long ago, as a number with its unit."""

    name = "AGE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Return the duration that the text names."""
        if isinstance(value, timedelta):
            return value
        found = _AGE.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is not an age such as 90s, 15m, 2h or 7d", param, ctx)
        try:
            return int(found[1]) * _UNITS[found[2]]
        except OverflowError:
            self.fail(f"{value!r} is longer ago than can be told", param, ctx)


class FilterOptions(TypedDict, total=False):
    """Which exports are meant."""

    owner: Required[str | None]
    code: Required[str | None]
    older_than: Required[timedelta | None]
    newer_than: Required[timedelta | None]


def filter_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add the options by which exports are chosen."""
    for option in (
        click.option("--newer-than", type=_Age(), help="Less long ago than that: ended, or asked for if it has not."),
        click.option("--older-than", type=_Age(), help="Longer ago than that, such as 90s, 15m, 2h or 7d."),
        click.option("--code", type=click.Choice([code.value for code in ErrorCode]), help="Ended for this reason."),
        click.option("--owner", type=Text(), metavar="NAME", help="Of this user."),
    ):
        command = option(command)
    return command


def chosen_by(stated: FilterOptions, *statuses: JobStatus, now: Instant) -> JobFilter:
    """Return what the options choose. What has ended is as old as its end, anything else as its beginning."""
    older, newer = stated["older_than"], stated["newer_than"]
    before = None if older is None else later(now, -older)
    after = None if newer is None else later(now, -newer)
    code = None if stated["code"] is None else ErrorCode(stated["code"])
    if statuses and all(status.is_terminal for status in statuses):
        return JobFilter(status=frozenset(statuses), code=code, finished_before=before, finished_after=after)
    return JobFilter(status=frozenset(statuses), code=code, created_before=before, created_after=after)


async def found_by(app: Application, chosen: JobFilter, *, owner: str | None, limit: int | None) -> list[JobView]:
    """Return what the filter selects, newest first, up to the limit where there is one: read in pages.

    Raises:
        NotFound: there is no user of that name.
    """
    if owner is not None:
        await app.store.read(Bulkhead.OPERATIONS, named_user, owner)
    found: list[JobView] = []
    place = None
    while limit is None or len(found) < limit:
        size = _PAGE if limit is None else min(limit - len(found), _PAGE)
        page = await app.store.read(Bulkhead.OPERATIONS, list_jobs, chosen, owner=owner, before=place, limit=size)
        found += page.items
        place = page.following
        if place is None:
            break
    return found


def show_jobs(views: Sequence[JobView], *, limit: int, now: Instant, as_json: bool) -> None:
    """Print exports, one a line, and say when there may be more."""
    if as_json:
        show_json([job_body(view, now=now) for view in views])
        return
    show_table(
        ("ID", "OWNER", "STATUS", "CODE", "ATTEMPTS", "CREATED", "FINISHED"),
        [
            (
                view.job.id,
                view.owner,
                view.job.status.value,
                view.job.last_error_code.value if view.job.last_error_code else "-",
                f"{view.job.attempt_count} of {view.job.max_attempts + view.job.excused_count}",
                format_instant(view.job.created_at),
                _moment(view.job.finished_at),
            )
            for view in views
        ],
    )
    if len(views) == limit:
        note(f"There may be more: this shows the newest {limit}.")


def show_record(record: JobRecord) -> None:
    """Print an export and everything that has happened to it."""
    job = record.view.job
    result = record.view.result
    for name, value in (
        ("id", job.id),
        ("owner", record.view.owner),
        ("status", job.status.value),
        ("code", job.last_error_code.value if job.last_error_code else "-"),
        ("attempts", f"{job.attempt_count} begun, {job.excused_count} excused, {job.max_attempts} may count"),
        ("created", format_instant(job.created_at)),
        ("available", format_instant(job.available_at)),
        ("deadline", format_instant(job.deadline_at)),
        ("finished", _moment(job.finished_at)),
        ("worker", job.worker_id or "-"),
        ("lease until", _moment(job.lease_until)),
        ("request id", job.request_id or "-"),
        ("parameters", job.parameters_json),
        ("result", f"{result.row_count:,} rows, {result.byte_count:,} bytes" if result else "-"),
    ):
        click.echo(f"{name:<12} {value}")
    click.echo()
    show_table(
        ("AT", "EVENT", "STATUS", "ATTEMPT", "WORKER", "WHAT"),
        [
            (
                format_instant(entry.at),
                entry.event,
                entry.status.value,
                str(entry.attempt),
                entry.worker_id or "-",
                _what(entry),
            )
            for entry in record.history
        ],
    )


def ago(then: Instant | None, now: Instant) -> str:
    """Return how long ago that was, in the largest unit that fits."""
    if then is None:
        return "-"
    seconds = max(between(then, now), timedelta()).total_seconds()
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"


def _what(entry: HistoryEntry) -> str:
    told = {
        "": entry.code,
        "class ": entry.error_class,
        "fingerprint ": entry.fingerprint,
        "by ": entry.actor,
        "because ": entry.reason,
    }
    parts = [entry.detail] if entry.detail else []
    return "; ".join([*parts, *(f"{name}{value}" for name, value in told.items() if value)]) or "-"


def _moment(instant: Instant | None) -> str:
    return "-" if instant is None else format_instant(instant)
