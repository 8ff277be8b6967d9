"""`fencepost demo`: the main job as a proof, told to a person."""

from pathlib import Path
from typing import Final

import rich_click as click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from entrypoints.cli.checkout import in_checkout
from entrypoints.cli.main import EXIT_FAILED
from entrypoints.cli.printing import note
from entrypoints.client.failures import Refused
from entrypoints.demo.proof import Plan, Report, demonstrate

_SAMPLE: Final = "examples/tasks-real.csv"
_OUTPUT: Final = "demo-output.csv"
_SHOWN_REFUSALS: Final = 20
# Without a terminal there is no width to fit into, and a line that is cut or folded cannot be searched.
_NO_TERMINAL_WIDTH: Final = 200


@click.command()
@click.option("--input", "source", metavar="FILE", help=f"The CSV file to import; by default the sample, {_SAMPLE}.")
@click.option(
    "--output", "target", default=_OUTPUT, show_default=True, metavar="FILE", help="Where the exported file is put."
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
        for fault in refused.problem.errors[:_SHOWN_REFUSALS]:
            note(f"  {fault}")
        raise
    _show(report, plan)
    if not report.holds:
        ctx.exit(EXIT_FAILED)


def _source(stated: str | None) -> Path:
    path = in_checkout(_SAMPLE) if stated is None else Path(stated)
    if path is None:
        raise click.UsageError(f"there is no {_SAMPLE} here: name a CSV file of tasks with --input.")
    if path.suffix.lower() != ".csv":
        raise click.UsageError("--input must be a CSV file: the comparison reads it with a CSV reader.")
    with path.open("rb"):
        return path


def _show(report: Report, plan: Plan) -> None:
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = _NO_TERMINAL_WIDTH
    console.print()
    console.print(_timeline(report))
    if report.imported.refused:
        console.print("\n[bold]Rows refused[/bold]")
        for row in report.imported.refused_rows[:_SHOWN_REFUSALS]:
            console.print(f"  {escape(str(row))}")
        if (more := report.imported.refused - _SHOWN_REFUSALS) > 0:
            console.print(f"  … and {more:,} more")
    console.print("\n[bold]Checks[/bold]")
    for check in report.checks:
        mark = "[green]held  [/green]" if check.holds else "[red]FAILED[/red]"
        console.print(f"  {mark}  {escape(check.said)}")
    verdict = "[bold green]Everything held." if report.holds else "[bold red]Not everything held."
    console.print(f"\n{verdict}[/] The exported file is {escape(str(plan.target))}")


def _timeline(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title_justify="left")
    table.add_column("Timeline")
    table.add_column("at, ms", justify="right")
    table.add_column("took, ms", justify="right")
    table.add_column("")
    start = before = report.moments[0].at
    for moment in report.moments:
        table.add_row(moment.name, f"{moment.at - start:,}", f"{moment.at - before:,}", moment.said)
        before = moment.at
    return table
