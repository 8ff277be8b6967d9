"""`fencepost jobs`: exports of all owners, as whoever runs the service sees them and acts on them."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, Unpack

import rich_click as click
from msgspec.structs import replace

from domain.errors import AdmissionRefused
from domain.export import JobStatus
from domain.instants import Instant
from domain.ports import Bulkhead
from domain.use_cases.operations import (
    MOST_ATTEMPTS,
    OPERATOR,
    Requeued,
    RequeueOrder,
    cancel_job,
    operator_named,
    requeue_jobs,
    show_job,
    try_requeue,
)
from entrypoints.bootstrap import Application
from entrypoints.cli.database import database_option, in_application, settings_for
from entrypoints.cli.job_listing import FilterOptions, chosen_by, filter_options, found_by, show_jobs, show_record
from entrypoints.cli.main import EXIT_FAILED
from entrypoints.cli.printing import note, show_json
from entrypoints.cli.values import Text, WholeNumber
from entrypoints.http.job_bodies import record_body

_LIMIT: Final = click.option("--limit", type=WholeNumber(1, 10_000), default=50, show_default=True)


class ListOptions(FilterOptions):
    """What `list` can be told."""

    status: tuple[str, ...]
    limit: int
    as_json: bool
    database: str | None


class RequeueOptions(FilterOptions):
    """What `requeue` can be told."""

    job_ids: tuple[str, ...]
    all_matching: bool
    reason: str
    actor: str
    attempts: int | None
    deadline_seconds: int | None
    batch: int
    dry_run: bool
    as_json: bool
    database: str | None


def _act_options(command: Callable[..., object]) -> Callable[..., object]:
    for option in (
        click.option(
            "--actor",
            type=Text(),
            metavar="NAME",
            default=OPERATOR,
            show_default=True,
            help="Who does it; kept with it.",
        ),
        click.option("--reason", type=Text(), metavar="TEXT", required=True, help="Why; kept in the export's history."),
    ):
        command = option(command)
    return command


@click.group()
def command() -> None:
    """Inspect, requeue and cancel exports of all owners."""


@command.command("list")
@click.option("--status", type=click.Choice([status.value for status in JobStatus]), multiple=True)
@filter_options
@_LIMIT
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@database_option
def list_(**stated: Unpack[ListOptions]) -> None:
    """List exports, newest first."""

    async def work(app: Application) -> None:
        now = app.clock.now()
        chosen = chosen_by(stated, *map(JobStatus, stated["status"]), now=now)
        views = await found_by(app, chosen, owner=stated["owner"], limit=stated["limit"])
        show_jobs(views, limit=stated["limit"], now=now, as_json=stated["as_json"])

    in_application(settings_for(stated["database"]), work)


@command.command()
@click.argument("job_id", metavar="JOB")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@database_option
def show(job_id: str, *, as_json: bool, database: str | None) -> None:
    """Show one export and everything that has happened to it."""

    async def work(app: Application) -> None:
        record = await app.store.read(Bulkhead.OPERATIONS, show_job, job_id)
        if as_json:
            show_json(record_body(record, now=app.clock.now()))
        else:
            show_record(record)

    in_application(settings_for(database), work)


@command.command()
@click.argument("job_ids", metavar="[JOB]...", nargs=-1)
@click.option("--all-matching", is_flag=True, help="All dead letters that the filters choose, instead of named ones.")
@filter_options
@_act_options
@click.option("--attempts", type=WholeNumber(1, MOST_ATTEMPTS), help="How many more attempts count.")
@click.option("--deadline-seconds", type=WholeNumber(min=1), help="How long they are worth doing from now on.")
@click.option("--batch", type=WholeNumber(1, 1_000), default=100, show_default=True, help="How many in one commit.")
@click.option("--dry-run", is_flag=True, help="Change nothing, and say what would become of each.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@database_option
def requeue(**stated: Unpack[RequeueOptions]) -> int:
    """Try dead letters again, once their cause is mended: those that are named, or all that the filters choose.

    Each gets a new budget of attempts and a new deadline, and keeps its history. What is refused stays as it is, and
    makes the exit status 1.
    """
    _require_one_choice(stated)
    return in_application(settings_for(stated["database"]), lambda app: _requeue(app, stated))


@command.command()
@click.argument("job_id", metavar="JOB")
@_act_options
@database_option
def cancel(job_id: str, *, reason: str, actor: str, database: str | None) -> None:
    """End an export without a file. A running attempt can write nothing from then on."""
    in_application(
        settings_for(database),
        lambda app: app.store.write(cancel_job, job_id, actor=operator_named(actor), reason=reason),
    )
    note(f"Cancelled {job_id}.")


def _require_one_choice(stated: RequeueOptions) -> None:
    filters = [stated["owner"], stated["code"], stated["older_than"], stated["newer_than"]]
    if bool(stated["job_ids"]) == stated["all_matching"]:
        raise click.UsageError("name exports, or say --all-matching.")
    if stated["job_ids"] and any(value is not None for value in filters):
        raise click.UsageError("filters choose with --all-matching, and not among named exports.")


async def _requeue(app: Application, stated: RequeueOptions) -> int:
    order = RequeueOrder(
        actor=operator_named(stated["actor"]),
        reason=stated["reason"],
        attempts=stated["attempts"],
        deadline_seconds=stated["deadline_seconds"],
    )
    job_ids = stated["job_ids"] or await _dead_letters(app, stated)
    outcomes, halt = await _outcomes(app, job_ids, order, stated)
    refused_count = sum(outcome.refusal is not None for outcome in outcomes)
    left_count = len(dict.fromkeys(job_ids)) - len(outcomes)
    if stated["as_json"]:
        show_json(
            {
                "dry_run": stated["dry_run"],
                "requeued": len(outcomes) - refused_count,
                "refused": refused_count,
                "not_tried": left_count,
                "outcomes": [{"id": outcome.job_id, "refusal": outcome.refusal} for outcome in outcomes],
            }
        )
    else:
        _show(outcomes, dry_run=stated["dry_run"])
    if halt is not None:
        note(f"{left_count:,} were not tried: no more are admitted now.")
        raise halt
    return EXIT_FAILED if refused_count else 0


async def _dead_letters(app: Application, stated: RequeueOptions) -> Sequence[str]:
    now = app.clock.now()
    chosen = chosen_by(stated, JobStatus.FAILED, now=now)
    # Those that fail again meanwhile are not meant: the cause is not mended.
    before = Instant(now + 1) if chosen.finished_before is None else chosen.finished_before
    views = await found_by(app, replace(chosen, finished_before=before), owner=stated["owner"], limit=None)
    return [view.job.id for view in views]


async def _outcomes(
    app: Application, job_ids: Sequence[str], order: RequeueOrder, stated: RequeueOptions
) -> tuple[list[Requeued], AdmissionRefused | None]:
    if stated["dry_run"]:
        tried = await app.store.read(Bulkhead.OPERATIONS, try_requeue, job_ids, order, policies=app.policies)
        return tried.outcomes, tried.halt
    outcomes: list[Requeued] = []
    pending = iter(dict.fromkeys(job_ids))
    while some := [*islice(pending, stated["batch"])]:
        batch = await app.store.write(requeue_jobs, some, order, policies=app.policies)
        outcomes += batch.outcomes
        if batch.halt is not None:
            return outcomes, batch.halt
    return outcomes, None


def _show(outcomes: Sequence[Requeued], *, dry_run: bool) -> None:
    done = "would be requeued" if dry_run else "requeued"
    for outcome in outcomes:
        click.echo(f"{outcome.job_id}  {done if outcome.refusal is None else f'refused: {outcome.refusal}'}")
    if not outcomes:
        note("No dead letter matches.")
