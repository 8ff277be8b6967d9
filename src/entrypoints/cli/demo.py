"""`fencepost demo`: the main job as a proof, told to a person."""

from pathlib import Path
from typing import Final

import rich_click as click

from entrypoints.cli.checkout import in_checkout
from entrypoints.cli.main import EXIT_FAILED
from entrypoints.cli.printing import note
from entrypoints.cli.values import Text
from entrypoints.client.failures import Refused
from entrypoints.demo.proof import Plan, Report, demonstrate

_SAMPLE: Final = "examples/tasks-real.csv"
_OUTPUT: Final = "demo-output.csv"
_SHOWN_REFUSALS: Final = 20


@click.command()
@click.option(
    "--input", "source", type=Text(), metavar="FILE", help=f"The CSV file to import; by default the sample, {_SAMPLE}."
)
@click.option(
    "--output",
    "target",
    type=Text(),
    default=_OUTPUT,
    show_default=True,
    metavar="FILE",
    help="Where the exported file is put.",
)
@click.option(
    "--on-error",
    type=click.Choice(["refuse", "skip"]),
    default="refuse",
    show_default=True,
    help="What a faulty row does: refuse the whole file, or only itself.",
)
@click.pass_context
def command(ctx: click.Context, *, source: str | None, target: str, on_error: str) -> None:
    """Prove the main job once, on a temporary database.

    API and worker run as real processes. The file is imported and exported through HTTP, downloaded, and compared with
    the original row by row, by rules that share nothing with the program. Exit status 0: everything held.
    """
    plan = Plan(source=_source(source), target=Path(target), on_error=on_error)
    if plan.target.exists() and plan.target.samefile(plan.source):
        raise click.UsageError("--output is the file that is imported; name another one.")
    try:
        report = demonstrate(plan, tell=note)
    except Refused as refused:
        # Faults of the file as a whole are told by the refusal itself, which only counts those of rows.
        if (count := refused.problem.error_count) is not None:
            for fault in refused.problem.errors[:_SHOWN_REFUSALS]:
                note(f"  {fault}")
            if count > _SHOWN_REFUSALS:
                note(f"  … and {count - _SHOWN_REFUSALS:,} more")
            note("To leave such rows out and go on with the others, add: --on-error skip (ON_ERROR=skip with make)")
        raise
    _show(report, plan)
    if not report.holds:
        ctx.exit(EXIT_FAILED)


def _source(stated: str | None) -> Path:
    path = in_checkout(_SAMPLE) if stated is None else Path(stated)
    if path is None:
        raise click.UsageError(f"there is no {_SAMPLE} here: name a CSV file of tasks with --input.")
    if not path.is_dir() and path.suffix.lower() != ".csv":
        raise click.UsageError("--input must be a CSV file: the comparison reads it with a CSV reader.")
    with path.open("rb"):
        return path


def _show(report: Report, plan: Plan) -> None:
    _heading("Timeline")
    start = before = report.moments[0].at
    for moment in report.moments:
        took = moment.at - before
        click.echo(f"  {moment.name:<12}  {moment.at - start:>7,} ms  {took:>+7,} ms  {moment.said}".rstrip())
        before = moment.at
    if report.imported.refused:
        _heading("Rows refused")
        for row in report.imported.refused_rows[:_SHOWN_REFUSALS]:
            click.echo(f"  {row}")
        if (more := report.imported.refused - _SHOWN_REFUSALS) > 0:
            click.echo(f"  … and {more:,} more")
    _heading("Checks")
    for check in report.checks:
        mark = click.style("held  ", fg="green") if check.holds else click.style("FAILED", fg="red")
        click.echo(f"  {mark}  {check.said}")
    verdict = click.style("Everything held.", fg="green", bold=True)
    if not report.holds:
        verdict = click.style("Not everything held.", fg="red", bold=True)
    click.echo(f"\n{verdict} The exported file is {plan.target}")


def _heading(text: str) -> None:
    click.echo(f"\n{click.style(text, bold=True)}")
