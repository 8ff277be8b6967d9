"""Tasks over HTTP."""

import httpx
import pytest

from tests.builders import an_id
from tests.entrypoints.http.api import ANY_VERSION, KEYED, MERGE_PATCH, Api


def pointers(answer: httpx.Response) -> set[str]:
    """Return the places in the body that a 400 names."""
    assert answer.status_code == 400, answer.text
    return {fault["pointer"] for fault in answer.json()["errors"]}


async def test_a_task_is_created_with_its_defaults_and_can_be_read_where_it_is(api: Api) -> None:
    """201 shows the whole task, Location leads to it, and the ETag is its version."""
    made = await api.post("/v1/tasks", json={"title": "Water the plants"})
    assert made.status_code == 201
    task = made.json()
    assert (task["status"], task["priority"], task["description"], task["due_at"]) == ("open", 3, "", None)
    assert made.headers["ETag"] == '"1"'
    read = await api.get(made.headers["Location"])
    assert (read.status_code, read.json(), read.headers["ETag"]) == (200, task, '"1"')


async def test_text_is_kept_exactly(api: Api) -> None:
    """White space, line breaks, combining and wide characters come back as they went in."""
    text = "  \u202e=1+1\r\n\t'zoë e\u0301 𐀀 \u200b "
    made = await api.post("/v1/tasks", json={"title": text, "description": text})
    assert (made.json()["title"], made.json()["description"]) == (text, text)


async def test_instants_are_understood_with_any_offset_and_shown_in_utc(api: Api) -> None:
    """An offset is another spelling of the same instant; a fraction is shown only when it is not zero."""
    made = await api.post("/v1/tasks", json={"title": "x", "due_at": "2026-01-31t09:30:00.500+01:00"})
    assert made.json()["due_at"] == "2026-01-31T08:30:00.500Z"


async def test_an_integer_with_a_zero_fraction_is_one(api: Api) -> None:
    """1.0 is an integer, as JSON Schema has it; 1.5 and "1" are not."""
    assert (await api.post("/v1/tasks", json={"title": "x", "priority": 1.0})).json()["priority"] == 1
    for wrong in (1.5, "1", True, None, 10**15, -0.5):
        assert pointers(await api.post("/v1/tasks", json={"title": "x", "priority": wrong})) == {"/priority"}


async def test_all_faults_are_named_at_once(api: Api) -> None:
    """Each fault of the body has its own JSON Pointer, unknown members included."""
    answer = await api.post(
        "/v1/tasks?colour=green",
        json={"description": "\0", "status": "late", "priority": 9, "due_at": "tomorrow", "a/b~": 1, "id": "x"},
    )
    assert answer.status_code == 400
    faults = {fault.get("pointer") or fault.get("parameter") for fault in answer.json()["errors"]}
    assert faults == {"/title", "/description", "/status", "/priority", "/due_at", "/a~1b~0", "/id", "colour"}


@pytest.mark.parametrize("title", ["", "x" * 501, 7, None, ["x"], {}])
async def test_a_title_that_cannot_be_kept_is_refused(title: object, api: Api) -> None:
    """400 names the title, and no task is made."""
    assert pointers(await api.post("/v1/tasks", json={"title": title})) == {"/title"}
    assert (await api.get("/v1/tasks")).json()["tasks"] == []


@pytest.mark.parametrize("body", [[], "x", 7, None, True])
async def test_a_body_that_is_no_object_is_refused(body: object, api: Api) -> None:
    """Any other JSON value is 400, at the root."""
    answer = await api.post("/v1/tasks", content=httpx.Request("POST", "http://x", json=body).content or b"null",
                            headers={"Content-Type": "application/json"})  # fmt: skip
    assert {fault["pointer"] for fault in answer.json()["errors"]} == {""}


async def test_the_same_key_makes_one_task_and_the_same_bytes(api: Api) -> None:
    """A replay is answered by the first answer, byte by byte, also after the task has changed."""
    first = await api.post("/v1/tasks", json={"title": "x"}, headers=KEYED)
    await api.patch(first.headers["Location"], {"title": "y"}, headers=ANY_VERSION)
    again = await api.post("/v1/tasks", json={"priority": 3.0, "title": "x"}, headers={"Idempotency-Key": '"key-1"'})
    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first.headers
    assert again.headers["Location"] == first.headers["Location"]
    assert len((await api.get("/v1/tasks")).json()["tasks"]) == 1


