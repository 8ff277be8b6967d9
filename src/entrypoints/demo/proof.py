"""One run of the main job on a temporary database, with API and worker as processes of their own."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from domain.account import Scope, TokenId, token_from
from domain.instants import Instant
from domain.ports import Clock
from domain.use_cases.accounts import add_user, issue_token
from entrypoints.bootstrap import assemble, system_clock, system_randomness
from entrypoints.client.answers import Export, Imported, ResultFile
from entrypoints.client.proving import Proof
from entrypoints.client.saving import whole_file
from entrypoints.client.session import Client, ImportMedia, result_of
from entrypoints.demo.comparison import COLUMNS, Comparison, compare, some_of
from entrypoints.settings import ClientSettings, LogFormat, LogLevel, Settings
from entrypoints.supervisor import run_up

_OWNER: Final = "demo"
_EXPORT_WITHIN: Final = timedelta(minutes=30)
_PATIENCE: Final = timedelta(seconds=15)


class DemoFailure(Exception):  # noqa: N818 - tells that the service let the demonstration down
    """The demonstration could not be run to its end."""


class Plan(Struct, frozen=True, kw_only=True):
    """What to prove: the file to import, where its export goes, and what a faulty row does ("refuse" or "skip")."""

    source: Path
    target: Path
    on_error: str


class Moment(Struct, frozen=True):
    """Something that happened, when, and what there is to say of it."""

    name: str
    at: Instant
    said: str = ""


class Check(Struct, frozen=True):
    """Something that had to hold, and whether it did."""

    holds: bool
    said: str


class Report(Struct, frozen=True, kw_only=True):
    """What was seen. The proof holds when every check does."""

    moments: Sequence[Moment]
    checks: Sequence[Check]
    imported: Imported

    @property
    def holds(self) -> bool:
        """Tell whether everything held."""
        return all(check.holds for check in self.checks)


def demonstrate(plan: Plan, *, tell: Callable[[str], None]) -> Report:
    """Run the main job once; leave the exported file at `plan.target`, and no process and no other file behind.

    Raises:
        DemoFailure: the service did not start or did not stay up.
        ClientFailure: a request was refused, or was not answered.
        KeyboardInterrupt: the person had enough.
    """
    return asyncio.run(_demonstrate(plan, tell))


async def _demonstrate(plan: Plan, tell: Callable[[str], None]) -> Report:
    with TemporaryDirectory(prefix="fencepost-demo-") as folder:
        settings = replace(
            Settings.from_environment(),
            database=str(Path(folder, "demo.db")),
            host="127.0.0.1",
            port=0,
            public_base_url="",
            log_format=LogFormat.TEXT,
            log_level=LogLevel.WARNING,
        )
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        service = asyncio.create_task(run_up(settings, 1, on_ready=ready.set_result))
        try:
            either: list[asyncio.Future[Any]] = [ready, service]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            _still_up(service)
            tell(f"API and worker are up, {ready.result()}, on a temporary database.")
            connection = ClientSettings(ready.result(), await _token(settings))
            return await asyncio.to_thread(_prove, plan, connection, tell, lambda: _still_up(service))
        finally:
            service.cancel()
            await asyncio.wait([service])


def _still_up(service: "asyncio.Task[int]") -> None:
    """Do nothing while the service runs; raise what it ended with otherwise."""
    if service.done():
        if status := service.result():
            raise DemoFailure(f"the service could not be kept up (status {status}); its log is above")
        raise KeyboardInterrupt


async def _token(settings: Settings) -> str:
    """Return a token of a fresh owner."""
    async with assemble(settings) as app:
        token = token_from(app.randomness.new_secret())
        await app.store.write(add_user, _OWNER)
        await app.store.write(
            issue_token,
            _OWNER,
            token_id=TokenId(app.randomness.new_id()),
            token=token,
            scopes=frozenset({Scope.TASKS, Scope.EXPORTS}),
        )
        return token


def _prove(plan: Plan, connection: ClientSettings, tell: Callable[[str], None], still_up: Callable[[], None]) -> Report:
    clock = system_clock()

    def on_trouble(said: str) -> None:
        still_up()
        tell(said)

    with (
        Client(
            connection, clock=clock, randomness=system_randomness(), patience=_PATIENCE, on_trouble=on_trouble
        ) as client,
        whole_file(plan.target) as download,
    ):
        began_at = clock.now()
        with plan.source.open("rb") as file:
            imported = client.import_file(
                file,
                ImportMedia.CSV,
                key=client.new_key(),
                options={"on_error": plan.on_error, "formula_protection": "none"},
            )
        imported_at = clock.now()
        tell(f"Imported {_rows(imported.imported)} of {plan.source}, refused {imported.refused:,}.")
        submitted_at = clock.now()
        export = client.create_export({"columns": list(COLUMNS)}, key=client.new_key())
        accepted_at = clock.now()
        export = client.wait(export, timeout=_EXPORT_WITHIN, on_progress=lambda _: still_up())
        seen_at = clock.now()
        result = result_of(export)
        proof = client.download(export, download)
        downloaded_at = clock.now()
    comparison = compare(
        plan.source,
        plan.target,
        refused_lines=frozenset(row.line for row in imported.refused_rows),
        began_at=began_at,
        ended_at=imported_at,
    )
    moments = [
        Moment("import begins", began_at, f"{plan.source.stat().st_size:,} bytes"),
        Moment("imported", imported_at, _pace(imported.imported, imported_at - began_at)),
        Moment("submitted", submitted_at),
        Moment("accepted", accepted_at, f"export {export.id}"),
        *_moments_of(export, result),
        Moment("seen", seen_at, "by the client, which asks as often as it is told to"),
        Moment("downloaded", downloaded_at, f"{proof.wire_byte_count:,} bytes sent as {proof.coding}"),
        _verified(clock),
    ]
    checks = _checks(imported, result, _Downloaded(plan.target.read_bytes(), proof), comparison)
    return Report(moments=moments, checks=checks, imported=imported)


def _verified(clock: Clock) -> Moment:
    return Moment("verified", clock.now())


def _moments_of(export: Export, result: ResultFile) -> list[Moment]:
    finished_at, snapshot_at = _instant(export.finished_at), _instant(result.snapshot_at)
    return [
        Moment("claimed", _instant(export.started_at), f"attempt {export.attempt_count}"),
        Moment("snapshot", snapshot_at, _rows(result.rows)),
        Moment("committed", finished_at, f"{result.bytes:,} bytes, {_pace(result.rows, finished_at - snapshot_at)}"),
    ]


class _Downloaded(Struct, frozen=True):
    """The file as it lies on the disk, and what the client found while it came."""

    content: bytes
    proof: Proof


def _checks(imported: Imported, result: ResultFile, downloaded: _Downloaded, comparison: Comparison) -> list[Check]:
    refused, digest = imported.refused_rows, sha256(downloaded.content).hexdigest()
    return [
        # The client has refused the download otherwise.
        Check(holds=True, said=f"length and Repr-Digest of the {downloaded.proof.wire_byte_count:,} bytes sent"),
        Check(
            holds=(len(downloaded.content), digest) == (result.bytes, result.sha256),
            said=f"{len(downloaded.content):,} bytes of plain file on the disk, sha256 {digest}",
        ),
        Check(
            holds=comparison.row_count == result.rows == imported.imported,
            said=f"{_rows(comparison.row_count)} in the file, {result.rows:,} promised, {imported.imported:,} imported",
        ),
        Check(
            holds=comparison.escaped_count == result.formula_escaped_cells,
            said=f"{comparison.escaped_count:,} cells protected, {result.formula_escaped_cells:,} promised",
        ),
        Check(
            holds=len(refused) == imported.refused and all(row.reason for row in refused),
            said=f"{_rows(imported.refused)} refused, {len(refused):,} accounted for by line and reason",
        ),
        Check(
            holds=not comparison.differences,
            said=f"{_rows(comparison.equal_count)} equal by an independent comparison"
            + (f": {some_of(comparison.differences)}" if comparison.differences else ""),
        ),
    ]


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _pace(count: int, milliseconds: int) -> str:
    return f"{count * 1000 / max(milliseconds, 1):,.0f} rows/s"


def _instant(text: str | None) -> Instant:
    return Instant(0 if text is None else round(datetime.fromisoformat(text).timestamp() * 1000))
