"""One API process: the application behind uvicorn, from the first accepted connection to the drained last one."""

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager
from signal import SIGINT, SIGTERM
from typing import ClassVar, Final

from uvicorn import Config, Server
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from entrypoints.bootstrap import Application, assemble, system_randomness
from entrypoints.http import problem_types as types
from entrypoints.http.app import create_app
from entrypoints.http.problem_types import ProblemType
from entrypoints.http.problems import Place, Refused, problem_answer
from entrypoints.listening import authority, listen
from entrypoints.settings import Settings, SettingsError
from entrypoints.telemetry import LogEvent, configure, logger

log = logger()

# How long a draining server waits for requests on connections that it has accepted: a request follows its connection
# within milliseconds, and who is silent for longer is not waited for.
_ARRIVAL_SECONDS: Final = 1.0


def serve(settings: Settings, *, fd: int | None) -> None:
    """Run `run_api` on the fastest event loop that is installed.

    Raises:
        SettingsError, StoreUnavailable: as `run_api`.
    """
    with asyncio.Runner(loop_factory=Config("", loop="auto", log_config=None).get_loop_factory()) as runner:
        runner.run(run_api(settings, fd=fd))


async def run_api(settings: Settings, *, fd: int | None) -> None:
    """Serve the API until SIGTERM or SIGINT, then let what has begun end within the drain time.

    The listening socket is the inherited descriptor `fd`, or one of its own on the configured address.

    Raises:
        SettingsError: the address cannot be listened on, or the descriptor is no socket.
        StoreUnavailable: the database cannot be opened; the message says what to type.
    """
    configure(settings)
    listener = listen(settings) if fd is None else _inherited_socket(fd)
    async with assemble(settings) as application:
        server = server_of(application, url=settings.public_base_url or _address(listener))
        loop = asyncio.get_running_loop()
        for number in (SIGTERM, SIGINT):
            loop.add_signal_handler(number, server.drain)
        await server.serve(sockets=[listener])
    log.info(LogEvent.API_STOPPED)


def server_of(application: Application, *, url: str) -> "DrainingServer":
    """Return the server of an application, which says that it is ready under `url`."""
    limited = type("LimitedProtocol", (Protocol,), {"header_seconds": application.settings.receive_seconds})
    config = Config(
        create_app(application),
        http=limited,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        # Whom a proxy speaks for is nothing that this service acts upon.
        proxy_headers=False,
        timeout_graceful_shutdown=max(1, round(application.settings.drain_seconds)),
    )
    return DrainingServer(config, url=url, drain_seconds=application.settings.drain_seconds)


class DrainingServer(Server):
    """A server that tells when it is ready, and that its process can outlive: the database is closed after it."""

    def __init__(self, config: Config, *, url: str, drain_seconds: float) -> None:
        super().__init__(config)
        self._url = url
        self._drain_seconds = drain_seconds

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections, and say where."""
        await super().startup(sockets)
        log.info(LogEvent.API_READY, url=self._url)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to `run_api`: uvicorn would raise them again at the end, before the database is closed."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept nothing more, let the requests arrive that are on their way, and end when all are answered.

        Without the wait uvicorn would close a connection that it accepted an instant before its request came.
        """
        for server in self.servers:
            server.close()
        connections = [found for found in self.server_state.connections if isinstance(found, Protocol)]
        arriving = [asyncio.ensure_future(found.request_is_here.wait()) for found in connections]
        if arriving:
            _, silent = await asyncio.wait(arriving, timeout=min(_ARRIVAL_SECONDS, self._drain_seconds))
            for waiting in silent:
                waiting.cancel()
        await super().shutdown(sockets)

    def drain(self) -> None:
        """Accept nothing more; the second time, wait for nothing either."""
        log.info(LogEvent.API_DRAINING)
        self.force_exit = self.should_exit
        self.should_exit = True


class Protocol(HttpToolsProtocol):
    """HTTP/1.1 with a limit to the time in which a header section arrives, and refusals that are problems like all.

    The server itself waits for ever for a client that sends a byte now and then.
    """

    header_seconds: ClassVar[float]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Wait for the first request."""
        self._header_deadline: asyncio.TimerHandle | None = None
        # Not while one is to come on a new connection, or has come in part.
        self.request_is_here = asyncio.Event()
        super().connection_made(transport)
        self._expect_header()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._forget_header()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Wait for the rest of a header section whose first bytes are here."""
        super().on_message_begin()
        self._expect_header()

    def on_headers_complete(self) -> None:
        """Begin the request: from here on its body has a limit of its own."""
        self._forget_header()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - ours says the same in our form
        """Answer what cannot be read as a request, and close the connection."""
        self._refuse(types.INVALID_REQUEST, "The request line or a header cannot be read as HTTP/1.1.")

    def _expect_header(self) -> None:
        self.request_is_here.clear()
        if self._header_deadline is None:
            self._header_deadline = self.loop.call_later(self.header_seconds, self._header_is_late)

    def _forget_header(self) -> None:
        self.request_is_here.set()
        if self._header_deadline is not None:
            self._header_deadline.cancel()
            self._header_deadline = None

    def _header_is_late(self) -> None:
        self._header_deadline = None
        if not self.transport.is_closing():
            self._refuse(types.REQUEST_TIMEOUT, f"The request was not there after {self.header_seconds:g} seconds.")

    def _refuse(self, kind: ProblemType, detail: str) -> None:
        place = Place(request_id=system_randomness().new_id(), instance="")
        answer = problem_answer(Refused(kind, detail), place)
        headers = {**answer.headers, "Connection": "close", "X-Request-Id": place.request_id}
        lines = [f"{name.lower()}: {value}\r\n".encode("latin-1") for name, value in headers.items()]
        self.transport.write(b"".join([STATUS_LINE[answer.status], *lines, b"\r\n", answer.body]))
        self.transport.close()


def _inherited_socket(fd: int) -> socket.socket:
    try:
        listener = socket.socket(fileno=fd)
        listener.getsockname()
    except OSError as error:
        raise SettingsError(f"descriptor {fd} is no socket: {error.strerror}") from error
    return listener


def _address(listener: socket.socket) -> str:
    name = listener.getsockname()
    if not isinstance(name, tuple):
        return str(name)
    return f"http://{authority(*name[:2])}"
