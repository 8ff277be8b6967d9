"""Operators over HTTP: they see everybody's exports, act on them with a reason, and meet no secret."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest
from msgspec import structs

from entrypoints.http.contract import OPERATIONS
from entrypoints.http.operation import Operation
from tests.builders import an_id, chunks_of
from tests.entrypoints.http.api import DEAD, Api, api_of, claimed, complete, fail, stage
from tests.fakes import ManualClock
from tests.use_cases.bench import contents

JOBS = "/v1/operations/jobs"
REQUEUE = "/v1/operations/requeue"
WHY = {"reason": "the limit was raised"}
WITH_ID = [operation for operation in OPERATIONS if "{job_id}" in operation.path]


@pytest.fixture
def ops(api: Api) -> Api:
    """A client that may operate the service and nothing else."""
    return api.as_owner("ops-only")


async def a_dead_letter(api: Api, key: str = "key-1") -> str:
    """Ask for an export that fails for good; return its id."""
    path = await api.new_export(key)
    await fail(api.application, DEAD)
    return path.rpartition("/")[2]


def seen(answer: httpx.Response) -> Mapping[str, Any]:
    """Return the body of an answer that is good."""
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def ids(ops: Api, query: str = "") -> list[str]:
    """Return the ids of a page."""
    return [job["id"] for job in seen(await ops.get(f"{JOBS}{query}"))["jobs"]]


async def test_an_operator_sees_the_exports_of_every_owner(api: Api, ops: Api, clock: ManualClock) -> None:
    """Newest first, each with its owner's name; pages lead to each other, and keep the filters."""
    mine = (await api.new_export()).rpartition("/")[2]
    clock.advance(timedelta(seconds=1))
    theirs = (await api.as_owner("ben").new_export()).rpartition("/")[2]
    answer = await ops.get(f"{JOBS}?limit=1&status=queued")
    first = seen(answer)
    assert [(job["id"], job["owner"]) for job in first["jobs"]] == [(theirs, "ben")]
    following = answer.headers["Link"].partition(">")[0].removeprefix("<")
    assert "status=queued" in following
    second = seen(await ops.get(following))
    assert [(job["id"], job["owner"]) for job in second["jobs"]] == [(mine, "ann")]
    assert second["next_cursor"] is None


async def test_every_filter_narrows(api: Api, ops: Api, clock: ManualClock) -> None:
    """By owner, status, code and age; what no one owns is an empty page."""
    dead = await a_dead_letter(api)
    clock.advance(timedelta(minutes=1))
    theirs = (await api.as_owner("ben").new_export()).rpartition("/")[2]
    for query, found in {
        "?owner=ben": [theirs],
        "?owner=nobody": [],
        "?status=failed": [dead],
        "?status=failed&status=queued": [theirs, dead],
        "?code=result_too_large": [dead],
        "?code=internal_error": [],
        "?created_before=2023-11-14T22:13:21Z": [dead],
        "?created_after=2023-11-14T22:13:21Z": [theirs],
        "?finished_after=2023-11-14T22:13:19Z": [dead],
        "?finished_before=2023-11-14T22:13:20Z": [],
    }.items():
        assert await ids(ops, query) == found, query


async def test_a_job_is_shown_with_its_history(api: Api, ops: Api) -> None:
    """What happened, who did it and why; the links are those that its state allows."""
    dead = await a_dead_letter(api)
    body = seen(await ops.get(f"{JOBS}/{dead}"))
    assert [line["event"] for line in body["history"]] == ["enqueue", "claim", "fail"]
    assert (body["owner"], body["error_code"], body["status"]) == ("ann", "result_too_large", "failed")
    assert body["links"] == {"self": f"{JOBS}/{dead}", "requeue": f"{JOBS}/{dead}/requeue", "cancel": None}


async def test_a_result_is_shown_until_it_is_gone(api: Api, ops: Api, clock: ManualClock) -> None:
    """Its size and digest, and then since when and why it cannot be read."""
    path = await api.finished_export()
    address = f"{JOBS}/{path.rpartition('/')[2]}"
    result = seen(await ops.get(address))["result"]
    assert (result["rows"], result["gone_at"]) == (2, None)
    clock.advance(timedelta(days=8))
    assert seen(await ops.get(address))["result"]["gone_reason"] == "expired"


