"""The OpenAPI 3.1 document of some operations: nothing in it is written twice, and nothing is left to be guessed."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from entrypoints.http import problem_types as types
from entrypoints.http.answers import PROBLEM_JSON
from entrypoints.http.bodies import ADVICE
from entrypoints.http.decoding import is_repeatable
from entrypoints.http.operation import Body, Header, Link, Operation, Reply
from entrypoints.http.problem_types import PROBLEMS, ProblemType
from entrypoints.http.problems import Place, Refused, problem_answer
from entrypoints.http.schemas import Fault, Problem
from entrypoints.http.vocabulary import ABOUT, FROM_ANYONE, HEADERS, PATH_PARAMETERS, TAGS, Json
from entrypoints.http.wire import schema_of

_VERSION: Final = "1.0.0"
_REFERENCE: Final = "#/components/schemas/{name}"
_OPTIONAL: Final = ".optional"
_RATE: Final = ("RateLimit", "RateLimit-Policy")
_SOMETIMES: Final = frozenset({"Retry-After", "Idempotent-Replayed", "Link", "Content-Encoding", *_RATE})
# Statuses that a request can get before it is known whose it is.
_MAYBE_OF_NOBODY: Final = frozenset({500, 503})
# Headers that the problems of a status always have.
_PROBLEM_HEADERS: Final[dict[int, tuple[str, ...]]] = {
    401: ("WWW-Authenticate",),
    403: ("WWW-Authenticate",),
    412: ("ETag",),
    429: ("Retry-After",),
    503: ("Retry-After",),
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
            "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The service that serves this document."}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": _schemas(operations),
            "parameters": {
                **{name: _path_parameter(name, about) for name, about in PATH_PARAMETERS.items()},
                **FROM_ANYONE,
            },
            "responses": _problems(operations),
            "headers": {
                **{name: {**about, "required": True} for name, about in HEADERS.items()},
                **{f"{name}{_OPTIONAL}": about for name, about in HEADERS.items() if name in _SOMETIMES},
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
    for name in FROM_ANYONE:
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
    answers = {str(reply.status): _reply(operation, reply) for reply in operation.replies}
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
    parts += [ADVICE[operation.method]] if types.UNSUPPORTED_MEDIA_TYPE in kinds else []
    parts += ["anyone"] if operation.scope is None else []
    parts += ["HEAD"] if operation.method == "HEAD" else []
    return ".".join(parts)


def _reply(operation: Operation, reply: Reply) -> Json:
    always = ("X-Request-Id", *reply.headers, *(() if operation.scope is None else _RATE))
    answer: Json = {
        "description": reply.description,
        "headers": _headers((*always, *reply.optional_headers), always=always),
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
        names.append(ADVICE[operation.method])
    optional = ["Retry-After"] if types.EXPORT_NOT_READY in kinds else []
    if operation.scope is not None and status != types.UNAUTHENTICATED.status:
        (optional if status in _MAYBE_OF_NOBODY else names).extend(_RATE)
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
