"""Holds every answer of a test against the committed contract, and remembers which statuses were seen."""

from collections import defaultdict
from datetime import timedelta

import httpx
import schemathesis
from litestar.types import Message, Receive, Scope, Send

from entrypoints.http.contract import OPERATIONS
from entrypoints.http.edge import CLIENT_GONE, Edge
from tests.tree import ROOT

CONTRACT = schemathesis.openapi.from_path(str(ROOT / "contracts" / "openapi.json"))
ROUTED = {(operation.method, operation.path): operation for operation in OPERATIONS}
# What the routing itself answers: the contract describes operations, and these are about there being none.
UNROUTED = {404, 405}

_seen: dict[str, set[int]] = defaultdict(set)


def missing_statuses() -> list[str]:
    """Return the documented statuses that no test has produced so far."""
    return [
        f"{operation.id} never answered {status}"
        for operation in OPERATIONS
        for status in sorted(documented(operation.method, operation.path) - _seen[operation.id])
    ]


def documented(method: str, path: str) -> set[int]:
    """Return the statuses that the contract has for an operation."""
    answers = CONTRACT.raw_schema["paths"][path][method.lower()]["responses"]
    return {int(status) for status in answers}


class Recorded:
    """The application, whose every answer must be one that the contract describes."""

    def __init__(self, application: Edge) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and look at the answer when it is over."""
        head: list[Message] = []
        body: list[bytes] = []

        async def observed(message: Message) -> None:
            if message["type"] == "http.response.start":
                head.append(message)
            elif message["type"] == "http.response.body":
                body.append(message["body"])
            await send(message)

        await self._application(scope, receive, observed)
        if head and head[0]["type"] == "http.response.start":
            self._check(scope, head[0]["status"], list(head[0]["headers"]), b"".join(body))

    def _check(self, scope: Scope, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        method, path = str(scope.get("method")), str(dict(scope).get("path_template"))
        operation = ROUTED.get((method, path))
        if operation is None:
            assert status in UNROUTED | {204}, f"{method} {scope['path']} has no operation and answered {status}"
            return
        if status == CLIENT_GONE:
            return
        _seen[operation.id].add(status)
        assert status in documented(method, path), f"{operation.id} answered {status}, which no one documented"
        if method != "HEAD":
            request = httpx.Request(method, "http://test/")
            response = httpx.Response(status, headers=headers, content=body, request=request)
            response.elapsed = timedelta()
            CONTRACT[path][method].validate_response(response)