async def test_a_requeued_dead_letter_succeeds(api: Api, ops: Api, clock: ManualClock) -> None:
    """It is queued again under the new policy, made by the next claim, and its history names the token's user."""
    dead = await a_dead_letter(api)
    clock.advance(timedelta(hours=2))
    body = seen(await ops.post(f"{JOBS}/{dead}/requeue", json={**WHY, "attempts": 2, "deadline_seconds": 60}))
    assert (body["status"], body["deadline_at"]) == ("queued", "2023-11-15T00:14:20Z")
    assert body["max_attempts"] == 3
    await complete(api.application, "id,title\r\n")
    record = seen(await ops.get(f"{JOBS}/{dead}"))
    assert record["status"] == "succeeded"
    act = record["history"][3]
    assert (act["event"], act["actor"], act["reason"]) == ("requeue", "operator ops-only", WHY["reason"])


async def test_what_the_protocol_refuses_is_told_in_its_words(api: Api, ops: Api) -> None:
    """409 says which rule is missing, and nothing changes."""
    job_id = (await api.finished_export()).rpartition("/")[2]
    before = contents(api.application.settings.database_path)
    for act, words in {
        "requeue": "Cannot requeue a succeeded export: no rule leads there.",
        "cancel": "Cannot cancel a succeeded export: no rule leads there.",
    }.items():
        answer = await ops.post(f"{JOBS}/{job_id}/{act}", json=WHY)
        assert (answer.status_code, answer.json()["type"]) == (409, "/problems/event-refused")
        assert answer.json()["detail"] == words
    assert contents(api.application.settings.database_path) == before


@pytest.mark.parametrize(
    ("member", "stated"),
    [
        ("/reason", {}),
        ("/reason", {"reason": ""}),
        ("/reason", {"reason": "two\nlines"}),
        ("/attempts", {**WHY, "attempts": 0}),
        ("/deadline_seconds", {**WHY, "deadline_seconds": 86_401}),
        ("/why", {**WHY, "why": "so"}),
    ],
    ids=str,
)
async def test_an_order_that_cannot_be_meant_is_refused(
    member: str, stated: dict[str, object], api: Api, ops: Api
) -> None:
    """400 names the member, for one job and for a batch; nothing changes."""
    dead = await a_dead_letter(api)
    before = contents(api.application.settings.database_path)
    for path in (f"{JOBS}/{dead}/requeue", REQUEUE):
        answer = await ops.post(path, json=stated)
        assert answer.status_code == 400
        assert [fault["pointer"] for fault in answer.json()["errors"]] == [member]
    assert contents(api.application.settings.database_path) == before


async def test_a_cancelled_export_tells_who_and_why(api: Api, ops: Api) -> None:
    """Its owner sees that it was cancelled, the operators by whom."""
    path = await api.new_export()
    job_id = path.rpartition("/")[2]
    assert seen(await ops.post(f"{JOBS}/{job_id}/cancel", json=WHY))["status"] == "cancelled"
    assert (await api.get(path)).json()["error"]["code"] == "cancelled"
    act = seen(await ops.get(f"{JOBS}/{job_id}"))["history"][-1]
    assert (act["actor"], act["reason"]) == ("operator ops-only", WHY["reason"])


class TestBatch:
    """Many dead letters at once."""

    async def test_a_dry_run_tells_what_would_happen_and_changes_nothing(self, api: Api, ops: Api) -> None:
        """Not one row of any table differs; the same order without it does what was told."""
        dead = await a_dead_letter(api)
        await a_dead_letter(api.as_owner("ben"))
        order = {"filter": {"owner": "ann"}, **WHY}
        before = contents(api.application.settings.database_path)
        tried = seen(await ops.post(REQUEUE, json={**order, "dry_run": True}))
        assert contents(api.application.settings.database_path) == before
        done = seen(await ops.post(REQUEUE, json=order))
        assert tried["outcomes"] == done["outcomes"] == [{"id": dead, "refusal": None}]
        assert (tried["dry_run"], done["dry_run"]) == (True, False)
        assert await ids(ops, "?status=queued") == [dead]

    async def test_a_batch_is_bounded_and_says_that_there_is_more(self, api: Api, ops: Api) -> None:
        """The same order again goes on with the rest, until there is none."""
        for number in range(3):
            await a_dead_letter(api, f"key-{number}")
        told = [seen(await ops.post(REQUEUE, json={**WHY, "limit": 2})) for _ in range(3)]
        assert [(report["requeued"], report["has_more"]) for report in told] == [(2, True), (1, False), (0, False)]

    async def test_a_full_queue_ends_a_batch(self, api: Api) -> None:
        """What found room is requeued, the limit is named, and where there is none at all the answer is 503."""
        for number in range(2):
            await a_dead_letter(api, f"key-{number}")
        policies = api.application.policies
        tight = structs.replace(policies, admission=structs.replace(policies.admission, max_pending=1))
        async with api_of(replace(api.application, policies=tight)) as client:
            crowded = client.as_owner("ops-only")
            report = seen(await crowded.post(REQUEUE, json=WHY))
            assert (report["requeued"], report["halted_by"], report["has_more"]) == (1, "max_pending", True)
            (left,) = await ids(crowded, "?status=failed")
            for path in (REQUEUE, f"{JOBS}/{left}/requeue"):
                answer = await crowded.post(path, json=WHY)
                assert answer.status_code == 503
                assert int(answer.headers["Retry-After"]) >= 1


