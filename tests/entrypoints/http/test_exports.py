"""Exports over HTTP: asking, watching, cancelling."""

import dataclasses
from datetime import timedelta
from typing import Any

import anyio
import httpx
import pytest
from msgspec.structs import replace

from domain.errors import InvalidParameters
from domain.export import ErrorCode, Failure, FailureKind
from domain.policies import classify
from tests.builders import chunks_of
from tests.entrypoints.http.api import KEYED, Api, api_of, claimed, complete, fail, stage, tamper
from tests.fakes import ManualClock

# A second, made longer by chance.
SOON = {"1", "2"}
DEFAULTS: dict[str, Any] = {
    "format": "csv",
    "columns": ["id", "title", "description", "status", "priority", "due_at", "created_at", "updated_at", "version"],
    "filter": {
        "status": [], "priority": [], "due_before": None, "due_after": None, "created_before": None,
        "created_after": None, "updated_since": None,
    },
    "timezone": "UTC",
    "csv": {
        "delimiter": ",", "line_ending": "crlf", "bom": False, "quoting": "minimal", "formula_protection": "apostrophe",
    },
    "deadline_seconds": None,
}  # fmt: skip


async def ask(api: Api, body: object, key: str = "key-1") -> httpx.Response:
    """Ask for an export."""
    return await api.post("/v1/exports", json=body, headers={"Idempotency-Key": key})


async def test_an_export_is_accepted_and_shown_with_its_defaults(api: Api) -> None:
    """202 with Location, Content-Location, Retry-After and the whole body; the same is at its address."""
    made = await ask(api, {})
    assert made.status_code == 202
    body = made.json()
    assert body["request"] == DEFAULTS
    assert (body["status"], body["result"], body["result_gone"], body["error"]) == ("queued", None, None, None)
    path = made.headers["Location"]
    assert made.headers["Content-Location"] == path
    assert made.headers["Retry-After"] in SOON
    assert body["links"] == {"self": path, "result": None, "cancel": f"{path}/cancel"}
    read = await api.get(path)
    assert (read.status_code, read.json()) == (200, body)
    assert read.headers["Retry-After"] in SOON


async def test_the_shown_request_can_be_sent_again(api: Api) -> None:
    """What an export shows as its request is a request for an equal one: under the same key it is a replay."""
    asked: dict[str, Any] = {
        "columns": ["title", "id"],
        "filter": {"status": ["open", "done", "open"], "priority": [4, 1], "due_before": "2026-01-01T01:00:00+01:00"},
        "timezone": "Europe/Berlin",
        "csv": {"delimiter": "\t", "bom": True},
        "deadline_seconds": 60,
    }
    shown = (await ask(api, asked)).json()["request"]
    assert shown["filter"]["status"] == ["done", "open"]
    assert shown["filter"]["due_before"] == "2026-01-01T00:00:00Z"
    again = await ask(api, shown)
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (202, "true")


async def test_a_replay_shows_the_same_export_in_its_current_state(api: Api) -> None:
    """The same key with equal parameters is answered by 202, the same address, and what became of the export."""
    first = await ask(api, {"columns": ["id"], "csv": {}})
    assert "Idempotent-Replayed" not in first.headers
    await complete(api.application, "id\r\n")
    again = await ask(api, {"csv": {"delimiter": ","}, "columns": ["id"]})
    assert (again.status_code, again.headers["Location"]) == (202, first.headers["Location"])
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json()["status"] == "succeeded"
    await api.send("DELETE", f"{first.headers['Location']}/result")
    gone = await ask(api, {"columns": ["id"]})
    assert (gone.json()["result"], gone.json()["result_gone"]["reason"]) == (None, "deleted")
    assert len((await api.get("/v1/exports")).json()["exports"]) == 1


