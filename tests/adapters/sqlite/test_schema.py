"""The schema repeats the domain's invariants: whatever a defect writes, a row that breaks one does not get in."""

import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Final

import pytest

from adapters.sqlite import driver
from adapters.sqlite.store import SqliteUnitOfWork
from domain.account import Scope, TokenId
from domain.export import GoneReason, JobId, JobStatus
from domain.ports import Attempt
from domain.task import DESCRIPTION_LENGTH, PRIORITIES, TITLE_LENGTH, TaskStatus
from domain.use_cases.accounts import add_user, issue_token
from tests.adapters.conformance.steps import stage_all
from tests.adapters.sqlite.dump_schema import SCHEMA
from tests.builders import a_grant, a_rendered_file, a_result, a_task, an_enqueue, an_id, chunks_of
from tests.fakes import START

KINDS: Final = dict(re.findall(r"CONSTRAINT (\w+) (CHECK|UNIQUE)", SCHEMA.read_text(encoding="utf-8")))

# How to break each constraint: one statement against the rows of `filled`.
BREACHES: Final[tuple[tuple[str, str], ...]] = (
    ("token_hash_is_sha256", "UPDATE api_tokens SET token_hash = 'short'"),
    ("id_is_uuid", "UPDATE tasks SET id = 'x'"),
    ("status_is_known", "UPDATE tasks SET status = 'OPEN'"),
    ("status_is_known", "UPDATE tasks SET status = ''"),
    ("priority_is_known", "UPDATE tasks SET priority = 0"),
    ("priority_is_known", "UPDATE tasks SET priority = 5"),
    ("title_is_bounded", "UPDATE tasks SET title = ''"),
    ("title_is_bounded", "UPDATE tasks SET title = printf('%.*c', 501, 'x')"),
    ("description_is_bounded", "UPDATE tasks SET description = printf('%.*c', 100001, 'x')"),
    ("version_is_positive", "UPDATE tasks SET version = 0"),
    ("one_job_per_key", "UPDATE export_jobs SET request_key = 'key-1'"),
    ("id_is_uuid", "UPDATE export_jobs SET id = 'x'"),
    ("status_is_known", "UPDATE export_jobs SET status = 'expired', in_line = 0"),
    ("version_is_positive", "UPDATE export_jobs SET version = 0"),
    ("attempts_are_counted", "UPDATE export_jobs SET attempt_count = -1"),
    ("attempts_are_counted", "UPDATE export_jobs SET excused_count = -1"),
    ("attempts_are_counted", "UPDATE export_jobs SET attempt_count = 1, excused_count = 2"),
    ("budget_is_kept", "UPDATE export_jobs SET attempt_count = max_attempts + 1"),
    ("leased_exactly_while_running", "UPDATE export_jobs SET lease_token = 'x'"),
    ("leased_exactly_while_running", "UPDATE export_jobs SET lease_until = 1"),
    ("leased_exactly_while_running", "UPDATE export_jobs SET worker_id = 'x'"),
    (
        "leased_exactly_while_running",
        "UPDATE export_jobs SET status = 'running', in_line = 0, lease_until = 1, worker_id = 'x'",
    ),
    (
        "leased_exactly_while_running",
        "UPDATE export_jobs SET status = 'running', in_line = 0, lease_token = 'x', worker_id = 'x'",
    ),
    (
        "leased_exactly_while_running",
        "UPDATE export_jobs SET status = 'running', in_line = 0, lease_token = 'x', lease_until = 1",
    ),
    ("finished_exactly_when_terminal", "UPDATE export_jobs SET finished_at = 1"),
    ("finished_exactly_when_terminal", "UPDATE export_jobs SET status = 'succeeded', in_line = 0"),
    ("failures_have_a_code", "UPDATE export_jobs SET last_error_code = 'cancelled'"),
    ("failures_have_a_code", "UPDATE export_jobs SET status = 'failed', in_line = 0, finished_at = 1"),
    ("failures_have_a_code", "UPDATE export_jobs SET status = 'cancelled', in_line = 0, finished_at = 1"),
    ("only_queued_jobs_wait", "UPDATE export_jobs SET in_line = 2"),
    ("only_queued_jobs_wait", "UPDATE export_jobs SET status = 'succeeded', finished_at = 1"),
    ("waiting_is_counted", "UPDATE owner_lines SET waiting_count = -1"),
    ("running_is_counted", "UPDATE owner_lines SET running_count = -1"),
    ("one_line_per_version", "UPDATE export_events SET job_id = (SELECT max(job_id) FROM export_events)"),
    ("digests_are_sha256", "UPDATE export_results SET sha256 = ''"),
    ("digests_are_sha256", "UPDATE export_results SET gzip_sha256 = ''"),
    ("gone_with_a_reason", "UPDATE export_results SET gone_at = 1"),
    ("gone_with_a_reason", "UPDATE export_results SET gone_reason = 'deleted'"),
    ("gone_reason_is_known", "UPDATE export_results SET gone_at = 1, gone_reason = 'lost'"),
    ("one_chunk_per_number", "UPDATE export_result_chunks SET seq = 0"),
    ("chunk_is_counted", "UPDATE export_result_chunks SET seq = -1 WHERE seq = 0"),
    ("chunk_is_counted", "UPDATE export_result_chunks SET byte_offset = -1"),
    ("chunk_is_counted", "UPDATE export_result_chunks SET byte_count = 0"),
    ("chunk_is_counted", "UPDATE export_result_chunks SET row_count = -1"),
    ("one_holder_at_a_time", "UPDATE maintenance SET id = 2"),
    ("number_is_positive", "UPDATE maintenance SET number = 0"),
)