async def test_the_queue_is_told(api: Api, ops: Api, clock: ManualClock) -> None:
    """Counts, ages, rates, limits and workers."""
    await a_dead_letter(api)
    clock.advance(timedelta(seconds=5))
    await api.new_export("key-2")
    await claimed(api.application)
    await api.new_export("key-3")
    body = seen(await ops.get("/v1/operations/queue"))
    assert body["counts"] == {"queued": 1, "running": 1, "succeeded": 0, "failed": 1, "cancelled": 0}
    assert body["oldest_available_at"] == body["oldest_claim_at"] == body["at"] == "2023-11-14T22:13:25Z"
    assert body["rates"][0] == {
        "window_seconds": 60,
        "enqueued": 3,
        "requeued": 0,
        "succeeded": 0,
        "failed": 1,
        "cancelled": 0,
    }
    assert body["limits"][0]["name"] == "max_pending"
    assert body["workers"] == [{"id": "worker-1", "last_seen_at": body["at"], "running": 1}]


@pytest.mark.parametrize("operation", WITH_ID, ids=lambda operation: operation.id)
async def test_an_id_that_is_not_there_is_not_found(api: Api, ops: Api, operation: Operation) -> None:
    """Unknown and misspelt ids are one 404, also when something else is wrong."""
    known = (await api.new_export()).rpartition("/")[2]
    for spelt in (an_id(999), known.upper(), "%00", "7"):
        for content in ("{}", '{"reason": "so"}'):
            headers = {"Content-Type": "application/json"} if operation.body else {}
            answer = await ops.send(
                operation.method,
                operation.path.replace("{job_id}", spelt),
                headers=headers,
                content=content if operation.body else None,
            )
            assert answer.status_code == 404, answer.text


async def test_only_the_scope_of_operators_opens_the_operations(api: Api) -> None:
    """Neither tasks nor exports, nor both of them, are enough."""
    for name in ("tasks-only", "exports-only"):
        for path in ("/v1/operations/queue", JOBS):
            assert (await api.as_owner(name).get(path)).status_code == 403


async def test_no_answer_holds_a_lease_token_or_the_text_of_a_task(api: Api, ops: Api) -> None:
    """Whatever operators ask, and whatever they do."""
    await api.new_task(title="PLANTED-TITLE", description="PLANTED-DESCRIPTION")
    path = await api.new_export()
    job = await claimed(api.application)
    assert job.lease_token is not None
    await stage(api.application, job, *chunks_of("id,title\r\n1,PLANTED-TITLE\r\n"), rows_total=1)
    address = f"{JOBS}/{path.rpartition('/')[2]}"
    dead = await a_dead_letter(api, "key-2")
    answers = [
        await ops.get("/v1/operations/queue"),
        await ops.get(JOBS),
        await ops.get(address),
        await ops.post(REQUEUE, json={**WHY, "dry_run": True}),
        await ops.post(f"{JOBS}/{dead}/requeue", json=WHY),
        await ops.post(f"{address}/requeue", json=WHY),
        await ops.post(f"{address}/cancel", json=WHY),
        await ops.get(address),
    ]
    for answer in answers:
        assert "PLANTED" not in answer.text
        assert job.lease_token not in answer.text
        assert "lease_token" not in answer.text
