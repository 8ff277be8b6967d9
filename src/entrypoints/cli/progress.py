"""How an export's progress is shown: bars on a terminal, plain lines where lines are kept."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from entrypoints.cli.printing import note
from entrypoints.client.answers import Export


class Showing(Protocol):
    """Hears how far things are."""

    def export(self, export: Export) -> None:
        """Show the state of the export."""
        ...

    def download(self, byte_count: int, total: int) -> None:
        """Show how many bytes of how many are there."""
        ...


@contextmanager
def showing() -> Iterator[Showing]:
    """Show progress on standard error while the block runs."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    console = Console(stderr=True)
    rows = Progress(
        TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TextColumn("rows"), console=console
    )
    size = Progress(TextColumn("{task.description:<12}"), BarColumn(), DownloadColumn(), console=console)
    bars = _Bars(rows, size)
    try:
        yield bars
    finally:
        bars.stop()


class _Lines:
    """A line whenever the status changes: a log keeps every line that it is given."""

    def __init__(self) -> None:
        self._status = ""

    def export(self, export: Export) -> None:
        if export.status != self._status:
            self._status = export.status
            note(f"Export {export.id}: {export.status}")

    def download(self, byte_count: int, total: int) -> None:
        """Stay silent: the end of the download is told by its proof."""


class _Bars:
    """Two bars, one after the other: a second live display cannot run beside the first."""

    def __init__(self, rows: Progress, size: Progress) -> None:
        self._rows = rows
        self._size = size
        self._row_bar: TaskID | None = None
        self._size_bar: TaskID | None = None

    def export(self, export: Export) -> None:
        if self._row_bar is None:
            self._rows.start()
            self._row_bar = self._rows.add_task(export.status, total=None)
        if export.result is not None:
            written, total = export.result.rows, export.result.rows
        elif export.progress is not None:
            written, total = export.progress.rows_written, export.progress.rows_total
        else:
            written, total = 0, None
        self._rows.update(self._row_bar, description=export.status, completed=written, total=total)
        if export.has_ended:
            self._rows.stop()

    def download(self, byte_count: int, total: int) -> None:
        if self._size_bar is None:
            self._rows.stop()
            self._size.start()
            self._size_bar = self._size.add_task("downloading", total=total)
        self._size.update(self._size_bar, completed=byte_count)

    def stop(self) -> None:
        self._rows.stop()
        self._size.stop()
