"""The edge: what every request passes on its way in, and every answer on its way out, those of 404 and 405 included.

A request gets its id and its place, an odd path is refused before it can be normalised into another, an answer gets
the headers that all have, a defect becomes a problem without words, and one line is logged.
"""

from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import quote

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bound_contextvars

from domain.errors import ChunkDamaged, EnvironmentFailure
from entrypoints.bootstrap import Application
from entrypoints.http import problem_types as types
from entrypoints.http.headers import read_request_id, read_traceparent
from entrypoints.http.problems import Place, Refused, problem_answer
from entrypoints.telemetry import LogEvent, evidence_of, logger

log = logger()

# Nobody reads it: the client left. The number is the one that web servers log for that.
CLIENT_GONE: Final = 499
# Answers are about one owner and one moment; those that may be kept say so themselves.
_ALL_ANSWERS_HAVE: Final[Mapping[str, str]] = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


class Edge:
    """The ASGI application that a server runs. It holds nothing open: whoever assembled the application closes it."""

    def __init__(self, application: Application, inner: ASGIApp) -> None:
        self._application = application
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != ScopeType.HTTP:
            raise NotImplementedError(f"this application does not speak {scope['type']}")
        place = self._place(scope)
        begun = self._application.clock.monotonic()
        answer = _Observed(send, place)
        with bound_contextvars(request_id=place.request_id):
            try:
                await self._answer(scope, receive, answer, place)
            finally:
                milliseconds = (self._application.clock.monotonic() - begun) * 1000
                log.info(
                    LogEvent.REQUEST_FINISHED,
                    method=scope.get("method"),
                    route=cast("Mapping[str, Any]", scope).get("path_template", "none"),
                    status=answer.status,
                    duration_ms=round(milliseconds, 2),
                )

    async def _answer(self, scope: Scope, receive: Receive, answer: "_Observed", place: Place) -> None:
        path = scope["path"]
        if "//" in path or (path.endswith("/") and path != "/"):
            refused = Refused(types.NOT_FOUND, types.NOT_FOUND.meaning)
            await problem_answer(refused, place)(scope, receive, answer)
            return
        cast("dict[str, Any]", scope)["place"] = place
        try:
            await self._inner(scope, receive, answer)
        except Exception as error:  # noqa: BLE001 - the outermost handler of a request
            report(error)
            # Half an answer cannot be taken back: the server closes the connection, and the client sees it cut.
            if answer.status is None:
                await problem_answer(error, place)(scope, receive, answer)

    def _place(self, scope: Scope) -> Place:
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        randomness = self._application.randomness
        return Place(
            request_id=read_request_id(headers.get("x-request-id", [])) or randomness.new_id(),
            traceparent=read_traceparent(headers.get("traceparent", [])),
            instance=quote(scope["path"], safe="/:@!$&'()*+,;=-._~"),
            base_url=self._application.settings.public_base_url.rstrip("/"),
            jitter=randomness.fraction(),
        )


class _Observed:
    """A `send` that adds what all answers have, and remembers the status."""

    def __init__(self, send: Send, place: Place) -> None:
        self._send = send
        self._place = place
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            stated = list(message["headers"])
            names = {name for name, _ in stated}
            added = {"X-Request-Id": self._place.request_id, **_ALL_ANSWERS_HAVE, **self._place.headers}
            encoded = [(name.lower().encode(), value.encode()) for name, value in added.items()]
            message["headers"] = stated + [(name, value) for name, value in encoded if name not in names]
        await self._send(message)


def place_of(scope: Scope) -> Place:
    """Return where the request is, as the edge found it."""
    return cast("Place", cast("Mapping[str, Any]", scope)["place"])


def report(error: BaseException) -> None:
    """Tell operators why a request could not be answered; the text of a defect stays with them."""
    match error:
        case ChunkDamaged():
            log.error(LogEvent.RESULT_DAMAGED, **evidence_of(error))
        case EnvironmentFailure() | Refused():
            # Not a defect of the request's nor of ours: many at once are seen by their number.
            log.warning(LogEvent.REQUEST_FAILED, **evidence_of(error))
        case _:
            log.error(LogEvent.REQUEST_FAILED, **evidence_of(error))
