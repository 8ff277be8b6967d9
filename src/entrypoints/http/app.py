"""The application: the operations on their routes, behind one edge that every request passes."""

from collections.abc import Sequence
from typing import Any, Final

from litestar import Litestar, Request, Response
from litestar.enums import HttpMethod
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException
from litestar.handlers import HTTPRouteHandler

from domain.errors import LimitReached, Refusal
from entrypoints.bootstrap import Application
from entrypoints.http import problem_types as types
from entrypoints.http.answers import Answer
from entrypoints.http.bodies import ADVICE, ClientGone
from entrypoints.http.checks import check
from entrypoints.http.contract import OPERATIONS
from entrypoints.http.edge import CLIENT_GONE, Edge, place_of, report
from entrypoints.http.operation import Call, Operation
from entrypoints.http.problems import Refused, problem_answer
from entrypoints.http.rates import RequestRates

# What the request asked for can be answered: a refusal is not a defect, and is not logged as one.
_EXPECTED: Final = (Refused, Refusal)
# Here the header itself must say of which method it speaks; the one for PUT does not.
_ADVERTISED: Final = frozenset({"POST", "PATCH"})


def create_app(application: Application) -> Edge:
    """Return the ASGI application over ports that are open. Whoever opened them closes them afterwards."""
    by_path: dict[str, list[Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, []).append(operation)
    rates = RequestRates(
        application.policies.requests.share(application.settings.api_processes), clock=application.clock
    )
    # OPTIONS first: where a path has no handler for it yet, the framework adds one that knows a single method.
    handlers = [_options(path, operations) for path, operations in by_path.items()]
    handlers += [_endpoint(application, operation, rates) for operation in OPERATIONS]
    inner = Litestar(
        route_handlers=handlers,
        exception_handlers={Exception: _unrouted},
        openapi_config=None,
        logging_config=None,
        # Bodies are received within limits of their own, which end in a problem of ours.
        request_max_body_size=None,
    )
    return Edge(application, inner)


def _endpoint(application: Application, operation: Operation, rates: RequestRates) -> HTTPRouteHandler:
    async def endpoint(request: Request[Any, Any, Any]) -> Answer:
        place = place_of(request.scope)
        call = Call(
            application=application,
            operation=operation,
            scope=request.scope,
            receive=request.receive,
            place=place,
        )
        try:
            await check(call, rates)
            return await operation.handler(call)
        except ClientGone:
            return Answer(CLIENT_GONE)
        except _EXPECTED as error:
            answer = problem_answer(error, place)
            # A limit that is reached is a decision, and not something that failed.
            if answer.status >= types.INTERNAL_ERROR.status and not isinstance(error, LimitReached):
                report(error)
            return answer

    return _route(operation.path, operation.method, endpoint, name=operation.id)


def _options(path: str, operations: Sequence[Operation]) -> HTTPRouteHandler:
    headers = {"Allow": ", ".join(sorted({operation.method for operation in operations} | {"OPTIONS"}))}
    for operation in operations:
        if operation.body is not None and operation.method in _ADVERTISED:
            headers[ADVICE[operation.method]] = ", ".join(operation.body.media_types)

    async def options() -> Answer:
        return Answer(204, headers=headers)

    return _route(path, "OPTIONS", options, name=f"options of {path}")


def _route(path: str, method: str, function: Any, *, name: str) -> HTTPRouteHandler:  # noqa: ANN401 - any signature
    return HTTPRouteHandler(path.replace("}", ":str}"), http_method=[HttpMethod(method)], name=name, status_code=200)(
        function
    )


def _unrouted(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Answer what never reached an operation, and what an operation did not foresee."""
    match error:
        case NotFoundException():
            refused = Refused(types.NOT_FOUND, types.NOT_FOUND.meaning)
        case MethodNotAllowedException(headers=headers):
            methods = sorted(name.strip() for name in (headers or {}).get("allow", "").split(","))
            refused = Refused(types.METHOD_NOT_ALLOWED, types.METHOD_NOT_ALLOWED.meaning)
            refused.headers["Allow"] = ", ".join(methods)
        case HTTPException(status_code=status) if status < types.INTERNAL_ERROR.status:
            # The framework refuses a Host header that no host can have; its own words may quote the request.
            refused = Refused(types.INVALID_REQUEST, "The request line or a header cannot be meant.")
        case _:
            report(error)
            refused = Refused(types.INTERNAL_ERROR, types.INTERNAL_ERROR.meaning)
    answer = problem_answer(refused, place_of(request.scope))
    return Response(answer.body, status_code=answer.status, headers=answer.headers)
