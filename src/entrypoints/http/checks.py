"""The checks that a request passes before its handler sees it, in one order for all operations.

Route, then who asks, how often they do, what the token may do, the body's size, its media type and its syntax; then
everything that is wrong with query, headers and body at once. Where an id is in the path, an unknown one comes before
those.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from domain.account import Principal
from domain.use_cases.accounts import authenticate
from entrypoints.http import problem_types as types
from entrypoints.http.bodies import check_announced_length, check_media_type, parse_json, received
from entrypoints.http.decoding import read_members, read_query
from entrypoints.http.headers import HeaderError, read_authorization
from entrypoints.http.operation import Body, Call, Header
from entrypoints.http.problems import Refused
from entrypoints.http.rates import RequestRates
from entrypoints.http.schemas import Fault

_REALM: Final = 'Bearer realm="fencepost"'


async def check(call: Call, rates: RequestRates) -> None:
    """Let the request pass, or refuse it with the first thing that is wrong in the order above.

    Raises:
        Refused: with everything that is wrong at that stage.
        Refusal: the store could not be asked, or does not have what the path names.
    """
    operation = call.operation
    if operation.scope is not None:
        call.principal = await _authenticated(call)
        _check_rate(call, rates)
        if operation.scope not in call.principal.scopes:
            raise Refused(
                types.INSUFFICIENT_SCOPE,
                f"This needs a token with the scope {operation.scope.value!r}.",
                headers={"WWW-Authenticate": f'{_REALM}, error="insufficient_scope", scope="{operation.scope.value}"'},
                required_scope=operation.scope.value,
            )
    stated: Mapping[str, Any] = {}
    faults: list[Fault] = []
    if operation.body is not None:
        _check_envelope(call, operation.body)
        if operation.body.into is not None:
            stated, faults = await _read_json(call, operation.body, operation.body.into)
    query, query_faults = read_query(call.scope["query_string"], operation.query)
    headers, own_problem, header_faults = _read_headers(call)
    faults = [*query_faults, *header_faults, *faults]
    if (own_problem or faults) and operation.locate is not None:
        await operation.locate(call)
    if own_problem is not None:
        raise own_problem
    if faults:
        raise Refused(types.INVALID_REQUEST, _summary(faults), faults=faults)
    call.accept(query=query, headers=headers, stated=stated)


async def _authenticated(call: Call) -> Principal:
    offered = read_authorization(call.header_values("Authorization"))
    if offered.token is not None:
        principal = await call.application.store.read(call.operation.bulkhead, authenticate, offered.token)
        if principal is not None:
            return principal
    challenge = f'{_REALM}, error="invalid_token"' if offered.is_bearer else _REALM
    detail = (
        "The bearer token is unknown, was revoked, or belongs to a disabled user."
        if offered.is_bearer
        else "The request carries no bearer token."
    )
    raise Refused(types.UNAUTHENTICATED, detail, headers={"WWW-Authenticate": challenge})


def _check_rate(call: Call, rates: RequestRates) -> None:
    found = rates.ask(call.owner_id)
    call.requests_left = found.remaining
    call.place.headers.update(rates.headers(found))
    if not found.is_granted:
        raise Refused(
            types.TOO_MANY_REQUESTS,
            types.TOO_MANY_REQUESTS.meaning,
            retry_after=timedelta(seconds=found.retry_after_seconds),
            limit="requests_per_owner",
        )


def _check_envelope(call: Call, body: Body) -> None:
    check_announced_length(call.header_values("Content-Length"), limit=body_limit(call))
    call.media_type = check_media_type(
        call.header_values("Content-Type"),
        call.header_values("Content-Encoding"),
        body.media_types,
        method=call.operation.method,
    )


def body_limit(call: Call) -> int:
    """Return how many bytes the body of this request may have."""
    settings = call.application.settings
    is_file = call.operation.body is not None and call.operation.body.into is None
    return settings.import_max_bytes if is_file else settings.max_body_bytes


async def _read_json(call: Call, body: Body, into: type[Any]) -> tuple[Mapping[str, Any], list[Fault]]:
    seconds = call.application.settings.receive_seconds
    pieces = [piece async for piece in received(call.receive, limit=body_limit(call), seconds=seconds)]
    value, faults = parse_json(b"".join(pieces))
    members, found = read_members(value, into)
    found += body.check(members) if body.check else []
    # What cannot be kept is not read either: one fault for each place is enough.
    named = {fault.pointer for fault in faults}
    return members, [*faults, *(fault for fault in found if fault.pointer not in named)]


def _read_headers(call: Call) -> tuple[dict[str, object], Refused | None, list[Fault]]:
    found: dict[str, object] = {}
    problem: Refused | None = None
    faults: list[Fault] = []
    for header in call.operation.headers:
        values = call.header_values(header.name)
        if not values:
            if header.missing is not None:
                problem = Refused(header.missing, header.missing.meaning)
            continue
        try:
            found[header.name] = header.read(values)
        except HeaderError as error:
            fault = Fault(str(error), header=header.name)
            faults.append(fault)
            problem = problem or _own_problem(header, fault)
    return found, problem, faults


def _own_problem(header: Header[Any], fault: Fault) -> Refused | None:
    if header.malformed is types.INVALID_REQUEST:
        return None
    return Refused(header.malformed, f"{header.name} {fault.detail}.", faults=[fault])


def _summary(faults: list[Fault]) -> str:
    first = faults[0]
    place = first.pointer or first.parameter or first.header or "the body"
    others = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{place}: {first.detail}{others}."
