"""The supervisor: one API and several workers as child processes, kept up until it is told to stop.

It owns the listening socket. While the API is being restarted, connections wait in the socket's backlog and none is
refused. Children are in sessions of their own, so that a Ctrl-C reaches them through the supervisor, once.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from domain.ports import Randomness
from entrypoints.bootstrap import migrate_database, system_randomness
from entrypoints.listening import authority, listen, reachable
from entrypoints.resting import rest
from entrypoints.settings import Settings
from entrypoints.telemetry import LogEvent, configure, logger

log = logger()

# What a child ends with when it cannot be started as it is configured: to try again would change nothing.
EXIT_CONFIGURATION: Final = 2
EXIT_GIVEN_UP: Final = 1

# What a child may take beyond the drain time to close its database and end.
_CLOSING_SECONDS: Final = 5.0
# EX_OSERR of sysexits.h.
_EXIT_NOT_STARTED: Final = 71
_READY_WITHIN_SECONDS: Final = 10.0
_READY_AGAIN_SECONDS: Final = 0.1


class RestartPolicy(Struct, frozen=True, kw_only=True):
    """When a child that died is started again, and when that is given up.

    The first restart is prompt, each further one in a row waits twice as long up to the cap. A child that lived for
    `healthy_seconds` starts anew. One that never did, and ended itself with an error `hopeless_after` times, is not
    going to. To be killed does not count: an export that takes the worker's memory must not end the service.
    """

    floor_seconds: float = 0.1
    cap_seconds: float = 15.0
    healthy_seconds: float = 10.0
    hopeless_after: int = 6

    def pause(self, failures: int, *, jitter: float) -> float:
        """Return how many seconds to wait after so many deaths in a row; `jitter` in [0, 1) adds up to a half."""
        doublings = min(failures - 1, 16)
        return min(self.cap_seconds, self.floor_seconds * (1 << doublings)) * (1 + jitter / 2)


class Child(Struct, frozen=True, kw_only=True):
    """What one child process is to run: a command of the program, its environment, and descriptors that it inherits."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str]
    descriptors: tuple[int, ...]


async def run_up(settings: Settings, workers: int, *, on_ready: Callable[[str], None] | None = None) -> int:
    """Bring the service up and keep it up until SIGTERM or SIGINT; return the exit status of this process.

    The database is migrated first. `on_ready` is called once, with the address of the API, when it answers that it is
    ready. SIGHUP replaces the children one after another. The second SIGTERM or SIGINT kills them and this process.
    The status is not zero when a child could not be kept up.

    Raises:
        SettingsError: the API cannot listen on the configured address.
        StoreUnavailable: the database cannot be opened, or was written by a newer program.
    """
    configure(settings)
    migrate_database(settings)
    with closing(listen(settings)) as listener, _lifeline() as descriptor:
        host, port = listener.getsockname()[:2]
        serving = replace(settings, port=port)
        supervisor = Supervisor(
            children=_children(serving, workers, listener=listener.fileno(), lifeline=descriptor),
            address=(reachable(host), port),
            url=settings.public_base_url or f"http://{authority(settings.host, port)}",
            stop_within_seconds=settings.drain_seconds + _CLOSING_SECONDS,
            chance=system_randomness(),
            on_ready=on_ready or (lambda _: None),
        )
        return await supervisor.run()


@contextmanager
def _lifeline() -> Iterator[int]:
    """Give the descriptor that children watch: its other end closes when this process is gone, however it went."""
    watched, held = os.pipe()
    try:
        yield watched
    finally:
        os.close(held)
        os.close(watched)


def _children(settings: Settings, workers: int, *, listener: int, lifeline: int) -> list[Child]:
    environment = settings.to_environment()
    # -P: a directory named like one of our packages, where the service is started, must not be taken for it.
    grace_seconds = str(settings.drain_seconds + _CLOSING_SECONDS)
    start = (sys.executable, "-P", "-m", "entrypoints.child", str(lifeline), grace_seconds)
    api = Child(
        name="api",
        command=(*start, "api", "--fd", str(listener)),
        environment=environment,
        descriptors=(lifeline, listener),
    )
    return [api] + [
        Child(name=f"worker-{number}", command=(*start, "worker"), environment=environment, descriptors=(lifeline,))
        for number in range(1, workers + 1)
    ]


