"""`fencepost up` with real children: it keeps them up, refuses no connection, and leaves nothing behind."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Event, Thread
from typing import Self
from urllib.parse import urlsplit

from msgspec.structs import replace

from domain.export import JobStatus
from tests.crash.conftest import OpenSite
from tests.crash.site import FEW, Site
from tests.processes import Running, eventually, eventually_so, fencepost, is_alive

REQUEST = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


@contextmanager
def up(site: Site, *, workers: int = 1) -> Iterator[Running]:
    """Bring the service up on a free port; whatever becomes of the supervisor, its children are ended."""
    settings = replace(site.settings, port=0)
    with ExitStack() as stack:
        service = stack.enter_context(
            fencepost("up", "--workers", str(workers), settings=settings, directory=site.directory)
        )
        try:
            service.event("service.ready")
            yield service
        finally:
            if not service.has_ended:
                service.signal(signal.SIGTERM)
                service.ended()


def pid_of(service: Running, child: str, *, count: int = 1) -> int:
    """Return the process id of the child's `count`th start."""
    pid = service.event("child.started", child=child, count=count)["pid"]
    assert isinstance(pid, int)
    return pid


def children(service: Running) -> list[int]:
    """Return the process ids of all children that were ever started."""
    return [event["pid"] for event in service.events("child.started") if isinstance(event["pid"], int)]


def all_gone(pids: list[int]) -> bool:
    """Tell whether none of the processes runs."""
    return not any(is_alive(pid) for pid in pids)


class Client:
    """Connects again and again from a thread of its own, and counts what came of it."""

    def __init__(self, service: Running) -> None:
        url = urlsplit(str(service.event("service.ready")["url"]))
        assert url.hostname is not None
        assert url.port is not None
        self._address = (url.hostname, url.port)
        self.answered = 0
        self.refused = 0
        # Accepted by a process that then died: the connection was not refused, and its client is told by a reset.
        self.cut_off = 0
        self._enough = Event()
        self._thread = Thread(target=self._run)

    def ask(self) -> None:
        """Make one request on a connection of its own."""
        try:
            with socket.create_connection(self._address, timeout=20) as connection:
                connection.sendall(REQUEST)
                answer = connection.recv(64)
        except ConnectionRefusedError:
            self.refused += 1
            return
        except (ConnectionResetError, BrokenPipeError):
            answer = b""
        if b" 200 " in answer:
            self.answered += 1
        else:
            self.cut_off += 1

    def _run(self) -> None:
        while not self._enough.is_set():
            self.ask()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()


async def test_the_service_exports_and_ends(open_site: OpenSite) -> None:
    """It says that it is ready when the API answers, processes what is queued, and SIGTERM ends it with status 0."""
    async with open_site() as site:
        with up(site, workers=2) as service:
            job_id = await site.enqueue(FEW)
            await eventually_so(lambda: site.has_ended(job_id))
            assert (await site.job(job_id)).status is JobStatus.SUCCEEDED
            pids = children(service)
            assert len(pids) == 3
            service.signal(signal.SIGTERM)
            assert service.ended() == 0
            assert all_gone(pids)


async def test_a_killed_api_is_started_again_and_no_connection_is_refused(open_site: OpenSite) -> None:
    """While the API is killed and started again, clients wait or are cut off in the middle, and none is refused."""
    async with open_site() as site:
        with up(site) as service, Client(service) as client:
            eventually(lambda: client.answered > 20)
            killed, answered = pid_of(service, "api"), client.answered
            os.kill(killed, signal.SIGKILL)
            service.event("child.exited", child="api", killed_by="SIGKILL")
            assert pid_of(service, "api", count=2) != killed
            eventually(lambda: client.answered > answered + 20)
        assert client.refused == 0
        assert client.cut_off <= 1


async def test_a_hang_up_renews_every_child_and_refuses_no_connection(open_site: OpenSite) -> None:
    """SIGHUP without a terminal replaces the children one after another: no request is cut off, and no child killed."""
    async with open_site() as site:
        with up(site, workers=2) as service, Client(service) as client:
            before = children(service)
            service.signal(signal.SIGHUP)
            for child in ("api", "worker-1", "worker-2"):
                assert pid_of(service, child, count=2) not in before
            assert all_gone(before)
            assert len(service.events("worker.stopped")) == 2
            assert len(service.events("api.stopped")) == 1
            answered = client.answered
            eventually(lambda: client.answered > answered + 20)
        assert (client.refused, client.cut_off) == (0, 0)
        assert service.events("child.exited") == []


async def test_a_killed_worker_is_started_again(open_site: OpenSite) -> None:
    """The worker that died is replaced by one that goes on with the queue, and the log says how it died."""
    async with open_site() as site:
        with up(site) as service:
            service.event("worker.started")
            os.kill(pid_of(service, "worker-1"), signal.SIGKILL)
            service.event("child.exited", child="worker-1", killed_by="SIGKILL")
            service.event("worker.started", count=2)
            job_id = await site.enqueue(FEW)
            await eventually_so(lambda: site.has_ended(job_id))


async def test_a_killed_supervisor_leaves_no_orphan(open_site: OpenSite) -> None:
    """After kill -9 of the supervisor its children end by themselves, gently: an export is given back or done."""
    async with open_site(drain_seconds=0.1) as site:
        with up(site, workers=2) as service:
            for count in (1, 2):
                service.event("worker.started", count=count)
            job_id = await site.enqueue()
            await eventually_so(lambda: site.progress(job_id, 1))
            pids = children(service)
            assert len(pids) == 3
            service.signal(signal.SIGKILL)
            eventually(lambda: all_gone(pids))
        assert (await site.job(job_id)).status in {JobStatus.QUEUED, JobStatus.SUCCEEDED}


async def test_a_second_signal_ends_the_service_at_once(open_site: OpenSite) -> None:
    """The second Ctrl-C kills the children, running exports and all; their rows are left to their leases."""
    async with open_site(drain_seconds=60) as site:
        with up(site) as service:
            service.event("worker.started")
            job_id = await site.enqueue()
            await eventually_so(lambda: site.progress(job_id, 1))
            pids = children(service)
            service.signal(signal.SIGINT)
            service.event("worker.draining")
            service.signal(signal.SIGINT)
            assert service.ended() == 128 + signal.SIGINT
            eventually(lambda: all_gone(pids))
        assert (await site.job(job_id)).status is JobStatus.RUNNING


async def test_a_port_in_use_is_one_line_and_no_traceback(open_site: OpenSite) -> None:
    """Who starts the service twice reads which port is taken and what to do, and the exit status says configuration."""
    async with open_site() as site:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            settings = replace(site.settings, port=taken.getsockname()[1])
            with fencepost("up", settings=settings, directory=site.directory) as service:
                assert service.ended() == 2
                assert len(service.lines) == 1
                assert "FENCEPOST_PORT" in service.lines[0]
