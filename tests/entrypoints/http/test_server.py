"""The application behind the server that it is delivered with, over real sockets and in real processes."""

import asyncio
import dataclasses
import gzip
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from domain.account import OwnerId
from domain.ports import Bulkhead
from domain.task import TaskFilter
from domain.use_cases.tasks import list_tasks
from entrypoints.bootstrap import Application
from entrypoints.http.server import server_of
from entrypoints.settings import Settings
from entrypoints.telemetry import LogEvent
from tests.entrypoints.http.api import Api, damage, impatient, token_of
from tests.entrypoints.http.stores import HookedStore
from tests.entrypoints.http.test_imports import unpublished
from tests.processes import WITHIN_SECONDS, environment_for, eventually_so, fencepost

AS_ANN = f"Authorization: Bearer {token_of('ann')}\r\n"
# More than a socket's buffers hold, so that a client that stops reading stops the sending.
LONG = [f"{number:07}\r\n" * 110_000 for number in range(40)]


@asynccontextmanager
async def serving(application: Application) -> AsyncIterator[str]:
    """Serve the application on a free port, and give its address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = server_of(application, url=url)
        task = asyncio.ensure_future(server.serve(sockets=[listener]))
        try:
            await eventually_so(lambda: asyncio.sleep(0, server.started))
            yield url
        finally:
            server.drain()
            await task


@pytest.fixture
async def url(application: Application) -> AsyncIterator[str]:
    """The address of the application, served."""
    async with serving(application) as address:
        yield address


async def exchange(url: str, request: bytes) -> bytes:
    """Send bytes on a connection, and return all that comes back until the server closes it."""
    reader, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
    writer.write(request)
    async with asyncio.timeout(30):
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_head_has_no_body(url: str) -> None:
    """A HEAD answer announces the length and sends nothing after the header section."""
    answer = await exchange(url, b"HEAD /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert (b"content-length: 27" in head, body) == (True, b"")
    assert b"\r\nserver:" not in head


async def test_what_is_no_http_is_answered_by_a_problem(url: str) -> None:
    """The server's own refusal has the form of all others."""
    answer = await exchange(url, b"HELLO\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in answer
    assert b'"type":"/problems/invalid-request"' in answer


async def test_a_chunked_body_is_limited_like_any_other(url: str) -> None:
    """413 although no length was announced, and without waiting for the end."""
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    head = f"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{AS_ANN}"
    request = head.encode() + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + piece * 4
    assert (await exchange(url, request)).startswith(b"HTTP/1.1 413 ")


async def test_a_body_that_stops_arriving_ends_the_connection(application: Application) -> None:
    """408, and the server closes."""
    head = f"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{AS_ANN}Content-Length: 9\r\n\r\n"
    async with serving(impatient(application)) as url:
        assert (await exchange(url, head.encode() + b"{")).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("begun", [b"", b"GET /health/live HTTP/1.1\r\nHost:"])
async def test_a_header_section_that_does_not_arrive_ends_the_connection(
    begun: bytes, application: Application
) -> None:
    """A client that connects and is silent, or slow, is not waited for: 408, and the server closes."""
    async with serving(impatient(application)) as url:
        assert (await exchange(url, begun)).startswith(b"HTTP/1.1 408 ")


async def test_a_connection_is_used_again(url: str) -> None:
    """The limit is for each request, and over once its header section is there."""
    request = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = await exchange(url, request * 2 + request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert answer.count(b"HTTP/1.1 200 ") == 3


async def test_a_body_that_is_too_large_is_refused_before_it_is_sent(url: str) -> None:
    """A client that waits for 100 Continue gets 413 instead, and keeps its bytes."""
    head = (
        f"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{AS_ANN}"
        "Content-Length: 999999999\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    )
    assert (await exchange(url, head.encode())).startswith(b"HTTP/1.1 413 ")


async def test_a_download_over_a_socket_is_the_file(url: str, api: Api) -> None:
    """Many chunks arrive in order, plain and as one gzip member."""
    path = await api.finished_export(*LONG[:3])
    whole = "".join(LONG[:3]).encode()
    async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token_of('ann')}"}) as client:
        for coding in ("identity", "gzip"):
            async with client.stream("GET", f"{path}/result", headers={"Accept-Encoding": coding}) as answer:
                raw = b"".join([piece async for piece in answer.aiter_raw()])
            assert (gzip.decompress(raw) if coding == "gzip" else raw) == whole


@pytest.mark.parametrize("coding", ["identity", "gzip"])
async def test_damage_that_is_seen_late_cuts_the_connection(coding: str, url: str, api: Api) -> None:
    """What was sound arrives, and then the connection ends short of the length: no client takes it for the file."""
    path = await api.finished_export(*LONG[:3])
    damage(api.application, 1)
    received = b""
    async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token_of('ann')}"}) as client:
        with pytest.raises(httpx.RemoteProtocolError):  # noqa: PT012 - it is the reading that fails, after a while
            async with client.stream("GET", f"{path}/result", headers={"Accept-Encoding": coding}) as answer:
                async for piece in answer.aiter_raw():
                    received += piece
    assert 0 < len(received) < int(answer.headers["Content-Length"])
    assert coding == "gzip" or received == LONG[0].encode()


async def test_a_client_that_leaves_stops_the_reading(application: Application, api: Api) -> None:
    """After a client closed its connection no more chunks are read."""
    path = await api.finished_export(*LONG)
    read: list[str] = []

    async def look(function: Callable[..., Any]) -> None:
        read.append(function.__name__)

    looked_at = dataclasses.replace(application, store=HookedStore(application.store, look))
    async with serving(looked_at) as url:
        reader, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
        writer.write(f"GET {path}/result HTTP/1.1\r\nHost: x\r\n{AS_ANN}\r\n".encode())
        assert (await reader.read(12)) == b"HTTP/1.1 200"
        writer.transport.abort()
    assert 0 < read.count("read_chunk") < len(LONG) // 2


async def test_a_client_that_leaves_takes_its_import_back(application: Application) -> None:
    """When a client leaves while its file is stored, nothing of it is seen, and nothing is left behind."""
    storing = asyncio.Event()

    async def stop_at_a_batch(function: Callable[..., Any]) -> None:
        if function.__name__ == "store_batch":
            storing.set()
            await asyncio.get_running_loop().create_future()

    stopped = dataclasses.replace(application, store=HookedStore(application.store, stop_at_a_batch))
    async with serving(stopped) as url:
        _, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
        head = f"POST /v1/tasks/import HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\n{AS_ANN}"
        writer.write(head.encode() + b"Content-Length: 12\r\n\r\ntitle\r\none\r\n")
        async with asyncio.timeout(30):
            await storing.wait()
        assert await application.store.read(Bulkhead.OPERATIONS, unpublished) == 1
        writer.transport.abort()
    assert await application.store.read(Bulkhead.OPERATIONS, unpublished) == 0
    page = await application.store.read(Bulkhead.TASKS, list_tasks, OwnerId(1), TaskFilter(), after=None, limit=9)
    assert page.items == []


def test_a_process_serves_until_it_is_told_to_stop(settings: Settings, tmp_path: Path) -> None:
    """It answers; told to stop, it answers who is connected, waits for no one silent, and ends with status 0."""
    with fencepost("api", settings=replace(settings, port=0, receive_seconds=600), directory=tmp_path) as process:
        url = str(process.event(LogEvent.API_READY)["url"])
        assert httpx.get(f"{url}/health/ready", trust_env=False).status_code == 200
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        with ExitStack() as stack:
            silent, new, begun = (stack.enter_context(socket.create_connection(address)) for _ in range(3))
            begun.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n")
            # Answered: so the three that came before are accepted.
            assert httpx.get(f"{url}/health/live", trust_env=False).status_code == 200
            process.signal(signal.SIGTERM)
            process.event(LogEvent.API_DRAINING)
            begun.sendall(b"\r\n")
            new.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert [connection.recv(12) for connection in (begun, new)] == [b"HTTP/1.1 200"] * 2
            assert silent.recv(12) == b""
        assert process.ended() == 0
        process.event(LogEvent.API_STOPPED)


def test_a_process_takes_a_socket_that_it_is_given(settings: Settings, tmp_path: Path) -> None:
    """Connections that came before it was ready are answered by it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.set_inheritable(True)
        with socket.create_connection(listener.getsockname()) as early:
            early.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            command = [sys.executable, "-P", "-m", "entrypoints.cli.main", "api", "--fd", str(listener.fileno())]
            environment = environment_for(settings)
            with subprocess.Popen(command, env=environment, cwd=tmp_path, pass_fds=[listener.fileno()]) as process:
                early.settimeout(WITHIN_SECONDS)
                assert early.recv(12) == b"HTTP/1.1 200"
                process.send_signal(signal.SIGTERM)
                assert process.wait(WITHIN_SECONDS) == 0


def test_an_address_that_is_taken_is_told_in_one_line(settings: Settings, tmp_path: Path) -> None:
    """The process ends at once, and says which setting to change."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = replace(settings, port=listener.getsockname()[1])
        with fencepost("api", settings=taken, directory=tmp_path) as process:
            assert process.ended() != 0
            (line,) = [line for line in process.lines if "cannot listen" in line]
            assert "FENCEPOST_PORT" in line
            assert "Traceback" not in "".join(process.lines)