class _Kept:
    """A child and what became of it so far."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.process: asyncio.subprocess.Process | None = None
        self.failures = 0
        self.refusals = 0
        self.has_been_healthy = False
        self.is_being_replaced = False
        self.started = asyncio.Event()

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(number)


class Supervisor:
    """Starts the children, starts again what dies, and stops them all."""

    def __init__(  # noqa: PLR0913 - all named
        self,
        *,
        children: list[Child],
        address: tuple[str, int],
        url: str,
        stop_within_seconds: float,
        chance: Randomness,
        on_ready: Callable[[str], None],
        policy: RestartPolicy | None = None,
    ) -> None:
        self._kept = [_Kept(child) for child in children]
        self._address = address
        self._url = url
        self._stop_within_seconds = stop_within_seconds
        self._chance = chance
        self._on_ready = on_ready
        self._policy = policy or RestartPolicy()
        self._stopping = asyncio.Event()
        self._status = 0
        self._background: set[asyncio.Task[None]] = set()
        self._renewal: asyncio.Task[None] | None = None

    async def run(self) -> int:
        """Keep the children up until told to stop; return the exit status."""
        with self._signals():
            keeping = [asyncio.create_task(self._keep(kept)) for kept in self._kept]
            self._in_background(self._announce())
            try:
                await asyncio.wait(
                    [*keeping, asyncio.create_task(self._stopping.wait())], return_when="FIRST_COMPLETED"
                )
            finally:
                self._stopping.set()
                await self._stop(keeping)
                for task in self._background:
                    task.cancel()
        for task in keeping:
            task.result()
        log.info(LogEvent.SERVICE_STOPPED, status=self._status)
        return self._status

    # ── One child ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _keep(self, kept: _Kept) -> None:
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            started_at = loop.time()
            status = await self._live(kept)
            was_replaced, kept.is_being_replaced = kept.is_being_replaced, False
            if self._stopping.is_set():
                return
            if loop.time() - started_at >= self._policy.healthy_seconds:
                kept.failures, kept.has_been_healthy = 0, True
            if was_replaced:
                continue
            await rest(self._after_death(kept, status), unless=self._stopping)

    async def _live(self, kept: _Kept) -> int:
        """Start the child and wait until it ends; return its exit status, negative for a signal."""
        child = kept.child
        try:
            kept.process = process = await asyncio.create_subprocess_exec(
                *child.command,
                stdin=asyncio.subprocess.DEVNULL,
                env=child.environment,
                pass_fds=child.descriptors,
                start_new_session=True,
            )
        except OSError as error:
            # No memory or no process to be had, now: the same as a child that dies at once.
            log.error(LogEvent.CHILD_NOT_STARTED, child=child.name, reason=error.strerror)  # noqa: TRY400 - told in full
            return _EXIT_NOT_STARTED
        log.info(LogEvent.CHILD_STARTED, child=child.name, pid=process.pid)
        kept.started.set()
        if self._stopping.is_set():
            # Told to stop while the child was being made: whoever stops the others did not see it.
            kept.signal(signal.SIGTERM)
        return await process.wait()

    def _after_death(self, kept: _Kept, status: int) -> float:
        """Tell of the death and decide what follows; return how many seconds to wait before the next start."""
        kept.failures += 1
        pause = self._policy.pause(kept.failures, jitter=self._chance.fraction())
        log.warning(LogEvent.CHILD_EXITED, child=kept.child.name, **_told(status), again_in_seconds=round(pause, 2))
        kept.refusals += status > 0
        hopeless = not kept.has_been_healthy and kept.refusals >= self._policy.hopeless_after
        if status == EXIT_CONFIGURATION or hopeless:
            log.error(LogEvent.CHILD_GIVEN_UP, child=kept.child.name, deaths=kept.failures)
            self._status = status if status == EXIT_CONFIGURATION else EXIT_GIVEN_UP
            self._stopping.set()
        return pause

    # ── All of them ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def _stop(self, keeping: list[asyncio.Task[None]]) -> None:
        for kept in self._kept:
            # One that is being replaced was told already, and a second time would mean "at once".
            if not kept.is_being_replaced:
                kept.signal(signal.SIGTERM)
        _, going_on = await asyncio.wait(keeping, timeout=self._stop_within_seconds)
        if going_on:
            self._kill()
            await asyncio.wait(going_on)

    def _kill(self) -> None:
        for kept in self._kept:
            if kept.process is not None and kept.process.returncode is None:
                log.error(LogEvent.CHILD_KILLED, child=kept.child.name, pid=kept.process.pid)
                kept.process.kill()

    async def _replace_all(self) -> None:
        for kept in self._kept:
            if kept.process is None or kept.process.returncode is not None:
                continue
            kept.is_being_replaced = True
            kept.started.clear()
            kept.signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(self._stop_within_seconds):
                    await kept.started.wait()
            except TimeoutError:
                kept.signal(signal.SIGKILL)
                await kept.started.wait()

    async def _announce(self) -> None:
        while not await _answers_ready(self._address):
            await rest(_READY_AGAIN_SECONDS, unless=self._stopping)
            if self._stopping.is_set():
                return
        log.info(LogEvent.SERVICE_READY, url=self._url)
        self._on_ready(self._url)

    # ── Signals ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        handlers: dict[signal.Signals, Callable[[signal.Signals], None]] = {
            signal.SIGTERM: self._on_stop,
            signal.SIGINT: self._on_stop,
        }
        # Under nohup the hang-up of a terminal is ignored, and stays so. From a terminal it means that the person left;
        # a service without one takes it, as services do, for "begin anew".
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            handlers[signal.SIGHUP] = (
                self._on_stop if sys.stdin is not None and sys.stdin.isatty() else self._on_replace
            )
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler, number)
        try:
            yield
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)

    def _on_stop(self, number: signal.Signals) -> None:
        if self._stopping.is_set():
            self._kill()
            os._exit(128 + number)
        log.info(LogEvent.SERVICE_STOPPING, signal=number.name)
        self._stopping.set()

    def _on_replace(self, number: signal.Signals) -> None:
        # One at a time, also while it is between two children: a second SIGTERM would end a child at once.
        if self._renewal is None or self._renewal.done():
            log.info(LogEvent.SERVICE_RENEWING, signal=number.name)
            self._renewal = self._in_background(self._replace_all())

    def _in_background(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


def _told(status: int) -> dict[str, object]:
    if status >= 0:
        return {"exit_status": status}
    try:
        return {"killed_by": signal.Signals(-status).name}
    except ValueError:
        return {"killed_by": -status}


async def _answers_ready(address: tuple[str, int]) -> bool:
    # Spoken by hand, since a client library would take longer to import than the API to start. The connection waits in
    # the backlog until there is a process that accepts it.
    host, port = address
    try:
        async with asyncio.timeout(_READY_WITHIN_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            with closing(writer):
                request = f"GET /health/ready HTTP/1.1\r\nHost: {authority(host, port)}\r\nConnection: close\r\n\r\n"
                writer.write(request.encode())
                return b" 200 " in await reader.readline()
    except (OSError, TimeoutError):
        return False
