"""Imports over HTTP: a file of tasks, all or nothing."""

import json
from collections.abc import AsyncIterator

import anyio
import pytest

from domain.account import OwnerId
from domain.instants import Instant
from domain.ports import Bulkhead, UnitOfWork
from domain.task import TaskFilter
from tests.entrypoints.http.api import CSV, KEYED, Api

SOUND = "title,priority\r\none,1\r\ntwo,2\r\n"
FAULTY = 'title,priority\r\none,1\r\n,2\r\n"three\r\n3",9\r\nfour,x\r\n'


async def titles(api: Api) -> list[str]:
    """Return the titles of the owner's tasks, in order."""
    return [task["title"] for task in (await api.get("/v1/tasks?limit=200")).json()["tasks"]]


async def test_a_sound_file_becomes_tasks(api: Api) -> None:
    """Every row is a task, in the order of the file."""
    answer = await api.import_file(SOUND)
    assert (answer.status_code, answer.json()["imported"], answer.json()["refused"]) == (200, 2, 0)
    assert await titles(api) == ["one", "two"]


@pytest.mark.parametrize("media_type", ["application/jsonl", "application/x-ndjson", "APPLICATION/JSONL;charset=UTF-8"])
async def test_json_lines_become_tasks(media_type: str, api: Api) -> None:
    """JSON Lines is read under either of its names."""
    content = "".join(json.dumps({"title": title, "status": "done"}) + "\n" for title in ("a", "b"))
    answer = await api.import_file(content, **{"Content-Type": media_type})
    assert (answer.status_code, answer.json()["imported"]) == (200, 2)
    assert await titles(api) == ["a", "b"]


async def test_a_file_with_faulty_rows_is_refused_as_a_whole(api: Api) -> None:
    """400 names line, column and reason of each faulty row and their number; nothing is imported."""
    answer = await api.import_file(FAULTY)
    assert (answer.status_code, answer.json()["type"]) == (400, "/problems/import-refused")
    assert answer.json()["error_count"] == 3
    assert [(fault["line"], fault["column"]) for fault in answer.json()["errors"]] == [
        (3, "title"), (4, "priority"), (6, "priority"),
    ]  # fmt: skip
    assert await titles(api) == []


async def test_faulty_rows_can_be_skipped(api: Api) -> None:
    """All other rows are imported, and the refused ones are told."""
    answer = await api.import_file(FAULTY, "?on_error=skip")
    report = answer.json()
    assert (answer.status_code, report["imported"], report["refused"]) == (200, 1, 3)
    assert [row["line"] for row in report["refused_rows"]] == [3, 4, 6]
    assert await titles(api) == ["one"]


async def test_no_more_faults_are_told_than_a_person_reads(api: Api) -> None:
    """A refusal shows 100 faulty rows, a report 1,000, and both say how many there are."""
    content = "title\r\n" + "\0\r\n" * 1_200
    refused = await api.import_file(content)
    assert (len(refused.json()["errors"]), refused.json()["error_count"]) == (100, 1_200)
    skipped = await api.import_file(content, "?on_error=skip")
    assert (len(skipped.json()["refused_rows"]), skipped.json()["refused"]) == (1_000, 1_200)


@pytest.mark.parametrize("content", ["", "colour\r\nred\r\n", 'title\r\n"x', b"title\r\n\xff\r\n"])
async def test_a_file_that_cannot_be_read_is_refused(content: str | bytes, api: Api) -> None:
    """No header, an unknown column, broken quoting and another encoding are 400, with on_error=skip too."""
    for query in ("", "?on_error=skip"):
        answer = await api.import_file(content, query)
        assert (answer.status_code, answer.json()["type"]) == (400, "/problems/invalid-request")
        assert answer.json()["errors"][0]["detail"]


