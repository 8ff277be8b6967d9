"""The named statements: each says why it is safe, is used, and finds its rows by an index."""

import ast
import re
from collections import Counter
from itertools import pairwise
from typing import Final

import pytest

from adapters.sqlite import driver, statements
from tests.tree import ROOT

FOLDER: Final = ROOT / "src" / "adapters" / "sqlite"
AGGREGATES: Final = sorted(file.stem for file in FOLDER.glob("*.sql"))
BY_NAME: Final = {name: text for aggregate in AGGREGATES for name, text in statements.load(aggregate).items()}
PARAMETER: Final = re.compile(r":(\w+)")
# Steps of a plan that read a table from end to end, build an index for one statement, or sort.
COSTLY: Final = re.compile(r"SCAN (?!CONSTANT ROW)|USE TEMP B-TREE|AUTOMATIC")

# Every costly step that there is, by statement, with the reason why it stays small.
ALLOWED: Final[dict[tuple[str, str], str]] = {
    ("add_user", "SCAN open_imports"): "a foreign key's check, of a table that holds only imports under way",
    ("all_users", "SCAN users USING INDEX sqlite_autoindex_users_1"): "all of them are asked for, in that order",
    ("page_tasks", "SCAN json_each VIRTUAL TABLE INDEX 1:"): "a list in the request, of at most a few words",
    ("snapshot_tasks", "SCAN json_each VIRTUAL TABLE INDEX 1:"): "as above",
    ("count_snapshot_tasks", "SCAN json_each VIRTUAL TABLE INDEX 1:"): "as above",
    ("page_jobs", "SCAN json_each VIRTUAL TABLE INDEX 1:"): "as above",
    ("has_candidates", "SCAN waiting USING INDEX owner_lines_waiting"): "ends at the first owner who waits",
    ("next_in_line", "SCAN owner_lines USING INDEX owner_lines_waiting"): "ends at the limit: owners in turn",
    ("next_in_line", "SCAN waiting"): "what the limited step before it found",
    ("next_in_line", "USE TEMP B-TREE FOR ORDER BY"): "sorts no more than the limit",
    ("turn_now", "SCAN owner_lines USING COVERING INDEX owner_lines_by_turn"): "ends at the first entry",
    ("count_pending", "SCAN export_jobs USING COVERING INDEX export_jobs_oldest"): "ends at the limit",
    ("count_pending", "SCAN export_jobs USING COVERING INDEX export_jobs_in_backoff"): "as above",
    ("count_pending", "SCAN (subquery-2)"): "what the limited steps before it found",
    ("count_active", "SCAN (subquery-1)"): "as above",
    ("count_ended", "SCAN (subquery-1)"): "as above",
    ("bytes_in_use", "SCAN pages VIRTUAL TABLE INDEX 0:"): "one number of the file's header",
    ("bytes_in_use", "SCAN free VIRTUAL TABLE INDEX 0:"): "as above",
    ("bytes_in_use", "SCAN size VIRTUAL TABLE INDEX 0:"): "as above",
    ("active_jobs", "SCAN export_jobs USING INDEX export_jobs_active"): "as many as admission lets wait",
    ("active_jobs", "USE TEMP B-TREE FOR ORDER BY"): "as above",
    ("number_active", "SCAN export_jobs USING COVERING INDEX export_jobs_active"): "as above",
    ("number_active", "SCAN (subquery-1)"): "what the limited step before it found",
    ("number_ended", "SCAN (subquery-1)"): "as above",
    ("running_jobs", "SCAN export_jobs USING INDEX export_jobs_leased"): "ends at the limit: what is under lease",
    ("workers_seen", "USE TEMP B-TREE FOR GROUP BY"): "sorts what happened in some minutes",
    ("spent_jobs", "SCAN export_jobs USING INDEX export_jobs_on_last_attempt"): "last attempts only: one a worker",
}


def costly_steps(connection: driver.Connection, name: str) -> set[str]:
    """Return the steps of the statement's plan that are costly."""
    bindings = dict.fromkeys(PARAMETER.findall(BY_NAME[name]))
    plan = connection.execute(f"EXPLAIN QUERY PLAN {BY_NAME[name]}", bindings)
    return {detail for *_, detail in plan if COSTLY.search(detail)}


@pytest.mark.parametrize("name", BY_NAME)
def test_a_statement_finds_its_rows_by_an_index(connection: driver.Connection, name: str) -> None:
    """On the migrated schema, its plan has no scan and no sort but those with a reason."""
    assert costly_steps(connection, name) <= {step for statement, step in ALLOWED if statement == name}


def test_every_allowance_is_needed(connection: driver.Connection) -> None:
    """A costly step that is gone is struck off the list, so that it cannot come back unseen."""
    found = {(name, step) for name in BY_NAME for step in costly_steps(connection, name)}
    assert ALLOWED.keys() == found


def test_names_are_unique_over_all_files() -> None:
    """A name in a log or a plan means one statement."""
    names = Counter(name for aggregate in AGGREGATES for name in statements.load(aggregate))
    assert [name for name, times in names.items() if times > 1] == []
    assert len(names) == sum((FOLDER / f"{a}.sql").read_text(encoding="utf-8").count("-- name:") for a in AGGREGATES)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_every_statement_says_why_it_is_safe(aggregate: str) -> None:
    """The line under the name of a statement, or of a part, is a sentence."""
    lines = (FOLDER / f"{aggregate}.sql").read_text(encoding="utf-8").splitlines()
    silent = [
        line
        for line, following in pairwise(lines)
        if line.startswith(("-- name:", "-- part:")) and not re.fullmatch(r"-- \S.+", following)
    ]
    assert silent == []


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_a_part_is_said_by_several_statements(aggregate: str) -> None:
    """What only one statement says stands in it."""
    text = (FOLDER / f"{aggregate}.sql").read_text(encoding="utf-8")
    parts = re.findall(r"^-- part: (\w+)$", text, re.MULTILINE)
    assert [part for part in parts if text.count(f"{{{part}}}") <= 1] == []


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_every_statement_is_used(aggregate: str) -> None:
    """Its name stands in some module that loads it, and every name that is looked up is there."""
    modules = [ast.parse(file.read_text(encoding="utf-8")) for file in FOLDER.glob("*.py")]
    words = {
        node.value
        for module in modules
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(statements.load(aggregate)) - words == set()
    looked_up = {
        node.slice.value
        for module in modules
        for node in ast.walk(module)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == "SQL"
        and isinstance(node.slice, ast.Constant)
    }
    assert looked_up <= BY_NAME.keys()


def test_no_statement_reads_a_clock_or_draws_a_number() -> None:
    """Time and chance are parameters, so that a run can be repeated."""
    banned = re.compile(
        r"\b((random(blob)?|strftime|timediff|unixepoch|julianday|datetime|date|time)\s*\(|current_(date|time))",
        re.IGNORECASE,
    )
    assert {name: found[0] for name, text in BY_NAME.items() if (found := banned.search(text))} == {}


def test_no_module_holds_sql_of_its_own() -> None:
    """SQL stands in `.sql` files; only a migration asks SQLite about its own catalogue."""
    statement = re.compile(r"\s*(WITH|SELECT|INSERT|UPDATE|DELETE|REPLACE|CREATE|DROP|ALTER)\s")
    holders = {
        file.name
        for file in FOLDER.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and statement.match(node.value)
    }
    assert holders <= {"migrate.py"}
