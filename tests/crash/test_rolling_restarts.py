"""Rolling restarts while clients export; `python -m tests.soak.restarts` makes a hundred of them."""

from pathlib import Path

from tests.soak.clients import Ledger
from tests.soak.restarts import restart


async def test_rolling_restarts_fail_no_client_loop_and_refuse_no_connection(tmp_path: Path) -> None:
    """While API and workers are replaced three times, every export that a client began ends with its proven file."""
    ledger = Ledger()
    assert await restart(tmp_path, count=3, ledger=ledger) == []
    assert ledger.loops == len(ledger.keys) == ledger.ends["succeeded"] > 0
