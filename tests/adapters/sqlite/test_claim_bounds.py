"""A claim visits as many rows with a hundred jobs as with two hundred thousand; `make bounds` tries two million."""

from contextlib import closing
from pathlib import Path

from adapters.sqlite import driver
from tests.adapters.sqlite.claim_bounds import FEW, RUNNING, fill, measure


def test_what_a_claim_costs_is_the_same_whatever_is_queued_or_has_ended(tmp_path: Path) -> None:
    """Looking, being offered, claiming and enqueuing take the very same steps, an owner at their limit or not."""
    few, many = tmp_path / "few.db", tmp_path / "many.db"
    fill(few, queued=FEW, finished=0)
    fill(many, queued=100_000, finished=100_000)
    assert measure(many) == measure(few)


def test_the_yardstick_notices_owners_that_are_read_through(tmp_path: Path) -> None:
    """Without the indexes of the owners' turns, the steps grow with their number."""
    offers = []
    for queued in (FEW, FEW * 200):
        path = tmp_path / f"{queued}.db"
        fill(path, queued=queued, finished=0)
        with closing(driver.connect(path)) as connection:
            connection.executescript("DROP INDEX owner_lines_waiting; DROP INDEX owner_lines_by_turn")
        offers.append(measure(path)["offer", RUNNING])
    assert offers[1] > 2 * offers[0]