async def test_the_same_key_for_another_task_is_a_conflict(api: Api) -> None:
    """409, and nothing is made; another owner's key is another key."""
    await api.post("/v1/tasks", json={"title": "x"}, headers=KEYED)
    conflict = await api.post("/v1/tasks", json={"title": "y"}, headers=KEYED)
    assert conflict.status_code == 409
    assert conflict.json()["type"] == "/problems/idempotency-key-conflict"
    assert len((await api.get("/v1/tasks")).json()["tasks"]) == 1
    other = await api.as_owner("ben").post("/v1/tasks", json={"title": "y"}, headers=KEYED)
    assert (other.status_code, "Idempotent-Replayed" in other.headers) == (201, False)


async def test_pages_lead_through_all_tasks_in_order(api: Api) -> None:
    """Following Link or next_cursor shows every task once, and keeps the filters."""
    made = [(await api.post("/v1/tasks", json={"title": str(n), "priority": n % 2 + 1})).json()["id"] for n in range(7)]
    seen: list[str] = []
    path = "/v1/tasks?priority=1&priority=2&limit=3"
    while path:
        page = await api.get(path)
        assert page.status_code == 200
        seen += [task["id"] for task in page.json()["tasks"]]
        cursor = page.json()["next_cursor"]
        path = page.links["next"]["url"] if "next" in page.links else ""
        assert (cursor is not None) == bool(path)
        assert not cursor or (cursor in path and "priority=1&priority=2&limit=3" in path)
    assert seen == made


async def test_filters_select_what_they_say(api: Api) -> None:
    """Status, priority and instants are combined with *and*; bounds are strict, `updated_since` is not."""
    await api.new_task(status="done", priority=1, due_at="2026-01-01T00:00:00Z")
    await api.new_task(status="open", priority=1)
    for query, count in {
        "status=done": 1,
        "status=done&status=open": 2,
        "priority=1&status=in_progress": 0,
        "due_before=2026-01-01T00:00:00Z": 0,
        "due_before=2026-01-01T00:00:00.001Z": 1,
        "due_after=2025-12-31T23:59:59%2B00:00": 1,
        "created_after=2000-01-01T00:00:00Z&created_before=9999-12-30T00:00:00Z": 2,
        "updated_since=2023-11-14T22:13:20Z": 2,
        "updated_since=2023-11-14T22:13:20.001Z": 0,
    }.items():
        page = await api.get(f"/v1/tasks?{query}")
        assert len(page.json()["tasks"]) == count, query


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=201", "limit=1.0", "limit=007", "limit=", "limit=%D9%A1", "limit=1&limit=2",
        "limit=99999999999999999999999999", "status=", "status=Open", "priority=5", "priority=one",
        "due_before=2026-01-01", "due_before=2026-01-01T00:00:00", "created_after=2026-01-01T00:00:00+00:00",
        "updated_since=2026-02-30T00:00:00Z", "cursor=x", f"cursor=1.{an_id().upper()}", f"cursor=01.{an_id()}",
        "cursor=a&cursor=b", "%ff=1", "limit=%ff", "status=open%00",
    ],
)  # fmt: skip
async def test_a_query_that_cannot_be_meant_is_refused(query: str, api: Api) -> None:
    """400 names the parameter, whatever is wrong with it."""
    answer = await api.get(f"/v1/tasks?{query}")
    assert answer.status_code == 400, query
    assert all("parameter" in fault for fault in answer.json()["errors"])


async def test_every_well_formed_cursor_is_a_place(api: Api) -> None:
    """A cursor that no page ended with is still a position: before, between or after the tasks."""
    await api.new_task()
    for instant, count in {"-999999999999999": 1, "0": 1, "999999999999999": 0}.items():
        page = await api.get(f"/v1/tasks?cursor={instant}.{an_id()}")
        assert (page.status_code, len(page.json()["tasks"])) == (200, count)


async def test_a_task_that_the_client_has_is_not_sent_again(api: Api) -> None:
    """304 with the ETag when If-None-Match names the version, weakly or among others; 200 otherwise."""
    path = await api.new_task()
    for had, status in {'"1"': 304, 'W/"1"': 304, '"7", "1"': 304, "*": 304, '"2"': 200, '"01"': 200}.items():
        answer = await api.get(path, headers={"If-None-Match": had})
        assert (answer.status_code, answer.headers["ETag"]) == (status, '"1"'), had
    assert (await api.get(path, headers={"If-None-Match": "1"})).status_code == 400