async def test_protection_is_taken_off_only_when_asked(api: Api) -> None:
    """By default text is kept as it came; with formula_protection=apostrophe one apostrophe goes."""
    content = "title,description\r\n'=1+1,''x\r\n"
    await api.import_file(content)
    await api.import_file(content, "?formula_protection=apostrophe")
    tasks = (await api.get("/v1/tasks")).json()["tasks"]
    assert [(task["title"], task["description"]) for task in tasks] == [("'=1+1", "''x"), ("=1+1", "'x")]


async def test_the_same_key_imports_a_file_once(api: Api) -> None:
    """A replay is answered by the first report, byte by byte; another file, or other options, is a conflict."""
    first = await api.import_file(FAULTY, "?on_error=skip", **KEYED)
    again = await api.import_file(FAULTY, "?on_error=skip", **KEYED)
    assert (again.status_code, again.content, again.headers["Idempotent-Replayed"]) == (200, first.content, "true")
    assert "Idempotent-Replayed" not in first.headers
    for content, query in ((SOUND, "?on_error=skip"), (FAULTY, "")):
        conflict = await api.import_file(content, query, **KEYED)
        assert (conflict.status_code, conflict.json()["type"]) == (409, "/problems/idempotency-key-conflict")
    assert await titles(api) == ["one"]
    assert (await api.as_owner("ben").import_file(SOUND, **KEYED)).json()["imported"] == 2


async def test_the_same_file_twice_at_once_is_imported_once(api: Api) -> None:
    """Of two equal requests under one key, one publishes and the other is answered alike; nothing is left over."""
    reports: list[bytes] = []
    replays: list[bool] = []

    async def send() -> None:
        answer = await api.import_file(SOUND, **KEYED)
        reports.append(answer.content)
        replays.append("Idempotent-Replayed" in answer.headers)

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(send)
    assert len(set(reports)) == 1
    assert sorted(replays) == [False, True, True, True]
    assert await titles(api) == ["one", "two"]
    assert await api.application.store.read(Bulkhead.OPERATIONS, unpublished) == 0


def unpublished(uow: UnitOfWork) -> int:
    """Return how many imports are open, and so left behind."""
    return len(uow.imports.abandoned(before=Instant(uow.now + 10_000_000), limit=10))


def stored(uow: UnitOfWork, owner_id: OwnerId) -> int:
    """Return how many tasks an owner has."""
    return len(uow.tasks.page(owner_id, TaskFilter(), after=None, limit=100_000))


async def test_a_large_file_is_stored_in_short_transactions(api: Api) -> None:
    """Thousands of rows arrive whole and in order, whatever the batches are."""
    rows = [f"row {number:05}" for number in range(5_000)]
    content = "title,description\r\n" + "".join(f"{row},{row * 20}\r\n" for row in rows)
    answer = await api.import_file(content[:1_900_000])
    assert answer.status_code == 200
    first = (await api.get("/v1/tasks?limit=200")).json()["tasks"]
    assert [task["title"] for task in first] == rows[:200]
    found = await api.application.store.read(Bulkhead.TASKS, stored, OwnerId(1))
    assert found == answer.json()["imported"] == 5_000


async def test_a_slow_upload_holds_no_lock(api: Api) -> None:
    """While a file trickles in, tasks are created and read as ever."""
    received, done = anyio.Event(), anyio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"title\r\none\r\n"
        received.set()
        await done.wait()
        yield b"two\r\n"

    async with anyio.create_task_group() as group:

        async def upload() -> None:
            answer = await api.post("/v1/tasks/import", content=pieces(), headers=CSV)
            assert answer.json()["imported"] == 2

        group.start_soon(upload)
        await received.wait()
        assert (await api.post("/v1/tasks", json={"title": "meanwhile"})).status_code == 201
        assert await titles(api) == ["meanwhile"]
        done.set()
    assert await titles(api) == ["meanwhile", "one", "two"]


@pytest.mark.parametrize("query", ["?on_error=ignore", "?formula_protection=yes", "?on_error=skip&on_error=skip"])
async def test_options_that_cannot_be_meant_are_refused(query: str, api: Api) -> None:
    """400 before the file is read."""
    assert (await api.import_file(SOUND, query)).status_code == 400
    assert await titles(api) == []
