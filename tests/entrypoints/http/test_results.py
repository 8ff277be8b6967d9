"""The file of an export over HTTP."""

import gzip
from base64 import b64encode
from datetime import timedelta
from hashlib import sha256

import pytest

from domain.export import ErrorCode, Failure, FailureKind
from tests.entrypoints.http.api import Api, damage, fail
from tests.fakes import ManualClock

TEXTS = ("id,title\r\n", "1,Water the plants\r\n" * 1000, "2,zoë\r\n")
WHOLE = "".join(TEXTS).encode()
PLAIN = {"Accept-Encoding": "identity"}
METHODS = pytest.mark.parametrize("method", ["GET", "HEAD"])


@METHODS
async def test_the_whole_file_is_sent_with_what_proves_it(method: str, api: Api) -> None:
    """Length, digest, name and cache rules are in the header section; a HEAD answer has it alone."""
    path = await api.finished_export(*TEXTS)
    result = (await api.get(path)).json()["result"]
    answer = await api.send(method, result["url"], headers=PLAIN)
    assert answer.status_code == 200
    assert answer.content == (WHOLE if method == "GET" else b"")
    assert int(answer.headers["Content-Length"]) == len(WHOLE) == result["bytes"]
    assert result["sha256"] == sha256(WHOLE).hexdigest()
    assert answer.headers["ETag"] == f'"{result["sha256"]}"'
    assert answer.headers["Repr-Digest"] == f"sha-256=:{b64encode(sha256(WHOLE).digest()).decode()}:"
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8; header=present" == result["media_type"]
    assert answer.headers["Cache-Control"] == "private, no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Vary"] == "Authorization, Accept-Encoding"
    name = "tasks-2023-11-14T221320Z.csv"
    assert answer.headers["Content-Disposition"] == f"attachment; filename=\"{name}\"; filename*=UTF-8''{name}"


@METHODS
async def test_the_stored_gzip_is_sent_to_who_asks_for_it(method: str, api: Api) -> None:
    """It is one gzip member with an ETag and a digest of its own, and holds the same file."""
    path = await api.finished_export(*TEXTS)
    request = api.client.build_request(
        method, f"{path}/result", headers={"Authorization": "Bearer fp_ann", "Accept-Encoding": "br, gzip;q=0.5"}
    )
    answer = await api.client.send(request, stream=True)
    raw = b"".join([piece async for piece in answer.aiter_raw()])
    assert answer.headers["Content-Encoding"] == "gzip"
    if method == "GET":
        assert (gzip.decompress(raw), len(raw)) == (WHOLE, int(answer.headers["Content-Length"]))
        assert answer.headers["ETag"] == f'"{sha256(raw).hexdigest()}"'
        assert answer.headers["Repr-Digest"] == f"sha-256=:{b64encode(sha256(raw).digest()).decode()}:"
    plain = await api.send(method, f"{path}/result", headers=PLAIN)
    assert "Content-Encoding" not in plain.headers
    assert plain.headers["ETag"] != answer.headers["ETag"]


@pytest.mark.parametrize("accepted", ["", "br", "*", "gzip;q=0", "identity, gzip;q=0.000", "gzip;level=9"])
async def test_gzip_is_sent_to_no_one_else(accepted: str, api: Api) -> None:
    """Who does not name gzip, or refuses it, gets the plain file."""
    path = await api.finished_export(*TEXTS)
    answer = await api.get(f"{path}/result", headers={"Accept-Encoding": accepted})
    assert ("Content-Encoding" in answer.headers, answer.content) == (False, WHOLE)