@pytest.fixture
def filled(connection: driver.Connection, database: Path) -> driver.Connection:
    """A database with a sound row or two in every table, and a transaction that is open."""
    connection.execute("BEGIN IMMEDIATE")
    uow = SqliteUnitOfWork(connection, START, database)
    owner = add_user(uow, "Ann")
    issue_token(uow, "Ann", token_id=TokenId(an_id()), token="fp_1", scopes=frozenset({Scope.TASKS}))
    uow.tasks.add(a_task(owner.id))
    for number in (1, 2):
        uow.exports.save(an_enqueue(owner.id, number))
    chunks = chunks_of("id\r\n", "1\r\n")
    stage_all(uow, Attempt(JobId(an_id(1)), 1), chunks)
    uow.results.publish(a_result(JobId(an_id(1)), a_rendered_file(chunks)))
    uow.maintenance.grant(a_grant())
    return connection


@pytest.mark.parametrize(("constraint", "statement"), BREACHES)
def test_a_row_that_breaks_an_invariant_does_not_get_in(
    filled: driver.Connection, constraint: str, statement: str
) -> None:
    """The constraint that is named refuses it; of a key SQLite names the columns instead."""
    is_key = KINDS[constraint] == "UNIQUE"
    with pytest.raises(
        driver.IntegrityError, match="UNIQUE constraint failed" if is_key else f"CHECK constraint failed: {constraint}$"
    ):
        filled.execute(statement)


def test_every_constraint_is_broken_once() -> None:
    """A new one needs a row that it refuses."""
    assert KINDS.keys() == {name for name, _ in BREACHES}


@pytest.mark.parametrize(
    ("table", "constraint", "words"),
    [
        ("tasks", "status_is_known", TaskStatus),
        ("export_jobs", "status_is_known", JobStatus),
        ("export_results", "gone_reason_is_known", GoneReason),
    ],
)
def test_the_words_of_the_schema_are_those_of_the_domain(
    connection: driver.Connection, table: str, constraint: str, words: Iterable[StrEnum]
) -> None:
    """Neither has one that the other lacks."""
    (text,) = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", [table]).fetchone()
    listed = re.search(rf"CONSTRAINT {constraint} CHECK \(\w+ IN \(([^)]*)\)\)", text)
    assert listed is not None
    assert re.findall(r"'(\w+)'", listed[1]) == [word.value for word in words]


def test_the_ends_of_every_range_get_in(filled: driver.Connection) -> None:
    """The schema refuses nothing that the domain accepts."""
    filled.execute("UPDATE tasks SET title = ?", ["x" * TITLE_LENGTH])
    filled.execute("UPDATE tasks SET description = ?", ["\U0001f600" * DESCRIPTION_LENGTH])
    for priority in PRIORITIES:
        filled.execute("UPDATE tasks SET priority = ?", [priority])
    for status in TaskStatus:
        filled.execute("UPDATE tasks SET status = ?", [status])


def test_every_table_is_strict(connection: driver.Connection) -> None:
    """SQLite keeps any value in any column otherwise."""
    tables = connection.execute(
        "SELECT name, strict FROM pragma_table_list WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    assert len(tables) > 5
    assert [name for name, strict in tables if not strict] == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tasks SET owner_user_id = 99",
        "UPDATE export_jobs SET owner_user_id = 99",
        "UPDATE export_events SET job_id = 'none' WHERE seq = 1",
        "UPDATE export_results SET job_id = 'none'",
        "DELETE FROM users",
    ],
)
def test_nothing_belongs_to_nobody(filled: driver.Connection, statement: str) -> None:
    """A row without its owner or its job does not get in, and an owner with rows does not go."""
    with pytest.raises(driver.IntegrityError, match="FOREIGN KEY"):
        filled.execute(statement)
