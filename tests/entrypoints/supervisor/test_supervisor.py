"""The supervisor with children of a test's own making: what it starts again, gives up, stops and kills."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, strategies as st

from entrypoints.settings import LogFormat, Settings
from entrypoints.supervisor import EXIT_CONFIGURATION, EXIT_GIVEN_UP, Child, RestartPolicy, Supervisor
from tests.fakes import SequentialRandomness
from tests.processes import eventually_so

LIMIT_SECONDS = 20

# A child that notes each of its starts, and then does as it is told.
NOTE_START = """
import pathlib, signal, sys, time
def note(word):
    with pathlib.Path(sys.argv[1]).open("a") as file:
        file.write(word + "\\n")
def end(*_):
    note("end")
    sys.exit(0)
note("start")
"""
DIE = NOTE_START + "sys.exit(1)"
BE_KILLED = NOTE_START + "import os; os.kill(os.getpid(), signal.SIGKILL)"
REFUSE = NOTE_START + f"sys.exit({EXIT_CONFIGURATION})"
LIVE_A_LITTLE = NOTE_START + "time.sleep(0.3); sys.exit(1)"
NOTE_END = NOTE_START + "signal.signal(signal.SIGTERM, end); note('up'); time.sleep(60)"
IGNORE = NOTE_START + "signal.signal(signal.SIGTERM, signal.SIG_IGN); note('deaf'); time.sleep(60)"
DRAIN = (
    NOTE_START
    + """
def drain(*_):
    signal.signal(signal.SIGTERM, lambda *_: note("told-twice"))
    time.sleep(0.2)
    end()
signal.signal(signal.SIGTERM, drain)
note("up")
time.sleep(60)
"""
)


class Notes:
    """What the children of one test wrote down."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path(self, name: str) -> Path:
        """Return where a child of that name writes."""
        return self._directory / name

    def of(self, name: str) -> list[str]:
        """Return what it wrote."""
        path = self.path(name)
        return path.read_text().split() if path.exists() else []

    async def until(self, name: str, *expected: str) -> None:
        """Wait until it wrote this, and maybe more."""

        async def is_there() -> bool:
            return self.of(name)[: len(expected)] == [*expected]

        await eventually_so(is_there, within=LIMIT_SECONDS)


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    """Where the children write."""
    return Notes(tmp_path)


@asynccontextmanager
async def supervising(
    notes: Notes, children: dict[str, str], *, policy: RestartPolicy, stop_within_seconds: float = 10
) -> AsyncIterator["asyncio.Task[int]"]:
    """Supervise children that run the given code, and stop them all when the block is left."""
    urls: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        supervisor = Supervisor(
            children=[
                Child(
                    name=name,
                    command=(sys.executable, "-I", "-S", "-c", code, str(notes.path(name))),
                    environment={},
                    descriptors=(),
                )
                for name, code in children.items()
            ],
            address=deaf.getsockname(),
            url="http://deaf.example",
            stop_within_seconds=stop_within_seconds,
            chance=SequentialRandomness(),
            on_ready=urls.append,
            policy=policy,
        )
        with anyio.fail_after(LIMIT_SECONDS):
            running = asyncio.create_task(supervisor.run())
            yield running
            running.cancel()
            await asyncio.wait([running])
    # Nothing ever answered that it was ready.
    assert urls == []


PROMPT = RestartPolicy(floor_seconds=0.01, cap_seconds=0.02, healthy_seconds=30, hopeless_after=4)


async def test_a_child_that_never_lives_is_given_up(notes: Notes) -> None:
    """After so many deaths in a row everything is stopped, and the exit status says that it failed."""
    async with supervising(notes, {"dying": DIE, "other": NOTE_END}, policy=PROMPT) as running:
        assert await running == EXIT_GIVEN_UP
    assert notes.of("dying") == ["start"] * 4


async def test_a_child_that_lived_is_started_again_for_ever(notes: Notes) -> None:
    """One that was healthy once is not given up, however often it dies later."""
    policy = RestartPolicy(floor_seconds=0.01, cap_seconds=0.02, healthy_seconds=0.2, hopeless_after=2)
    async with supervising(notes, {"mortal": LIVE_A_LITTLE}, policy=policy) as running:
        await notes.until("mortal", *["start"] * 5)
        assert not running.done()


async def test_a_child_that_is_killed_is_not_given_up(notes: Notes) -> None:
    """Exports that take a worker's memory away, one after another, do not end the service."""
    async with supervising(notes, {"victim": BE_KILLED}, policy=PROMPT) as running:
        await notes.until("victim", *["start"] * 8)
        assert not running.done()


async def test_a_misconfigured_child_ends_everything_at_once(notes: Notes) -> None:
    """A child that says that its configuration is wrong is not started a second time, and the others are stopped."""
    async with supervising(notes, {"misconfigured": REFUSE, "other": NOTE_END}, policy=PROMPT) as running:
        assert await running == EXIT_CONFIGURATION
    assert notes.of("misconfigured") == ["start"]
    assert notes.of("other") in ([], ["start"], ["start", "up", "end"])


async def test_stopping_asks_first(notes: Notes) -> None:
    """A child that handles SIGTERM comes to its own end."""
    async with supervising(notes, {"polite": NOTE_END}, policy=PROMPT):
        await notes.until("polite", "start", "up")
    assert notes.of("polite") == ["start", "up", "end"]


async def test_renewing_again_and_again_tells_each_child_once(notes: Notes) -> None:
    """Whenever hang-ups come in, a child that drains is not told a second time, which would mean at once."""
    async with supervising(notes, {"first": NOTE_END, "second": DRAIN}, policy=PROMPT):
        await notes.until("first", "start", "up")
        await notes.until("second", "start", "up")
        while notes.of("second").count("end") < 3:
            os.kill(os.getpid(), signal.SIGHUP)
            await checkpoint()
    assert "told-twice" not in notes.of("second")


@pytest.mark.usefixtures("json_logs")
async def test_stopping_kills_what_does_not_listen(notes: Notes, capfd: pytest.CaptureFixture[str]) -> None:
    """A child that ignores SIGTERM is killed after the limit, and the log says so."""
    async with supervising(notes, {"deaf": IGNORE}, policy=PROMPT, stop_within_seconds=0.2):
        await notes.until("deaf", "start", "deaf")
    assert '"event":"child.killed"' in capfd.readouterr().err


@given(failures=st.integers(min_value=1, max_value=60), jitter=st.floats(min_value=0, max_value=1, exclude_max=True))
def test_each_death_in_a_row_waits_longer_up_to_a_limit(failures: int, jitter: float) -> None:
    """The pause doubles up to the cap, and jitter makes it longer by less than a half."""
    policy = RestartPolicy()
    bare = policy.pause(failures, jitter=0)
    assert bare == min(policy.cap_seconds, policy.floor_seconds * 2 ** (failures - 1))
    assert bare <= policy.pause(failures, jitter=jitter) <= bare * 1.5


def test_a_child_gets_the_settings_of_its_supervisor() -> None:
    """What is handed on in the environment reads back as the same settings, whatever the environment said before."""
    settings = Settings(database="a b.db", port=1, lease_seconds=70.5, log_format=LogFormat.TEXT)
    handed_on = settings.to_environment({"FENCEPOST_PORT": "9", "FENCEPOST_URL": "http://else.where", "PATH": "/bin"})
    assert Settings.from_environment(handed_on) == settings
    assert handed_on["PATH"] == "/bin"
