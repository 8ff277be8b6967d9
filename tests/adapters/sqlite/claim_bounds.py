"""What a claim costs with few jobs and with very many, in steps of SQLite's virtual machine.

Not in seconds, which say more about the machine than about the statement. SQLite makes the jobs itself, so that a
million of them are there in seconds; `python -m tests.adapters.sqlite.claim_bounds --jobs 1000000` is the long form.
"""

import argparse
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from adapters.sqlite import driver, migrate
from adapters.sqlite.exports import SqliteExportJobs, SqliteExportQueue
from domain.account import OwnerId
from domain.events import Claim
from domain.export import ExportJob, LeaseToken
from domain.instants import later
from domain.lifecycle import advance
from tests.builders import an_enqueue
from tests.fakes import START

LEASE: Final = timedelta(minutes=1)
LONGEST: Final = timedelta(minutes=2)
CLAIM: Final = Claim(
    now=START, worker_id="worker", lease_token=LeaseToken("the-lease-token"), lease=LEASE, longest_lease=LONGEST
)
# The greedy owner has half of everything queued; the limit of running jobs at which they are passed over, and a higher.
GREEDY: Final = OwnerId(1)
RUNNING: Final = 2
BELOW_LIMIT: Final = RUNNING + 1
FEW: Final = 100

_ADD_USERS: Final = """
    WITH RECURSIVE numbers(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < :owners)
    INSERT INTO users (id, name, created_at) SELECT number, 'owner ' || number, 0 FROM numbers
"""
_ADD_JOBS: Final = """
    WITH RECURSIVE numbers(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < :count)
    INSERT INTO export_jobs (
        id, owner_user_id, request_key, parameters_json, parameters_digest, status, version, in_line, created_at,
        available_at, deadline_at, attempt_count, excused_count, max_attempts, finished_at
    )
    SELECT
        printf('%08x-0000-7000-8000-%012x', :status = 'queued', number),
        iif(number % 2, 1, 2 + number / 2 % (:owners - 1)),
        :status || number, '{}', '', :status, 1, :status = 'queued', :now - :count + number, :now - :count + number,
        :now + 3600000, 0, 0, 3, iif(:status = 'queued', NULL, :now)
    FROM numbers
"""
# Everybody at one turn: of equals the first owner comes first, which is the greedy one.
_ADD_LINES: Final = """
    INSERT INTO owner_lines (owner_user_id, turn, waiting_count, running_count)
    SELECT owner_user_id, 0, sum(in_line), sum(status = 'running') FROM export_jobs GROUP BY owner_user_id
    ON CONFLICT (owner_user_id) DO UPDATE SET
        turn = excluded.turn, waiting_count = excluded.waiting_count, running_count = excluded.running_count
"""


def fill(path: Path, *, queued: int, finished: int) -> None:
    """Make a database of so many jobs, two of the greedy owner's under lease beside them."""
    migrate.migrate(path)
    owners = max(10, queued // FEW)
    with closing(driver.connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_ADD_USERS, {"owners": owners})
        for status, count in (("queued", queued), ("succeeded", finished)):
            if count:
                connection.execute(_ADD_JOBS, {"status": status, "count": count, "owners": owners, "now": START})
        jobs = SqliteExportJobs(connection, START)
        for number in range(1, RUNNING + 1):
            made = an_enqueue(GREEDY, number)
            jobs.save(made)
            jobs.save(advance(made.after, CLAIM))
        connection.execute(_ADD_LINES)
        connection.execute("COMMIT")


def look(connection: driver.Connection, running_limit: int) -> None:
    """Ask whether there is work, as an idle worker does."""
    queue = SqliteExportQueue(connection, START)
    assert queue.has_candidates(longest_lease_until=later(START, LONGEST), running_limit=running_limit)


def offer(connection: driver.Connection, running_limit: int) -> list[ExportJob]:
    """Ask what a claim may take."""
    queue = SqliteExportQueue(connection, START)
    found = queue.candidates(longest_lease_until=later(START, LONGEST), running_limit=running_limit, limit=8)
    assert found
    assert any(job.owner_id == GREEDY for job in found) is (running_limit > RUNNING)
    return found


def claim(connection: driver.Connection, running_limit: int) -> None:
    """Take the first job that is offered."""
    jobs = SqliteExportJobs(connection, START)
    jobs.save(advance(offer(connection, running_limit)[0], CLAIM))


def enqueue(connection: driver.Connection, running_limit: int) -> None:
    """Put one more job in line."""
    del running_limit
    SqliteExportJobs(connection, START).save(an_enqueue(GREEDY, RUNNING + 1))


OPERATIONS: Final[tuple[Callable[[driver.Connection, int], object], ...]] = (look, offer, claim, enqueue)


def steps_of(connection: driver.Connection, function: Callable[[], object]) -> int:
    """Return how many instructions SQLite's virtual machine takes for what the function asks."""
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    connection.set_progress_handler(step, 1)
    try:
        function()
    finally:
        connection.set_progress_handler(None, 1)
    return count


def measure(path: Path) -> dict[tuple[str, int], int]:
    """Return the steps of each operation, with the greedy owner passed over and not; the database stays as it is."""
    steps: dict[tuple[str, int], int] = {}
    with closing(driver.connect(path)) as connection:
        for operation in OPERATIONS:
            for limit in (RUNNING, BELOW_LIMIT):
                connection.execute("BEGIN IMMEDIATE")
                steps[operation.__name__, limit] = steps_of(connection, partial(operation, connection, limit))
                connection.execute("ROLLBACK")
    return steps


def main() -> None:
    """Print the steps with few jobs and with as many as asked for; fail where they are more."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1_000_000, help="queued, and finished beside them (%(default)s)")
    jobs = parser.parse_args().jobs
    with TemporaryDirectory() as folder:
        few, many = Path(folder) / "few.db", Path(folder) / "many.db"
        fill(few, queued=FEW, finished=0)
        fill(many, queued=jobs, finished=jobs)
        steps, steps_of_many = measure(few), measure(many)
    told = [f"steps with {FEW} queued, and with {jobs:,} queued and {jobs:,} finished"]
    for (name, limit), count in steps.items():
        passed_over = "the greedy owner passed over" if limit == RUNNING else ""
        told.append(f"{name:8} {count:6} {steps_of_many[name, limit]:6}  {passed_over}".rstrip())
    sys.stdout.write("\n".join([*told, ""]))
    if steps != steps_of_many:
        raise SystemExit("a claim costs more where more jobs are")


if __name__ == "__main__":
    main()
