"""What holds for all operations alike, tried on each of them."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import anyio
import httpx
import pytest

from domain.account import Scope
from domain.errors import PoolExhausted, StoreBusy, StoreUnavailable
from entrypoints.http.contract import OPERATIONS
from entrypoints.http.operation import Operation
from tests.builders import an_id
from tests.entrypoints.http.api import Api, a_path_of, api_of, impatient, with_requests
from tests.entrypoints.http.stores import failing_after_authentication, troubled

GUARDED = [operation for operation in OPERATIONS if operation.scope is not None]
WITH_BODY = [operation for operation in OPERATIONS if operation.body is not None]
# Operators see what is everybody's: for them there is no foreign id.
WITH_ID = [operation for operation in GUARDED if operation.path_parameters and operation.scope is not Scope.OPS]
ASKS_THE_STORE = [operation for operation in OPERATIONS if operation.scope or operation.path == "/health/ready"]
SECRET = "what no client may read"


def named(operation: Operation) -> str:
    """Return what a test of the operation is called."""
    return operation.id


async def sound(api: Api, operation: Operation, path: str | None = None, **more: object) -> httpx.Response:
    """Send a request that nothing is wrong with, but for what the test states."""
    path = path or await a_path_of(api, operation)
    headers = {"Idempotency-Key": "every-operation"} if operation.method == "POST" else {}
    if any(header.missing and header.name == "If-Match" for header in operation.headers):
        headers["If-Match"] = "*"
    content: str | None = None
    if operation.body is not None:
        media_type, example = next(iter(operation.body.examples.items()))
        headers["Content-Type"] = media_type
        content = example if isinstance(example, str) else json.dumps(example)
    stated: dict[str, Any] = {"content": content, **more}
    stated["headers"] = {**headers, **stated.pop("headers", {})}
    return await api.send(operation.method, path, **stated)


def problem_of(answer: httpx.Response, operation: Operation) -> dict[str, Any]:
    """Return the problem that an answer is; a HEAD answer has the header section alone."""
    assert answer.headers["Content-Type"] == "application/problem+json"
    if operation.method == "HEAD":
        assert answer.content == b""
        return {}
    problem: dict[str, Any] = answer.json()
    assert problem["status"] == answer.status_code
    assert problem["request_id"] == answer.headers["X-Request-Id"]
    return problem


@pytest.mark.parametrize("operation", OPERATIONS, ids=named)
async def test_an_unknown_query_parameter_is_refused(operation: Operation, api: Api) -> None:
    """A parameter that no one documented is 400, and named."""
    answer = await sound(api, operation, params={"colour": "green"})
    assert answer.status_code == 400
    if problem := problem_of(answer, operation):
        assert [fault["parameter"] for fault in problem["errors"]] == ["colour"]


@pytest.mark.parametrize("operation", GUARDED, ids=named)
async def test_a_request_without_a_valid_token_is_refused(operation: Operation, api: Api) -> None:
    """No token, another scheme, an unknown and a malformed token are 401; only an offered one is called invalid."""
    for offered, error in {
        None: None,
        "Basic YW5uOmFubg==": None,
        "Bearer": "invalid_token",
        "Bearer fp_unknown": "invalid_token",
        "Bearer fp_ann fp_ann": "invalid_token",
    }.items():
        headers = {"Authorization": offered or ""}
        answer = await sound(api, operation, operation.path, headers=headers)
        assert answer.status_code == 401, offered
        challenge = answer.headers["WWW-Authenticate"]
        assert challenge == 'Bearer realm="fencepost"' + (f', error="{error}"' if error else "")
        problem_of(answer, operation)


@pytest.mark.parametrize("operation", GUARDED, ids=named)
async def test_a_token_without_the_scope_is_refused(operation: Operation, api: Api) -> None:
    """403 names the scope that is missing, in the header and in the problem."""
    other = api.as_owner("exports-only" if operation.scope is Scope.TASKS else "tasks-only")
    answer = await sound(other, operation, operation.path)
    assert answer.status_code == 403
    assert answer.headers["WWW-Authenticate"].endswith(f'error="insufficient_scope", scope="{operation.scope}"')
    if problem := problem_of(answer, operation):
        assert problem["required_scope"] == operation.scope


@pytest.mark.parametrize("operation", GUARDED, ids=named)
async def test_an_owner_who_asks_too_often_is_told_when_to_come_back(operation: Operation, api: Api) -> None:
    """429 once the allowance is used up, before anything about the scope; with Retry-After and what is left."""
    async with api_of(with_requests(api.application, quota=1)) as client:
        first = await client.as_owner("ben").get("/v1/tasks")
        assert (first.status_code, first.headers["RateLimit"]) == (200, '"requests";r=0;t=60')
        assert first.headers["RateLimit-Policy"] == '"requests";q=1;w=60'
        for other in ("ben", "exports-only" if operation.scope is Scope.TASKS else "tasks-only"):
            await sound(client.as_owner(other), operation, operation.path)
            answer = await sound(client.as_owner(other), operation, operation.path)
            assert answer.status_code == 429
            assert 59 <= int(answer.headers["Retry-After"]) <= 120
            assert answer.headers["RateLimit"] == '"requests";r=0;t=60'
            if problem := problem_of(answer, operation):
                assert (problem["type"], problem["limit"]) == ("/problems/too-many-requests", "requests_per_owner")


@pytest.mark.parametrize("operation", GUARDED, ids=named)
async def test_every_answer_to_somebody_known_tells_what_is_left(operation: Operation, api: Api) -> None:
    """Good ones, refusals and defects alike; whoever is not known is told nothing."""
    path = await a_path_of(api, operation)
    application = replace(api.application, store=failing_after_authentication(api.application.store))
    async with api_of(application) as client:
        defect = await sound(client, operation, path)
    for answer in (await sound(api, operation, path), await sound(api, operation, path, params={"a": "b"}), defect):
        assert {"RateLimit", "RateLimit-Policy"} <= {name.title().replace("Ratel", "RateL") for name in answer.headers}
    assert defect.status_code == 500
    unknown = await sound(api, operation, path, headers={"Authorization": ""})
    assert not [name for name in unknown.headers if name.startswith("ratelimit")]


@pytest.mark.parametrize("operation", WITH_ID, ids=named)
async def test_what_is_not_the_owners_cannot_be_told_from_what_is_not(operation: Operation, api: Api) -> None:
    """A foreign, an unknown and a misspelt id get the same 404: equal headers, and an equal body but for its place."""
    foreign = await a_path_of(api, operation)
    known = foreign.split("/")[3]
    answers = []
    for spelt in (known, an_id(999), known.upper(), "import-me", "%00", "{" + known + "}", "7"):
        answer = await sound(api.as_owner("ben"), operation, foreign.replace(known, spelt))
        assert answer.status_code == 404, (spelt, answer.text)
        problem = problem_of(answer, operation)
        problem.pop("instance", None), problem.pop("request_id", None)
        # What tells requests apart, and how many of them there were before.
        others = {"x-request-id", "content-length", "ratelimit"}
        headers = {name: value for name, value in answer.headers.items() if name not in others}
        answers.append((problem, headers))
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("operation", WITH_BODY, ids=named)
async def test_another_media_type_is_refused_with_the_right_ones(operation: Operation, api: Api) -> None:
    """415 for a wrong, a missing, a doubled and a misspelt Content-Type, another charset, and a content coding."""
    assert operation.body is not None
    sound_one = operation.body.media_types[0]
    for headers in (
        {"Content-Type": "application/xml"},
        {"Content-Type": ""},
        {"Content-Type": "json"},
        {"Content-Type": f"{sound_one}; charset=latin-1"},
        {"Content-Encoding": "gzip"},
    ):
        answer = await sound(api, operation, headers=headers)
        assert answer.status_code == 415, headers
        problem_of(answer, operation)
        advice = {"POST": "Accept-Post", "PATCH": "Accept-Patch", "PUT": "Accept"}[operation.method]
        assert answer.headers[advice] == ", ".join(operation.body.media_types)


@pytest.mark.parametrize("operation", WITH_BODY, ids=named)
async def test_a_body_that_is_too_large_is_refused(operation: Operation, api: Api) -> None:
    """413 when the length is announced, and when it is not."""
    settings = api.application.settings
    limit = settings.import_max_bytes if operation.id == "importTasks" else settings.max_body_bytes

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(limit // 50_000 + 1):
            yield b" " * 50_000

    for content in (b" " * (limit + 1), pieces()):
        answer = await sound(api, operation, content=content)
        assert answer.status_code == 413
        problem_of(answer, operation)


@pytest.mark.parametrize("operation", WITH_BODY, ids=named)
async def test_a_body_that_does_not_arrive_is_given_up(operation: Operation, api: Api) -> None:
    """408 after the time that is configured, and the connection is not used again."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b" "
        await anyio.sleep_forever()

    path = await a_path_of(api, operation)
    async with api_of(impatient(api.application)) as client:
        answer = await sound(client, operation, path, content=pieces())
    assert answer.status_code == 408
    assert answer.headers["Connection"] == "close"
    problem_of(answer, operation)


@pytest.mark.parametrize("operation", ASKS_THE_STORE, ids=named)
@pytest.mark.parametrize("trouble", [PoolExhausted, StoreBusy, StoreUnavailable], ids=lambda kind: kind.__name__)
async def test_a_store_in_trouble_is_told_with_when_to_come_back(
    operation: Operation, trouble: type[Exception], api: Api
) -> None:
    """503 with Retry-After, and nothing of the store's own words."""
    application = replace(api.application, store=troubled(api.application.store, trouble(SECRET)))
    async with api_of(application) as client:
        answer = await sound(client, operation, operation.path)
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) >= 1
    assert SECRET not in answer.text
    problem_of(answer, operation)


@pytest.mark.parametrize("operation", ASKS_THE_STORE, ids=named)
async def test_a_defect_is_a_problem_without_words(operation: Operation, api: Api) -> None:
    """An exception that no one foresaw is 500, and its text reaches no client."""
    application = replace(api.application, store=troubled(api.application.store, RuntimeError(SECRET)))
    async with api_of(application) as client:
        answer = await sound(client, operation, operation.path)
    assert answer.status_code == 500
    assert SECRET not in answer.text
    assert "RuntimeError" not in answer.text
    problem_of(answer, operation)