async def test_a_quoted_and_a_bare_key_are_one(api: Api) -> None:
    """A structured-field string and the same word without quotes name the same request."""
    first = await ask(api, {}, key="abc")
    assert (await ask(api, {}, key='"abc"')).json()["id"] == first.json()["id"]
    spaced = await ask(api, {}, key='"a \\"b\\" \\\\c, d"')
    assert spaced.json()["id"] != first.json()["id"]
    assert (await ask(api, {}, key='"a \\"b\\" \\\\c, d"')).json()["id"] == spaced.json()["id"]


async def test_the_same_key_with_other_parameters_names_what_differs(api: Api) -> None:
    """409 with the members that differ, and no second export."""
    await ask(api, {})
    conflict = await ask(api, {"timezone": "Asia/Tokyo", "filter": {"priority": [1]}, "csv": {"bom": True}})
    assert conflict.status_code == 409
    assert conflict.json()["members"] == ["/csv/bom", "/filter/priority", "/timezone"]
    assert len((await api.get("/v1/exports")).json()["exports"]) == 1


async def test_another_owners_key_is_another_key(api: Api) -> None:
    """Owners do not meet in their keys."""
    mine = (await ask(api, {})).json()["id"]
    assert (await ask(api.as_owner("ben"), {"timezone": "Asia/Tokyo"})).json()["id"] != mine


async def test_fifty_equal_requests_at_once_make_one_export(api: Api) -> None:
    """One inserts, the others replay."""
    answers: list[httpx.Response] = []

    async def send() -> None:
        answers.append(await ask(api, {}))

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(send)
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sum("Idempotent-Replayed" not in answer.headers for answer in answers) == 1


async def test_a_key_is_needed(api: Api) -> None:
    """Without a key 400 `idempotency-key-missing`, before anything about the body."""
    answer = await api.post("/v1/exports", json={"colour": "green"})
    assert (answer.status_code, answer.json()["type"]) == (400, "/problems/idempotency-key-missing")


@pytest.mark.parametrize(
    "key", ["", " ", '""', "x" * 256, '"' + "x" * 256 + '"', "a b", "a,b", '"a', 'a"', "a;b", "é", '"a\\b"', "\t"]
)
async def test_a_key_that_cannot_be_meant_is_refused(key: str, api: Api) -> None:
    """Empty, too long, not printable, half quoted: 400 `idempotency-key-malformed`, and no export."""
    headers = [(b"authorization", b"Bearer fp_ann"), (b"idempotency-key", key.encode("utf-8"))]
    answer = await api.client.post("/v1/exports", json={}, headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (400, "/problems/idempotency-key-malformed")
    assert (await api.get("/v1/exports")).json()["exports"] == []


async def test_two_keys_are_refused(api: Api) -> None:
    """Two lines of the header are 400, equal ones too."""
    headers = [("Authorization", "Bearer fp_ann"), ("Idempotency-Key", "a"), ("Idempotency-Key", "a")]
    answer = await api.client.post("/v1/exports", json={}, headers=headers)
    assert answer.json()["type"] == "/problems/idempotency-key-malformed"


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"columns": []}, "/columns"),
        ({"columns": ["id", "id"]}, "/columns"),
        ({"columns": ["id", "colour"]}, "/columns/1"),
        ({"filter": {"priority": [1, 0]}}, "/filter/priority/1"),
        ({"filter": {"status": "open"}}, "/filter/status"),
        ({"filter": {"due_before": 7}}, "/filter/due_before"),
        ({"filter": {"colour": 1}}, "/filter/colour"),
        ({"filter": None}, "/filter"),
        ({"timezone": "Mars/Base"}, "/timezone"),
        ({"timezone": "utc"}, "/timezone"),
        ({"csv": {"delimiter": "x"}}, "/csv/delimiter"),
        ({"csv": {"bom": 1}}, "/csv/bom"),
        ({"format": "xlsx"}, "/format"),
        ({"deadline_seconds": 9}, "/deadline_seconds"),
        ({"deadline_seconds": 86_401}, "/deadline_seconds"),
        ({"deadline_seconds": 2**52}, "/deadline_seconds"),
        ({"deadline_seconds": -1}, "/deadline_seconds"),
    ],
)
async def test_parameters_that_cannot_be_meant_are_refused(body: object, where: str, api: Api) -> None:
    """400 names the place, nothing is stored, and the same key may be tried again."""
    refused = await ask(api, body)
    assert refused.status_code == 400
    assert [fault["pointer"] for fault in refused.json()["errors"]] == [where]
    assert (await ask(api, {})).status_code == 202


