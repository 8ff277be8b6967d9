"""The words of the contract that no operation owns: what it is about, its headers, and parameters that many share."""

from typing import Any, Final

from entrypoints.http.headers import REQUEST_ID_PATTERN
from entrypoints.http.problem_types import PROBLEMS
from entrypoints.http.wire import UUID_PATTERN

Json = dict[str, Any]

ABOUT: Final = """\
Tasks, and exports of them that are made in the background and committed once.

Everything an owner sees is the owner's own: another owner's id, an unknown id and a malformed id are the same 404.
Members of JSON bodies and query parameters that are not described here are refused. Every error is a problem by
RFC 9457, whose `type` is the address of a page that says what to do. Within /v1 nothing that is described here is
taken away and no default changes; answers may gain members.
"""

TAGS: Final = {
    "tasks": "To-do items of an owner.",
    "exports": "Files of an owner's tasks, made by a worker.",
    "operations": "Every owner's exports and the queue, for whoever runs the service. The scope is `ops`.",
    "service": "The service itself. No token is needed.",
}

PATH_PARAMETERS: Final[dict[str, Json]] = {
    "task_id": {
        "description": "The id of a task: a UUID in lower case.",
        "schema": {"type": "string", "format": "uuid", "pattern": UUID_PATTERN},
    },
    "export_id": {
        "description": "The id of an export: a UUID in lower case.",
        "schema": {"type": "string", "format": "uuid", "pattern": UUID_PATTERN},
    },
    "job_id": {
        "description": "The id of an export of any owner: a UUID in lower case.",
        "schema": {"type": "string", "format": "uuid", "pattern": UUID_PATTERN},
    },
    "slug": {
        "description": "The last part of a problem's `type`.",
        "schema": {"type": "string", "enum": list(PROBLEMS)},
    },
}

HEADERS: Final[dict[str, Json]] = {
    "X-Request-Id": {
        "description": "The id of this request: the caller's own where it was well-formed.",
        "schema": {"type": "string", "pattern": REQUEST_ID_PATTERN},
    },
    "ETag": {
        "description": "The version of what is shown, for If-Match and If-None-Match.",
        "schema": {"type": "string", "pattern": '^"[!#-~]*"$'},
    },
    "Location": {"description": "Where it is.", "schema": {"type": "string", "format": "uri-reference"}},
    "Content-Location": {
        "description": "Of what the body is a representation.",
        "schema": {"type": "string", "format": "uri-reference"},
    },
    "Retry-After": {
        "description": "After how many seconds to ask again.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "RateLimit": {
        "description": "How many requests are left to the owner (`r`), and in how many seconds all are again (`t`).",
        "schema": {"type": "string", "pattern": '^"requests";r=[0-9]+;t=[0-9]+$'},
    },
    "RateLimit-Policy": {
        "description": "How many requests (`q`) an owner has in how many seconds (`w`), and at once.",
        "schema": {"type": "string", "pattern": '^"requests";q=[0-9]+;w=[0-9]+$'},
    },
    "Idempotent-Replayed": {
        "description": "An earlier request with the same key did this.",
        "schema": {"type": "string", "const": "true"},
    },
    "Link": {"description": "The next page (`rel=next`), where there is one.", "schema": {"type": "string"}},
    "WWW-Authenticate": {"description": "What a token needs (RFC 6750).", "schema": {"type": "string"}},
    "Accept": {"description": "The media types that a PUT accepts.", "schema": {"type": "string"}},
    "Accept-Post": {"description": "The media types that a POST accepts.", "schema": {"type": "string"}},
    "Accept-Patch": {"description": "The media types that a PATCH accepts.", "schema": {"type": "string"}},
    "Repr-Digest": {
        "description": "SHA-256 of the file in the content coding that is sent (RFC 9530).",
        "schema": {"type": "string", "pattern": "^sha-256=:[A-Za-z0-9+/]{43}=:$"},
    },
    "Content-Disposition": {"description": "A name for the file.", "schema": {"type": "string"}},
    "Content-Length": {
        "description": "The length of the file in the content coding that is sent.",
        "schema": {"type": "integer", "minimum": 0},
    },
    "Content-Encoding": {"description": "gzip where it was asked for.", "schema": {"type": "string", "const": "gzip"}},
    "Vary": {"description": "What the answer depends on.", "schema": {"type": "string"}},
}
# Any value is accepted: one that is not well-formed is not used.
FROM_ANYONE: Final[dict[str, Json]] = {
    "RequestId": {
        "name": "X-Request-Id",
        "in": "header",
        "description": "An id of the caller's choice, 1 to 128 of [A-Za-z0-9._-]; another one is replaced.",
        "schema": {"type": "string"},
        "example": "nightly-2026-01-31.7",
    },
    "TraceParent": {
        "name": "traceparent",
        "in": "header",
        "description": "The caller's trace (W3C Trace Context), kept with an export so that its work can be linked.",
        "schema": {"type": "string"},
        "example": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    },
}
