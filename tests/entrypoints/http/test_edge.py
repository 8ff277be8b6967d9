"""What every request passes, whether or not there is an operation for it."""

import pytest

from entrypoints.http.contract import OPERATIONS
from tests.entrypoints.http.api import Api

PATHS = sorted({operation.path for operation in OPERATIONS})


@pytest.mark.parametrize(
    "path",
    ["/", "/v1", "/v2/tasks", "/v1/tasks/", "/v1//tasks", "//v1/tasks", "/v1/tasks/x/y", "/V1/tasks", "/v1/tasks%2F",
     "/v1/exports/x/", "/docs", "/schema", "/v1/tasks/%2e%2e/exports", "/health/live/", "/%00", "/v1/t%C3%A4sks"],
)  # fmt: skip
async def test_where_there_is_nothing_the_answer_is_a_problem(path: str, api: Api) -> None:
    """404 as a problem, for paths that are spelt almost right too, and without asking for a token."""
    answer = await api.client.get(path)
    assert (answer.status_code, answer.headers["Content-Type"]) == (404, "application/problem+json")
    assert answer.json()["type"] == "/problems/not-found"
    assert answer.json()["request_id"] == answer.headers["X-Request-Id"]


@pytest.mark.parametrize("path", PATHS)
async def test_a_path_names_its_methods(path: str, api: Api) -> None:
    """OPTIONS and 405 name exactly the methods of the contract, and OPTIONS; a body's media types are told."""
    operations = [operation for operation in OPERATIONS if operation.path == path]
    allowed = ", ".join(sorted({operation.method for operation in operations} | {"OPTIONS"}))
    url = path.replace("{", "").replace("}", "")
    options = await api.client.options(url)
    assert (options.status_code, options.headers["Allow"], options.content) == (204, allowed, b"")
    for operation in operations:
        if operation.body is not None and operation.method in {"POST", "PATCH"}:
            assert options.headers[f"Accept-{operation.method}"] == ", ".join(operation.body.media_types)
    for method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"} - set(allowed.split(", ")):
        answer = await api.client.request(method, url)
        assert (answer.status_code, answer.headers["Allow"]) == (405, allowed), method
        assert answer.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["/health/live", "/nothing", "/v1/tasks"])
async def test_a_well_formed_request_id_comes_back(path: str, api: Api) -> None:
    """The caller's own id is echoed on every answer; a malformed or doubled one is replaced by a new one."""
    own = await api.client.get(path, headers={"X-Request-Id": "A.b_c-7"})
    assert own.headers["X-Request-Id"] == "A.b_c-7"
    for wrong in ("", "a b", "x" * 129, "ä", "a,b"):
        answer = await api.client.get(path, headers=[(b"x-request-id", wrong.encode())])
        assert answer.headers["X-Request-Id"].startswith("0198c0de-"), wrong
    twice = await api.client.get(path, headers=[("X-Request-Id", "a"), ("X-Request-Id", "a")])
    assert twice.headers["X-Request-Id"].startswith("0198c0de-")


async def test_answers_are_not_kept_by_caches_unless_they_say_so(api: Api) -> None:
    """Every answer forbids sniffing, and keeping, where it does not state its own rule."""
    for path, rule in {"/health/live": "no-store", "/nothing": "no-store", "/openapi.json": "no-cache"}.items():
        answer = await api.client.get(path)
        assert (answer.headers["Cache-Control"], answer.headers["X-Content-Type-Options"]) == (rule, "nosniff")


async def test_a_problem_names_the_path_and_not_the_query(api: Api) -> None:
    """What was in the query, a secret perhaps, comes back nowhere; the path is a URI reference."""
    answer = await api.get("/v1/tasks/t%C3%A4sk?token=secret-word")
    assert answer.json()["instance"] == "/v1/tasks/t%C3%A4sk"
    assert "secret-word" not in answer.text


async def test_the_log_tells_route_and_status_and_nothing_of_the_caller(
    api: Api, json_logs: None, capfd: pytest.CaptureFixture[str]
) -> None:
    """One line a request: method, route template, status, duration, id; never path, query, token or body."""
    del json_logs
    await api.get("/v1/tasks/some-id?secret=word", headers={"X-Request-Id": "mine"})
    lines = [line for line in capfd.readouterr().err.splitlines() if "request.finished" in line]
    assert len(lines) == 1
    for told in ('"method":"GET"', '"route":"/v1/tasks/{task_id}"', '"status":400', '"request_id":"mine"'):
        assert told in lines[0]
    for secret in ("some-id", "word", "fp_ann"):
        assert secret not in lines[0]