async def test_all_faults_of_an_export_are_named_at_once(api: Api) -> None:
    """Faults at any depth are found together."""
    answer = await ask(api, {"columns": [], "csv": {"bom": "x"}, "filter": {"status": ["late"]}, "timezone": "x"})
    places = {fault["pointer"] for fault in answer.json()["errors"]}
    assert places == {"/columns", "/csv/bom", "/filter/status/0", "/timezone"}


async def test_a_running_export_shows_how_far_it_is(api: Api, clock: ManualClock) -> None:
    """While an attempt works its progress is shown, and the ETag changes with it."""
    path = await api.new_export()
    job = await claimed(api.application)
    before = await api.get(path)
    assert (before.json()["status"], before.json()["progress"], before.json()["attempt_count"]) == ("running", None, 1)
    await stage(api.application, job, chunks_of("id\r\n1\r\n")[0], rows_total=7)
    during = await api.get(path, headers={"If-None-Match": before.headers["ETag"]})
    assert (during.status_code, during.json()["progress"]) == (200, {"rows_written": 2, "rows_total": 7})
    same = await api.get(path, headers={"If-None-Match": during.headers["ETag"]})
    assert (same.status_code, same.content) == (304, b"")
    assert same.headers["Retry-After"] in SOON
    clock.advance(timedelta(seconds=20))
    assert 5 <= int((await api.get(path)).headers["Retry-After"]) <= 10
    clock.advance(timedelta(hours=1))
    assert 15 <= int((await api.get(path)).headers["Retry-After"]) <= 30


async def test_a_succeeded_export_shows_its_file(api: Api, clock: ManualClock) -> None:
    """The result has address, size, digest, columns with their types, and until when it can be read."""
    path = await api.finished_export("id,title\r\n", "1,x\r\n")
    answer = await api.get(path)
    body = answer.json()
    result = body["result"]
    assert (body["status"], result["url"], body["links"]["result"]) == ("succeeded", f"{path}/result", f"{path}/result")
    assert (result["bytes"], result["rows"], body["links"]["cancel"]) == (15, 2, None)
    assert {"name": "title", "type": "text"} in result["columns"]
    assert "Retry-After" not in answer.headers
    clock.advance(timedelta(days=8))
    expired = await api.get(path, headers={"If-None-Match": answer.headers["ETag"]})
    assert expired.status_code == 200
    assert (expired.json()["result"], expired.json()["result_gone"]) == (
        None,
        {"at": result["expires_at"], "reason": "expired"},
    )


async def test_a_failed_export_says_why(api: Api) -> None:
    """The error has a stable code and a page; a worker's own words are not in it."""
    path = await api.new_export()
    await fail(api.application, Failure(FailureKind.PERMANENT, ErrorCode.RESULT_TOO_LARGE, "at /srv/secret"))
    body = (await api.get(path)).json()
    assert (body["status"], body["error"]["code"]) == ("failed", "result_too_large")
    assert "/srv/secret" not in str(body)
    page = await api.client.get(body["error"]["type"])
    assert (page.status_code, page.text.splitlines()[0]) == (200, body["error"]["title"])


