"""Real workers and the lease of maintenance: one holds it, another takes over, and a download outlasts its result."""

import asyncio
import json
import signal
import socket
from hashlib import sha256
from typing import Final
from urllib.parse import urlsplit

import httpx
from msgspec.structs import replace

from domain.export import JobStatus
from domain.maintenance import MaintenanceGrant
from entrypoints.settings import LogLevel, Settings
from tests.crash.conftest import OpenSite
from tests.crash.site import Site
from tests.processes import Running, eventually_so, fencepost

# Bytes: what the connection takes in before it is read, of a file of many megabytes.
_LITTLE: Final = 16_384


def talkative(site: Site) -> Settings:
    """Return the site's settings, for processes that tell each grant."""
    return replace(site.settings, log_level=LogLevel.DEBUG)


async def grant_after(site: Site, number: int) -> MaintenanceGrant:
    """Wait until maintenance was granted under a higher number, and return that grant."""

    async def found() -> MaintenanceGrant | None:
        grant = await site.maintainer()
        return grant if grant is not None and grant.number > number else None

    grant = await eventually_so(found)
    assert grant is not None
    return grant


def granted(worker: Running) -> set[object]:
    """Return the numbers of the grants that a worker was given, as it told."""
    return {event["grant"] for event in worker.events("maintenance.taken")}


async def test_of_two_workers_one_maintains_and_the_other_takes_over_from_a_dead_one(open_site: OpenSite) -> None:
    """No number is granted twice; after kill -9 the survivor has the next one, and not before the lease was over."""
    async with open_site() as site:
        with (
            fencepost("worker", "--id", "one", settings=talkative(site), directory=site.directory) as one,
            fencepost("worker", "--id", "two", settings=talkative(site), directory=site.directory) as two,
        ):
            workers = {"one": one, "two": two}
            for worker in workers.values():
                worker.event("worker.started")
            await grant_after(site, 2)
            assert granted(one) & granted(two) == set()
            last = await grant_after(site, 0)
            workers[last.worker_id].signal(signal.SIGKILL)
            workers[last.worker_id].ended()
            last = await grant_after(site, 0)
            if workers[last.worker_id].has_ended:
                following = await grant_after(site, last.number)
                assert following.worker_id in workers
                assert not workers[following.worker_id].has_ended
                assert following.number == last.number + 1
                lease = int(site.settings.maintenance_lease_seconds * 1000)
                assert following.lease_until - lease >= last.lease_until


async def test_a_worker_that_slept_past_its_lease_of_maintenance_disturbs_nobody(open_site: OpenSite) -> None:
    """Stopped and continued after another took over, it writes nothing, and both go on."""
    async with open_site() as site:
        with fencepost("worker", "--id", "one", settings=talkative(site), directory=site.directory) as one:
            one.event("maintenance.taken")

            async def is_stopped_without_the_lock() -> bool:
                one.signal(signal.SIGSTOP)
                if await site.can_write():
                    return True
                one.signal(signal.SIGCONT)
                return False

            await eventually_so(is_stopped_without_the_lock)
            before = await site.maintainer()
            assert before is not None
            assert before.worker_id == "one"
            with fencepost("worker", "--id", "two", settings=talkative(site), directory=site.directory) as two:
                following = await grant_after(site, before.number)
                assert following.worker_id == "two"
                one.signal(signal.SIGCONT)
                await grant_after(site, following.number)
                assert granted(one) & granted(two) == set()
                for worker in (one, two):
                    worker.signal(signal.SIGTERM)
                    assert worker.ended() == 0


async def test_a_download_that_began_in_time_finishes_after_its_result_expired(open_site: OpenSite) -> None:
    """A slow reader gets every byte, while others are told that the file is gone; then the bytes go."""
    async with open_site(
        result_retention_seconds=4, download_seconds=8, job_retention_seconds=3600, maintenance_seconds=0.2
    ) as site:
        settings = replace(site.settings, port=0)
        with (
            fencepost("worker", settings=settings, directory=site.directory),
            fencepost("api", settings=settings, directory=site.directory) as api,
        ):
            url = str(api.event("api.ready")["url"])
            token = await site.token()
            job_id = await site.enqueue()
            await eventually_so(lambda: site.has_ended(job_id))
            path = f"/v1/exports/{job_id}/result"
            reader, writer = await slow_download(url, path, token)
            assert (await reader.readline()).split()[1] == b"200"
            async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token}"}) as client:

                async def is_refused() -> httpx.Response | None:
                    answer = await client.get(path)
                    return answer if answer.status_code == 410 else None

                refusal = await eventually_so(is_refused)
                assert refusal is not None
                problem = refusal.json()
                assert problem["type"].endswith("export-expired")
                assert "Idempotency-Key" in json.dumps((await client.get(problem["type"])).text)

            async def is_recorded() -> bool:
                return (await site.history(job_id))[-1].event == "remove_result"

            await eventually_so(is_recorded)
            async with asyncio.timeout(30):
                await reader.readuntil(b"\r\n\r\n")
                body = await reader.read()
            writer.close()
            result = await site.result(job_id)
            assert result is not None
            assert result.gone_at == result.expires_at
            assert (await site.job(job_id)).status is JobStatus.SUCCEEDED
            assert (len(body), sha256(body).hexdigest()) == (result.byte_count, result.sha256)

            async def is_removed() -> bool:
                return not await site.has_bytes(result)

            await eventually_so(is_removed)


async def test_the_file_comes_back_to_its_size_after_a_burst_expired(open_site: OpenSite) -> None:
    """Under a running worker, within a tenth of what it was, once the download time of every result is over."""
    async with open_site(
        result_retention_seconds=6, download_seconds=1, job_retention_seconds=3600, maintenance_seconds=0.2
    ) as site:
        before = size_of(site)
        with fencepost("worker", settings=site.settings, directory=site.directory):
            jobs = [await site.enqueue() for _ in range(12)]
            largest = before

            async def have_expired() -> bool:
                nonlocal largest
                largest = max(largest, size_of(site))
                histories = [await site.history(job_id) for job_id in jobs]
                return all(history[-1].event == "remove_result" for history in histories)

            await eventually_so(have_expired, within=60)
            assert largest > 1.1 * before

            async def is_back() -> bool:
                return size_of(site) <= 1.1 * before

            await eventually_so(is_back)
        for job_id in jobs:
            result, history = await site.result(job_id), await site.history(job_id)
            assert result is not None
            assert history[-1].at >= result.expires_at


def size_of(site: Site) -> int:
    """Return how many bytes the database file has."""
    return site.settings.database_path.stat().st_size


async def slow_download(url: str, path: str, token: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Ask for the file over a connection that takes in little before it is read."""
    address = urlsplit(url)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _LITTLE)
    connection.settimeout(0)
    await asyncio.get_running_loop().sock_connect(connection, (address.hostname, address.port))
    reader, writer = await asyncio.open_connection(sock=connection, limit=_LITTLE)
    lines = (f"GET {path} HTTP/1.1", f"Host: {address.netloc}", f"Authorization: Bearer {token}", "Connection: close")
    writer.write("\r\n".join((*lines, "", "")).encode())
    await writer.drain()
    return reader, writer
