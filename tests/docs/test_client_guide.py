"""The examples of the client guide and of the README, run against a service of real processes."""

import asyncio
import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from domain.account import OwnerId, Scope, TokenId, token_from
from domain.csv_dialect import unprotect
from domain.ports import Bulkhead
from domain.task import NewTask, TaskFilter, TaskId
from domain.use_cases.accounts import add_user, issue_token
from domain.use_cases.tasks import create_task, list_tasks
from entrypoints.bootstrap import assemble, migrate_database
from entrypoints.settings import CLIENT_VARIABLES, PREFIX, Settings
from tests.processes import eventually, fencepost, free_port, needs_curl
from tests.tree import ROOT

RUNNABLE = re.compile(r"^```(sh|python) run\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GUIDE = (ROOT / "docs" / "client-guide.md").read_text(encoding="utf-8")
BLOCKS = RUNNABLE.findall(GUIDE)
EXPORTS = [(kind, text) for kind, text in BLOCKS if "/v1/exports" in text]
IMPORTS = [(kind, text) for kind, text in BLOCKS if "/v1/tasks/import" in text]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CURL = re.compile(r"^curl (?:[^\\\n]|\\\n)*", re.MULTILINE)
WITHIN_SECONDS = 60

TASKS = [
    NewTask(title="Read the guide"),
    NewTask(title="=1+1", description="'quoted', and\r\nover two lines", priority=1, due_at=None),
    NewTask(title="Größe, “Zeichen” \N{CHECK MARK}", description='She said "no"', priority=4),
]


class Reader(NamedTuple):
    """An owner who follows the guide: the environment in which an example speaks for them, without a proxy."""

    owner_id: OwnerId
    environment: dict[str, str]


class Service:
    """A running service, seen through the program's own store."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._numbers = count(1)

    def reader(self, tasks: list[NewTask]) -> Reader:
        """Make a reader who owns these tasks."""
        return asyncio.run(self._reader(f"reader {next(self._numbers)}", tasks))

    def titles(self, reader: Reader) -> list[str]:
        """Return the titles of a reader's tasks."""
        return asyncio.run(self._titles(reader.owner_id))

    async def _reader(self, name: str, tasks: list[NewTask]) -> Reader:
        async with assemble(self._settings) as app:
            owner = await app.store.write(add_user, name)
            token = token_from(app.randomness.new_secret())
            token_id = TokenId(app.randomness.new_id())
            await app.store.write(issue_token, name, token_id=token_id, token=token, scopes=frozenset(Scope))
            for task in tasks:
                await app.store.write(create_task, owner.id, task, task_id=TaskId(app.randomness.new_id()))
        url, secret = CLIENT_VARIABLES
        clean = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        address = f"http://{self._settings.host}:{self._settings.port}"
        return Reader(owner.id, {**clean, url: address, secret: token, "no_proxy": self._settings.host})

    async def _titles(self, owner_id: OwnerId) -> list[str]:
        async with assemble(self._settings) as app:
            page = await app.store.read(Bulkhead.TASKS, list_tasks, owner_id, TaskFilter(), after=None, limit=100)
            return [task.title for task in page.items]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """An API and a worker under a supervisor, on a temporary database."""
    directory = tmp_path_factory.mktemp("guide")
    settings = Settings(database=str(directory / "tasks.db"), port=free_port(), worker_poll_seconds=0.05)
    migrate_database(settings)
    with fencepost("up", settings=settings, directory=directory) as started:
        started.event("service.ready")
        yield Service(settings)


def run(kind: str, text: str, *, environment: dict[str, str], directory: Path) -> str:
    """Run an example in a directory; return what it printed. It must succeed."""
    command = {"sh": ["sh", "-c", text], "python": [sys.executable, "-c", text]}[kind]
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=WITHIN_SECONDS, check=False
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_guide_holds_what_is_run() -> None:
    """There are examples in shell and in Python, and each runnable one is run below."""
    assert {kind for kind, _ in EXPORTS} == {"sh", "python"}
    assert len(EXPORTS) + len(IMPORTS) == len(BLOCKS)


@pytest.mark.parametrize(
    ("kind", "text"),
    [pytest.param(kind, text, marks=needs_curl if kind == "sh" else ()) for kind, text in EXPORTS],
    ids=[f"{kind}-{number}" for number, (kind, _) in enumerate(EXPORTS)],
)
def test_an_example_downloads_what_is_there(kind: str, text: str, service: Service, tmp_path: Path) -> None:
    """The file that an example leaves holds every task, and running it again finds the same export."""
    environment = service.reader(TASKS).environment
    run(kind, text, environment=environment, directory=tmp_path)
    first = (tmp_path / "tasks.csv").read_bytes()
    header, *rows = csv.reader(StringIO(first.decode(), newline=""))
    assert header == ["title", "description", "status", "priority", "due_at"]
    assert [[unprotect(row[0]), unprotect(row[1]), *row[2:]] for row in rows] == [
        [task.title, task.description, task.status, str(task.priority), ""] for task in TASKS
    ]
    (tmp_path / "tasks.csv").unlink()
    run(kind, text, environment=environment, directory=tmp_path)
    assert (tmp_path / "tasks.csv").read_bytes() == first


@needs_curl
@pytest.mark.parametrize(("kind", "text"), IMPORTS)
def test_the_import_example_brings_its_task_in_once(kind: str, text: str, service: Service, tmp_path: Path) -> None:
    """The task of the example is there after one run, and once after two."""
    reader = service.reader([])
    first = run(kind, text, environment=reader.environment, directory=tmp_path)
    assert run(kind, text, environment=reader.environment, directory=tmp_path) == first
    assert service.titles(reader) == ["Water the plants"]


@needs_curl
def test_the_three_lines_of_the_readme_download_what_is_there(service: Service, tmp_path: Path) -> None:
    """With the id that the first answers with put for ID, the second tells of success, and the third saves the file."""
    ask, look, download = CURL.findall(README)
    environment = service.reader(TASKS).environment

    def answer(line: str) -> str:
        return run("sh", line, environment=environment, directory=tmp_path)

    export_id = json.loads(answer(ask))["id"]
    eventually(lambda: '"status":"succeeded"' in answer(look.replace("ID", export_id)))
    answer(download.replace("ID", export_id))
    assert (tmp_path / "tasks.csv").read_bytes().count(b"\r\n") == len(TASKS) + 2
