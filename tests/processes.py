"""Real processes of the program: started, watched through their log lines, stopped, and never left behind."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import IO, TypeVar

import anyio
import pytest

from adapters.system.clock import SystemClock
from entrypoints.settings import PREFIX, Settings

T = TypeVar("T")

# Two cores that others use as well: long enough that a slow start is not taken for a fault.
WITHIN_SECONDS = 30.0
_AGAIN_SECONDS = 0.02

# What is printed for people is pasted as they paste it. The service needs neither program, so a machine may lack them.
needs_curl = pytest.mark.skipif(
    shutil.which("curl") is None or shutil.which("sha256sum") is None, reason="curl and sha256sum are not installed"
)


class NotInTimeError(AssertionError):
    """What a test waited for did not happen within its limit."""


def eventually(check: Callable[[], T], *, within: float = WITHIN_SECONDS) -> T:
    """Return the first true value of `check`, asked again and again.

    Raises:
        NotInTimeError: it was never true within so many seconds.
    """
    clock, pause = SystemClock(), Event()
    ends = clock.monotonic() + within
    while True:
        if value := check():
            return value
        if clock.monotonic() >= ends:
            raise NotInTimeError(f"not within {within} seconds; the last value was {value!r}")
        pause.wait(_AGAIN_SECONDS)


async def eventually_so(check: Callable[[], Awaitable[T]], *, within: float = WITHIN_SECONDS) -> T:
    """As `eventually`, for a check that is awaited.

    Raises:
        NotInTimeError: it was never true within so many seconds.
    """
    clock = SystemClock()
    ends = clock.monotonic() + within
    while True:
        if value := await check():
            return value
        if clock.monotonic() >= ends:
            raise NotInTimeError(f"not within {within} seconds; the last value was {value!r}")
        await anyio.sleep(_AGAIN_SECONDS)


def free_port() -> int:
    """Return a port that nothing listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port


def is_alive(pid: int) -> bool:
    """Tell whether the process runs; one that ended and was not waited for yet does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    try:
        return state.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return not Path("/proc/self").exists()


class Running:
    """A process under test. What it writes to standard error is collected while it runs."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.lines: list[str] = []
        self.output: list[str] = []
        self._readers = [
            Thread(target=self._collect, args=(process.stderr, self.lines), daemon=True),
            Thread(target=self._collect, args=(process.stdout, self.output), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _collect(stream: IO[str] | None, into: list[str]) -> None:
        assert stream is not None
        into.extend(iter(stream.readline, ""))

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it ended."""
        return self._process.poll() is not None

    def events(self, name: str, **members: object) -> list[dict[str, object]]:
        """Return the log lines so far of that event whose members are as given."""
        found = []
        for line in tuple(self.lines):
            if not line.startswith("{"):
                continue
            event: dict[str, object] = json.loads(line)
            if event.get("event") == name and members.items() <= event.items():
                found.append(event)
        return found

    def event(
        self, name: str, *, within: float = WITHIN_SECONDS, count: int = 1, **members: object
    ) -> dict[str, object]:
        """Wait for the `count`th log line of that event whose members are as given, and return it.

        Raises:
            NotInTimeError: it was not written in time, or the process ended before; all of its lines are told.
        """

        def found() -> list[dict[str, object]] | None:
            ended = self.has_ended
            events = self.events(name, **members)
            if len(events) >= count:
                return events
            if ended and not any(reader.is_alive() for reader in self._readers):
                raise NotInTimeError(f"{name} {members} was not written before the end:\n{''.join(self.lines)}")
            return None

        try:
            events = eventually(found, within=within)
        except NotInTimeError as error:
            raise NotInTimeError(f"{name} {members}: {error}\n{''.join(self.lines)}") from error
        assert events is not None
        return events[count - 1]

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def ended(self, *, within: float = WITHIN_SECONDS) -> int:
        """Wait for its end; return its exit status, negative for a signal.

        Raises:
            NotInTimeError: it did not end in time; all of its lines are told.
        """
        try:
            status = self._process.wait(within)
        except subprocess.TimeoutExpired as error:
            raise NotInTimeError(f"it goes on after {within} seconds:\n{''.join(self.lines)}") from error
        for reader in self._readers:
            # A child of it that lives on keeps the stream open: not waited for.
            reader.join(1)
        return status

    def kill(self) -> None:
        """End it now, also when it is stopped, and wait for that."""
        if not self.has_ended:
            self._process.kill()
        self._process.wait(WITHIN_SECONDS)
        for reader, stream in zip(self._readers, (self._process.stderr, self._process.stdout), strict=True):
            reader.join(WITHIN_SECONDS)
            assert not reader.is_alive(), f"a process that {self.pid} started lives on"
            if stream is not None:
                stream.close()


def environment_for(settings: Settings, **more: str) -> dict[str, str]:
    """Return the environment of a process that is to have these settings and none of this process's own."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    return settings.to_environment(clean) | more


@contextmanager
def running(command: list[str], *, environment: Mapping[str, str], directory: Path) -> Iterator[Running]:
    """Start a command, and kill it when the block is left."""
    process = subprocess.Popen(
        command,
        cwd=directory,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    started = Running(process)
    try:
        yield started
    finally:
        started.kill()


@contextmanager
def fencepost(*arguments: str, settings: Settings, directory: Path) -> Iterator[Running]:
    """Start the program's command line with these settings, and kill it when the block is left."""
    command = [sys.executable, "-P", "-m", "entrypoints.cli.main", *arguments]
    with running(command, environment=environment_for(settings), directory=directory) as started:
        yield started