async def test_a_request_that_cannot_be_read_any_more_does_not_hide_the_export(api: Api) -> None:
    """An export whose stored parameters are of another version shows `request: null`, and its state."""
    path = await api.new_export()

    parameters = '{"format":"dbf"}'
    tamper(api.application, "UPDATE export_jobs SET parameters_json = ? WHERE id = ?", parameters, path.split("/")[-1])
    await fail(api.application, classify(InvalidParameters("x")))
    body = (await api.get(path)).json()
    assert (body["request"], body["status"], body["error"]["code"]) == (None, "failed", "invalid_parameters")


async def test_an_export_can_be_cancelled_and_again(api: Api) -> None:
    """Cancelling is 200 and idempotent, also of a running export, whose holder is fenced off."""
    path = await api.new_export()
    await claimed(api.application)
    first = await api.post(f"{path}/cancel")
    assert (first.status_code, first.json()["status"], first.json()["error"]["code"]) == (200, "cancelled", "cancelled")
    again = await api.post(f"{path}/cancel")
    assert (again.status_code, again.json()) == (200, first.json())


async def test_an_export_that_ended_cannot_be_cancelled(api: Api) -> None:
    """409 of a succeeded and of a failed export, which stay as they are."""
    succeeded = await api.finished_export(key="a")
    failed = await api.new_export(key="b")
    await fail(api.application, Failure(FailureKind.PERMANENT, ErrorCode.INTERNAL_ERROR, "x"))
    for path, status in {succeeded: "succeeded", failed: "failed"}.items():
        answer = await api.post(f"{path}/cancel")
        assert (answer.status_code, answer.json()["type"]) == (409, "/problems/export-ended")
        assert (await api.get(path)).json()["status"] == status


async def test_exports_are_listed_newest_first_in_pages(api: Api, clock: ManualClock) -> None:
    """Pages lead through all exports of the owner; a status filter keeps to its kind."""
    paths = []
    for number in range(5):
        paths.append(await api.new_export(key=str(number)))
        clock.advance(timedelta(seconds=1))
    await api.post(f"{paths[0]}/cancel")
    await api.as_owner("ben").new_export()
    seen: list[str] = []
    path = "/v1/exports?limit=2"
    while path:
        page = await api.get(path)
        seen += [export["links"]["self"] for export in page.json()["exports"]]
        path = page.links["next"]["url"] if "next" in page.links else ""
    assert seen == paths[::-1]
    cancelled = (await api.get("/v1/exports?status=cancelled&status=failed")).json()["exports"]
    assert [export["links"]["self"] for export in cancelled] == [paths[0]]
    assert (await api.get("/v1/exports?status=lost")).status_code == 400


async def test_the_request_and_its_trace_are_kept_with_the_export(api: Api) -> None:
    """A well-formed X-Request-Id and traceparent are stored with the job; others are replaced or left out."""
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    await api.post("/v1/exports", json={}, headers={**KEYED, "X-Request-Id": "mine.1", "traceparent": trace})
    job = await claimed(api.application)
    assert (job.request_id, job.traceparent) == ("mine.1", trace)
    headers = {"Idempotency-Key": "b", "X-Request-Id": "no such", "traceparent": trace.upper()}
    made = await api.post("/v1/exports", json={}, headers=headers)
    job = await claimed(api.application)
    assert (job.request_id, job.traceparent) == (made.headers["X-Request-Id"], None)


async def test_addresses_are_behind_the_public_address_where_there_is_one(api: Api) -> None:
    """With a configured public address every link begins with it, whatever the Host header says."""
    settings = replace(api.application.settings, public_base_url="https://tasks.example/api/")
    async with api_of(dataclasses.replace(api.application, settings=settings)) as public:
        made = await ask(public, {})
        assert made.headers["Location"].startswith("https://tasks.example/api/v1/exports/")
        assert made.json()["links"]["self"] == made.headers["Location"]
        refused = await public.get("/v1/nothing", headers={"Host": "evil.example"})
    assert refused.json()["type"] == "https://tasks.example/api/problems/not-found"
