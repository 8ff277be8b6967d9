"""A client for tests: owners by name, requests that are sound unless a test says otherwise."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
from msgspec import Struct, structs

from adapters.sqlite import driver
from domain.account import OwnerId, Scope, TokenId
from domain.export import Chunk, ErrorCode, ExportJob, Failure, FailureKind, LeaseToken
from domain.ports import UnitOfWork
from domain.rate import RatePolicy
from domain.use_cases.accounts import add_user, issue_token
from domain.use_cases.work import claim_export, complete_export, fail_export, holder_of, stage_chunk
from entrypoints.bootstrap import Application
from entrypoints.http.app import create_app
from entrypoints.http.operation import Operation
from tests.builders import a_rendered_file, chunks_of
from tests.entrypoints.http.recorder import Recorded

KEYED = {"Idempotency-Key": "key-1"}
ANY_VERSION = {"If-Match": "*"}
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
CSV = {"Content-Type": "text/csv"}
DEAD = Failure(FailureKind.PERMANENT, ErrorCode.RESULT_TOO_LARGE, "ResultTooLarge")


def token_of(name: str) -> str:
    """Return the token of an owner."""
    return f"fp_{name}"


def set_up_owner(uow: UnitOfWork, name: str, *, scopes: frozenset[Scope]) -> OwnerId:
    """Add an owner, with a token for these scopes that is named like the owner."""
    owner = add_user(uow, name)
    issue_token(uow, name, token_id=TokenId(f"token of {name}"), token=token_of(name), scopes=scopes)
    return owner.id


class Api(Struct, frozen=True):
    """Sends requests to an application, as one owner or another."""

    application: Application
    client: httpx.AsyncClient
    owner: str = "ann"

    async def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        **more: Any,  # noqa: ANN401 - those of httpx
    ) -> httpx.Response:
        """Send a request with the owner's token, unless another one is stated."""
        return await self.client.request(
            method, path, headers={"Authorization": f"Bearer {token_of(self.owner)}", **(headers or {})}, **more
        )

    async def get(self, path: str, **more: Any) -> httpx.Response:  # noqa: ANN401
        """Send a GET."""
        return await self.send("GET", path, **more)

    async def post(self, path: str, **more: Any) -> httpx.Response:  # noqa: ANN401
        """Send a POST."""
        return await self.send("POST", path, **more)

    async def patch(self, path: str, json: object, *, headers: Mapping[str, str]) -> httpx.Response:
        """Send a merge patch."""
        content = httpx.Request("POST", "http://test", json=json).content
        return await self.send("PATCH", path, content=content, headers={**MERGE_PATCH, **headers})

    async def import_file(self, content: str | bytes, query: str = "", **headers: str) -> httpx.Response:
        """Import a CSV file."""
        return await self.post(f"/v1/tasks/import{query}", content=content, headers={**CSV, **headers})

    def as_owner(self, name: str) -> "Api":
        """Return the same client, speaking for another owner."""
        return Api(self.application, self.client, name)

    async def new_task(self, **members: object) -> str:
        """Make a task; return its path."""
        answer = await self.post("/v1/tasks", json={"title": "Water the plants", **members})
        assert answer.status_code == 201, answer.text
        return str(answer.headers["Location"])

    async def new_export(self, key: str = "key-1", **members: object) -> str:
        """Ask for an export; return its path."""
        answer = await self.post("/v1/exports", json=members, headers={"Idempotency-Key": key})
        assert answer.status_code == 202, answer.text
        return str(answer.headers["Location"])

    async def finished_export(self, *texts: str, key: str = "key-1") -> str:
        """Ask for an export and complete it with a file of these chunks; return its path."""
        path = await self.new_export(key)
        await complete(self.application, *(texts or ("id,title\r\n", "1,Water the plants\r\n")))
        return path


@asynccontextmanager
async def api_of(application: Application) -> AsyncIterator[Api]:
    """Give a client of the application, whose answers are held against the contract."""
    transport = httpx.ASGITransport(Recorded(create_app(application)))  # type: ignore[arg-type]  # ASGI in other words
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield Api(application, client)


def impatient(application: Application) -> Application:
    """Return the application as it is when it waits for nobody."""
    settings = structs.replace(application.settings, receive_seconds=0.2, import_receive_seconds=0.2)
    return replace(application, settings=settings)


def with_requests(application: Application, *, quota: int) -> Application:
    """Return the application with another quota of requests in a minute."""
    rate = RatePolicy(quota=quota, window_seconds=60)
    return replace(application, policies=structs.replace(application.policies, requests=rate))


def with_admission(application: Application, **limits: object) -> Application:
    """Return the application with other limits of what it accepts."""
    admission = structs.replace(application.policies.admission, **limits)
    return replace(application, policies=structs.replace(application.policies, admission=admission))


async def a_path_of(api: Api, operation: Operation) -> str:
    """Return a path of the operation that leads to something of the owner's, in a state in which it can be done."""
    path = operation.path.replace("{slug}", "not-found")
    if "{task_id}" in path:
        path = path.replace("/v1/tasks/{task_id}", await api.new_task())
    if "{export_id}" in path:
        made = await api.finished_export(key=api.application.randomness.new_id())
        path = path.replace("/v1/exports/{export_id}", made)
    if "{job_id}" in path:
        made = await api.new_export(key=api.application.randomness.new_id())
        path = path.replace("{job_id}", made.rpartition("/")[2])
        if operation.id == "requeueJob":
            await fail(api.application, DEAD)
    return path


async def claimed(application: Application) -> ExportJob:
    """Take the next export, as a worker does."""
    job = await application.store.write(
        claim_export,
        worker_id="worker-1",
        lease_token=LeaseToken(application.randomness.new_secret()),
        lease=application.policies.lease,
    )
    assert job is not None
    return job


async def stage(application: Application, job: ExportJob, *chunks: Chunk, rows_total: int) -> None:
    """Stage chunks of a claimed export."""
    for chunk in chunks:
        await application.store.write(
            stage_chunk, holder_of(job), chunk, rows_total=rows_total, lease=application.policies.lease
        )


async def complete(application: Application, *texts: str) -> None:
    """Take the next export and complete it with a file of these chunks."""
    chunks = chunks_of(*texts)
    job = await claimed(application)
    await stage(application, job, *chunks, rows_total=len(chunks))
    await application.store.write(
        complete_export,
        holder_of(job),
        a_rendered_file(chunks, snapshot_at=application.clock.now()),
        policies=application.policies,
    )


async def fail(application: Application, failure: Failure) -> None:
    """Take the next export and fail it."""
    job = await claimed(application)
    await application.store.write(fail_export, holder_of(job), failure, jitter=0, policies=application.policies)


def tamper(application: Application, statement: str, *values: object) -> None:
    """Change one stored row in a way that no port can."""
    connection = driver.connect(application.settings.database_path)
    try:
        assert connection.execute(statement, values).rowcount == 1
    finally:
        connection.close()


def damage(application: Application, seq: int) -> None:
    """Flip the bits of one stored chunk."""
    tamper(
        application,
        "UPDATE export_result_chunks SET payload = CAST(zeroblob(length(payload)) AS BLOB) WHERE seq = ?",
        seq,
    )
