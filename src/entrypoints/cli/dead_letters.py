"""`fencepost dead-letters`: the failed exports, which stay until somebody looks at them."""

from typing import Unpack

import rich_click as click

from domain.export import JobStatus
from entrypoints.bootstrap import Application
from entrypoints.cli.database import database_option, in_application, settings_for
from entrypoints.cli.job_listing import FilterOptions, chosen_by, filter_options, found_by, show_jobs
from entrypoints.cli.values import WholeNumber


class Options(FilterOptions):
    """What the command can be told."""

    limit: int
    as_json: bool
    database: str | None


@click.command()
@filter_options
@click.option("--limit", type=WholeNumber(1, 10_000), default=50, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@database_option
def command(**stated: Unpack[Options]) -> None:
    """List failed exports of all owners, newest first.

    `fencepost jobs show JOB` tells what happened to one, and `fencepost jobs requeue JOB` tries it again.
    """

    async def work(app: Application) -> None:
        now = app.clock.now()
        chosen = chosen_by(stated, JobStatus.FAILED, now=now)
        views = await found_by(app, chosen, owner=stated["owner"], limit=stated["limit"])
        show_jobs(views, limit=stated["limit"], now=now, as_json=stated["as_json"])

    in_application(settings_for(stated["database"]), work)
