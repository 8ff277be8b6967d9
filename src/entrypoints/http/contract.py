"""THE CONTRACT: every operation of the API, and the OpenAPI document that is made from them, committed and served."""

import json
from functools import lru_cache
from typing import Final

from domain.parameters import digest
from entrypoints.http import exports, imports, limits, operations, public, results, tasks
from entrypoints.http.answers import JSON, Answer
from entrypoints.http.headers import etag
from entrypoints.http.openapi import document
from entrypoints.http.operation import IF_NONE_MATCH, Call, Operation, Reply


async def show(call: Call) -> Answer:
    """Show the contract that this process keeps, unless the client has it."""
    contract, tag = openapi_json(), _tag()
    headers = {"ETag": etag(tag), "Cache-Control": "no-cache"}
    had = call.header(IF_NONE_MATCH)
    if had is not None and had.match_weakly(tag):
        return Answer(304, headers=headers)
    return Answer(200, contract, headers={"Content-Type": JSON, **headers})


OPERATIONS: Final[tuple[Operation, ...]] = (
    *tasks.OPERATIONS,
    *imports.OPERATIONS,
    *exports.OPERATIONS,
    *results.OPERATIONS,
    *limits.OPERATIONS,
    *operations.OPERATIONS,
    *public.OPERATIONS,
    Operation(
        id="getContract",
        method="GET",
        path="/openapi.json",
        tag="service",
        summary="Read this contract",
        description="The OpenAPI document of this very process.",
        handler=show,
        headers=(IF_NONE_MATCH,),
        replies=(
            Reply(status=200, description="An OpenAPI 3.1 document.", headers=("ETag",)),
            Reply(status=304, description="The client has the contract.", headers=("ETag",)),
        ),
    ),
)


@lru_cache(maxsize=1)
def openapi_json() -> bytes:
    """Return the contract as it is committed and served: the same bytes every time."""
    return json.dumps(document(OPERATIONS), indent=2, ensure_ascii=False).encode() + b"\n"


@lru_cache(maxsize=1)
def _tag() -> str:
    return digest(openapi_json().decode())