async def test_a_change_needs_the_version_that_is_meant(api: Api) -> None:
    """Without If-Match 428, with a stale one 412 and the current ETag, with a malformed one 400; nothing changes."""
    path = await api.new_task()
    await api.patch(path, {"priority": 1}, headers={"If-Match": '"1"'})
    before = (await api.get(path)).json()
    for method, content, stated in (
        ("PUT", b'{"title":"y"}', {"Content-Type": "application/json"}),
        ("PATCH", b'{"title":"y"}', MERGE_PATCH),
        ("DELETE", b"", {}),
    ):
        missing = await api.send(method, path, content=content, headers=stated)
        assert missing.status_code == 428
        for condition, status in {'"1"': 412, 'W/"2"': 412, '"9", "8"': 412, "2": 400, '"2': 400, "": 400}.items():
            answer = await api.send(method, path, content=content, headers={**stated, "If-Match": condition})
            assert answer.status_code == status, (method, condition)
            assert status != 412 or answer.headers["ETag"] == '"2"'
    assert (await api.get(path)).json() == before


async def test_replacing_sets_every_member(api: Api) -> None:
    """PUT gives members that are left out their defaults; the version grows, and equal values keep it."""
    path = await api.new_task(description="soon", priority=1, due_at="2026-01-01T00:00:00Z")
    answer = await api.send("PUT", path, json={"title": "New"}, headers={"If-Match": '"7", "1"'})
    assert answer.status_code == 200
    task = answer.json()
    assert (task["title"], task["description"], task["priority"], task["due_at"]) == ("New", "", 3, None)
    assert (task["version"], answer.headers["ETag"]) == (2, '"2"')
    same = await api.send("PUT", path, json={"title": "New"}, headers=ANY_VERSION)
    assert same.json() == task


async def test_a_patch_sets_what_it_names(api: Api) -> None:
    """Members that are not named stay; null removes the due date and nothing else."""
    path = await api.new_task(due_at="2026-01-01T00:00:00Z", priority=1)
    answer = await api.patch(path, {"due_at": None, "status": "done"}, headers={"If-Match": '"1"'})
    assert (answer.json()["due_at"], answer.json()["status"], answer.json()["priority"]) == (None, "done", 1)
    faulty = await api.patch(path, {"title": None, "version": 3}, headers=ANY_VERSION)
    assert pointers(faulty) == {"/title", "/version"}
    assert (await api.patch(path, {}, headers=ANY_VERSION)).json() == answer.json()


async def test_a_deleted_task_is_as_if_it_never_was(api: Api) -> None:
    """204 without a body, and then 404 for everything."""
    path = await api.new_task()
    gone = await api.send("DELETE", path, headers={"If-Match": '"1"'})
    assert (gone.status_code, gone.content, "Content-Length" in gone.headers) == (204, b"", False)
    assert (await api.get(path)).status_code == 404
    assert (await api.send("DELETE", path, headers=ANY_VERSION)).status_code == 404


async def test_an_unknown_task_comes_before_what_is_wrong_with_the_request(api: Api) -> None:
    """The order is 404, then 428, then 400, then 412; syntax comes before all of them."""
    unknown, known = f"/v1/tasks/{an_id(999)}", await api.new_task()
    faulty = {"title": ""}
    assert (await api.send("PUT", unknown, json=faulty)).status_code == 404
    assert (await api.send("PUT", known, json=faulty)).status_code == 428
    assert (await api.send("PUT", known, json=faulty, headers={"If-Match": '"7"'})).status_code == 400
    assert (await api.send("PUT", known, json={"title": "x"}, headers={"If-Match": '"7"'})).status_code == 412
    syntax = await api.send("PUT", unknown, content=b"{", headers={"Content-Type": "application/json"})
    assert syntax.status_code == 400


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"\xff", b'{"title":"x"}x', b"[" * 100_000, b'{"title":' + b"[" * 40 + b"]" * 40 + b"}",
        b'{"title":"x","title":"y"}', b'{"title":NaN}', b'{"priority":1e999}', b'{"priority":' + b"9" * 5000 + b"}",
        b"\xef\xbb\xbf{}", b"{'title':'x'}", b'{"title":"\x01"}',
    ],
    ids=range(13),
)  # fmt: skip
async def test_what_is_not_json_is_refused(content: bytes, api: Api) -> None:
    """Syntax, encoding, depth and ambiguity are 400 `malformed-json`, without a word of the body."""
    answer = await api.post("/v1/tasks", content=content, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["type"]) == (400, "/problems/malformed-json")


@pytest.mark.parametrize("content", [b'{"title":"\\u0000"}', b'{"title":"x","due_at":{"\\ud800":1}}', b'{"x":1e30}'])
async def test_what_cannot_be_kept_is_refused_wherever_it_stands(content: bytes, api: Api) -> None:
    """NUL, half of a surrogate pair and numbers that others would round are 400, at any depth."""
    answer = await api.post("/v1/tasks", content=content, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["type"]) == (400, "/problems/invalid-request")
