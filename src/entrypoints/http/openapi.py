"""The OpenAPI 3.1 document of some operations: nothing in it is written twice, and nothing is left to be guessed."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from entrypoints.http import problem_types as types
from entrypoints.http.answers import PROBLEM_JSON
from entrypoints.http.decoding import is_repeatable
from entrypoints.http.operation import Body, Header, Link, Operation, Reply
from entrypoints.http.problem_types import PROBLEMS, ProblemType
from entrypoints.http.problems import Place, Refused, problem_answer
from entrypoints.http.schemas import Fault, Problem
from entrypoints.http.wire import UUID_PATTERN, schema_of

Json = dict[str, Any]

_VERSION: Final = "1.0.0"
_REFERENCE: Final = "#/components/schemas/{name}"
_ABOUT: Final = """\
Tasks, and exports of them that are made in the background and committed once.

Everything an owner sees is the owner's own: another owner's id, an unknown id and a malformed id are the same 404.
Members of JSON bodies and query parameters that are not described here are refused. Every error is a problem by
RFC 9457, whose `type` is the address of a page that says what to do. Within /v1 nothing that is described here is
taken away and no default changes; answers may gain members.
"""

_TAGS: Final = {
    "tasks": "To-do items of an owner.",
    "exports": "Files of an owner's tasks, made by a worker.",
    "service": "The service itself. No token is needed.",
}

_PATH_PARAMETERS: Final[dict[str, Json]] = {
    "task_id": {
        "description": "The id of a task: a UUID in lower case.",
        "schema": {"type": "string", "format": "uuid", "pattern": UUID_PATTERN},
    },
    "export_id": {
        "description": "The id of an export: a UUID in lower case.",
        "schema": {"type": "string", "format": "uuid", "pattern": UUID_PATTERN},
    },
    "slug": {
        "description": "The last part of a problem's `type`.",
        "schema": {"type": "string", "enum": list(PROBLEMS)},
    },
}

_HEADERS: Final[dict[str, Json]] = {
    "X-Request-Id": {
        "description": "The id of this request: the caller's own where it was well-formed.",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$"},
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
_OPTIONAL: Final = ".optional"
_SOMETIMES: Final = frozenset({"Retry-After", "Idempotent-Replayed", "Link", "Content-Encoding"})
# Headers that the problems of a status always have.
_PROBLEM_HEADERS: Final[dict[int, tuple[str, ...]]] = {
    401: ("WWW-Authenticate",),
    403: ("WWW-Authenticate",),
    412: ("ETag",),
    503: ("Retry-After",),
}
_ADVICE: Final = {"POST": "Accept-Post", "PATCH": "Accept-Patch", "PUT": "Accept"}

# Any value is accepted: one that is not well-formed is not used.
_FROM_ANYONE: Final[dict[str, Json]] = {
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


def document(operations: Sequence[Operation]) -> Json:
    """Return the document, its members in one order."""
    paths: dict[str, Json] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fencepost",
            "version": _VERSION,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The service that serves this document."}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": _schemas(operations),
            "parameters": {
                **{name: _path_parameter(name, about) for name, about in _PATH_PARAMETERS.items()},
                **_FROM_ANYONE,
            },
            "responses": _problems(operations),
            "headers": {
                **{name: {**about, "required": True} for name, about in _HEADERS.items()},
                **{f"{name}{_OPTIONAL}": about for name, about in _HEADERS.items() if name in _SOMETIMES},
            },
            "examples": {kind.slug: {"value": _problem_example(kind)} for kind in PROBLEMS.values()},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token that an operator issued; it begins with `fp_` and has one or more scopes.",
                }
            },
        },
    }


def _operation(operation: Operation) -> Json:
    return {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
        # OpenAPI 3.1 lets a bearer token name the scopes that it needs.
        "security": [] if operation.scope is None else [{"token": [operation.scope.value]}],
        "parameters": list(_parameters(operation)),
        **({"requestBody": _body(operation.body)} if operation.body else {}),
        "responses": _responses(operation),
    }


# ── What goes in ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _parameters(operation: Operation) -> Iterable[Json]:
    for name in operation.path_parameters:
        yield {"$ref": f"#/components/parameters/{name}"}
    if operation.query is not None:
        yield from _query(operation.query)
    for header in operation.headers:
        yield _header_parameter(header)
    for name in _FROM_ANYONE:
        yield {"$ref": f"#/components/parameters/{name}"}


def _path_parameter(name: str, about: Json) -> Json:
    return {"name": name, "in": "path", "required": True, **about}


def _query(query: type[Struct]) -> Iterable[Json]:
    schemas = _components([query])[query.__name__]["properties"]
    for field in fields(query):
        schema = schemas[field.encode_name]
        # A parameter is there or not: what is null in a body is left out of a query.
        if "anyOf" in schema:
            schema = next(choice for choice in schema["anyOf"] if choice != {"type": "null"})
        parameter = {"name": field.encode_name, "in": "query", "required": False}
        if is_repeatable(field.type):
            parameter |= {"style": "form", "explode": True}
        schema = {name: value for name, value in schema.items() if not (name == "default" and value in ([], None))}
        yield {**parameter, "schema": schema}


def _header_parameter(header: Header[Any]) -> Json:
    return {
        "name": header.name,
        "in": "header",
        "required": header.missing is not None,
        "description": header.description,
        "schema": {"type": "string", "format": header.format, "pattern": header.pattern},
        "example": header.example,
    }


def _body(body: Body) -> Json:
    schema = _reference(body.into) if body.into else {"type": "string", "description": "A file in UTF-8."}
    return {
        "required": True,
        "content": {name: {"schema": schema, "example": example} for name, example in body.examples.items()},
    }


# ── What comes out ────────────────────────────────────────────────────────────────────────────────────────────────────


def _responses(operation: Operation) -> Json:
    answers = {str(reply.status): _reply(reply) for reply in operation.replies}
    problems = sorted(operation.all_problems, key=lambda kind: kind.status)
    for status, kinds in groupby(problems, key=lambda kind: kind.status):
        answers[str(status)] = {"$ref": f"#/components/responses/{_problem_name(operation, list(kinds))}"}
    return dict(sorted(answers.items()))


def _problems(operations: Iterable[Operation]) -> Json:
    """Return every response that is a problem, once: operations refuse much for the same reasons."""
    found: Json = {}
    for operation in operations:
        problems = sorted(operation.all_problems, key=lambda kind: kind.status)
        for status, kinds in groupby(problems, key=lambda kind: kind.status):
            alike = list(kinds)
            found[_problem_name(operation, alike)] = _problem(operation, status, alike)
    return dict(sorted(found.items()))


def _problem_name(operation: Operation, kinds: Sequence[ProblemType]) -> str:
    parts = [kind.slug for kind in kinds]
    parts += [_ADVICE[operation.method]] if types.UNSUPPORTED_MEDIA_TYPE in kinds else []
    parts += ["HEAD"] if operation.method == "HEAD" else []
    return ".".join(parts)


def _reply(reply: Reply) -> Json:
    names = ("X-Request-Id", *reply.headers, *reply.optional_headers)
    answer: Json = {
        "description": reply.description,
        "headers": _headers(names, always=("X-Request-Id", *reply.headers)),
    }
    has_content = reply.status not in {204, 304} and not reply.is_empty
    if has_content:
        schema = _reference(reply.content) if reply.content else _free_form(reply.media_type)
        example = {} if reply.example is None else {"example": msgspec.to_builtins(reply.example)}
        answer["content"] = {reply.media_type: {"schema": schema, **example}}
    if reply.links:
        answer["links"] = {name: _link(link) for name, link in reply.links.items()}
    return answer


def _free_form(media_type: str) -> Json:
    return {"type": "object"} if media_type.endswith("json") else {"type": "string"}


def _headers(names: Iterable[str], *, always: Iterable[str]) -> Json:
    required = set(always)
    return {name: {"$ref": f"#/components/headers/{name}{'' if name in required else _OPTIONAL}"} for name in names}


def _link(link: Link) -> Json:
    return {
        "operationId": link.operation_id,
        "parameters": dict(link.parameters),
        "description": link.description,
    }


def _problem(operation: Operation, status: int, kinds: Sequence[ProblemType]) -> Json:
    names = ["X-Request-Id", *_PROBLEM_HEADERS.get(status, ())]
    if status == types.UNSUPPORTED_MEDIA_TYPE.status:
        names.append(_ADVICE[operation.method])
    optional = ["Retry-After"] if types.EXPORT_NOT_READY in kinds else []
    answer: Json = {
        "description": " ".join(f"`{kind.slug}`: {kind.title}." for kind in kinds),
        "headers": _headers([*names, *optional], always=names),
    }
    if operation.method != "HEAD":
        answer["content"] = {
            PROBLEM_JSON: {
                "schema": _reference(Problem),
                "examples": {kind.slug: {"$ref": f"#/components/examples/{kind.slug}"} for kind in kinds},
            }
        }
    return answer


def _problem_example(kind: ProblemType) -> Json:
    place = Place(request_id="nightly-2026-01-31.7", instance="/v1/tasks")
    shown: Json = msgspec.json.decode(problem_answer(Refused(kind, kind.meaning), place).body)
    return shown


# ── Schemas ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _schemas(operations: Iterable[Operation]) -> Json:
    used: list[type[Struct]] = [Problem, Fault]
    for operation in operations:
        used += [operation.body.into] if operation.body and operation.body.into else []
        used += [reply.content for reply in operation.replies if reply.content]
    enums = {
        name: schema
        for operation in operations
        if operation.query
        for name, schema in _components([operation.query]).items()
        if name != operation.query.__name__
    }
    return dict(sorted({**enums, **_components(dict.fromkeys(used))}.items()))


def _components(structs: Iterable[type[Struct]]) -> Json:
    _, components = msgspec.json.schema_components(list(structs), schema_hook=schema_of, ref_template=_REFERENCE)
    return {name: _typed(schema) for name, schema in components.items()}


def _typed(schema: Json) -> Json:
    """Say the type of an enumeration, which generators of clients ask for."""
    return {"type": "string", **schema} if "enum" in schema and "type" not in schema else schema


def _reference(struct: type[Struct]) -> Mapping[str, str]:
    return {"$ref": _REFERENCE.format(name=struct.__name__)}