@METHODS
async def test_preconditions_are_about_the_bytes(method: str, api: Api) -> None:
    """If-None-Match with the digest is 304, If-Match without it 412 with the right one, a malformed one 400."""
    url = await api.finished_export(*TEXTS) + "/result"
    tag = (await api.send(method, url, headers=PLAIN)).headers["ETag"]
    for headers, status in (
        ({"If-None-Match": tag}, 304),
        ({"If-None-Match": f'"x", W/{tag}'}, 304),
        ({"If-None-Match": '"x"'}, 200),
        ({"If-Match": tag}, 200),
        ({"If-Match": "*"}, 200),
        ({"If-Match": f"W/{tag}"}, 412),
        ({"If-Match": '"x"', "If-None-Match": tag}, 412),
        ({"If-Match": "x"}, 400),
    ):
        answer = await api.send(method, url, headers={**PLAIN, **headers})
        assert answer.status_code == status, headers
        assert status == 400 or answer.headers["ETag"] == tag
        assert status != 304 or (answer.content, answer.headers["Vary"]) == (b"", "Authorization, Accept-Encoding")


@METHODS
async def test_a_file_that_is_not_there_says_why(method: str, api: Api, clock: ManualClock) -> None:
    """Not ready, failed, cancelled, deleted and expired are told apart; only the first is worth asking again."""
    queued = await api.new_export(key="queued")
    not_ready = await api.send(method, f"{queued}/result")
    assert (not_ready.status_code, "Retry-After" in not_ready.headers) == (409, True)
    await fail(api.application, Failure(FailureKind.PERMANENT, ErrorCode.RESULT_TOO_LARGE, "x"))
    cancelled = await api.new_export(key="cancelled")
    await api.post(f"{cancelled}/cancel")
    deleted = await api.finished_export(key="deleted")
    await api.send("DELETE", f"{deleted}/result")
    expired = await api.finished_export(key="expired")
    clock.advance(timedelta(days=7))
    for path, status, slug, member in (
        (queued, 409, "export-without-result", {"code": "result_too_large"}),
        (cancelled, 409, "export-without-result", {"code": "cancelled"}),
        (deleted, 410, "result-deleted", {"gone_at": "2023-11-14T22:13:20Z"}),
        (expired, 410, "export-expired", {"gone_at": "2023-11-21T22:13:20Z"}),
    ):
        answer = await api.send(method, f"{path}/result")
        assert (answer.status_code, "Retry-After" in answer.headers) == (status, False)
        if method == "GET":
            assert answer.json()["type"] == f"/problems/{slug}"
            assert member.items() <= answer.json().items()


async def test_a_file_can_be_read_until_its_last_millisecond(api: Api, clock: ManualClock) -> None:
    """`expires_at` is a promise: readable until then, and not after."""
    path = await api.finished_export()
    clock.advance(timedelta(days=7) - timedelta(milliseconds=1))
    assert (await api.get(f"{path}/result")).status_code == 200
    clock.advance(timedelta(milliseconds=1))
    assert (await api.get(f"{path}/result")).status_code == 410


@pytest.mark.parametrize("age", [timedelta(0), timedelta(days=30)], ids=["readable", "expired"])
async def test_deleting_the_file_leaves_the_export(api: Api, clock: ManualClock, age: timedelta) -> None:
    """204, and the export says since when and why; what has no file cannot be deleted."""
    path = await api.finished_export()
    clock.advance(age)
    assert (await api.send("DELETE", f"{path}/result")).status_code == 204
    body = (await api.get(path)).json()
    assert (body["status"], body["result"], body["links"]["result"]) == ("succeeded", None, None)
    assert body["result_gone"]["reason"] == "deleted"
    assert (await api.send("DELETE", f"{path}/result")).status_code == 410
    queued = await api.new_export(key="queued")
    assert (await api.send("DELETE", f"{queued}/result")).status_code == 409


@METHODS
async def test_damage_that_is_seen_before_the_first_byte_is_a_problem(method: str, api: Api) -> None:
    """500 `result-damaged`, and not a byte of the file."""
    path = await api.finished_export(*TEXTS)
    damage(api.application, 0)
    answer = await api.send(method, f"{path}/result", headers=PLAIN)
    assert answer.status_code == 500
    assert "ETag" not in answer.headers
    if method == "GET":
        assert answer.json()["type"] == "/problems/result-damaged"
        assert "chunk 0" not in answer.text
