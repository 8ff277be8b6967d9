"""Several API processes on one database, asked for the same at the same moment."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
from msgspec.structs import replace

from tests.crash.conftest import OpenSite
from tests.crash.site import Site
from tests.processes import fencepost

POSTS = 50
CROWD = 200
PLACES = 30


@asynccontextmanager
async def two_processes(site: Site) -> AsyncIterator[list[httpx.AsyncClient]]:
    """Run two API processes on the site's database, and give a client of each."""
    async with AsyncExitStack() as stack:
        settings = replace(site.settings, port=0)
        apis = [stack.enter_context(fencepost("api", settings=settings, directory=site.directory)) for _ in range(2)]
        headers = {"Authorization": f"Bearer {await site.token()}"}
        yield [
            await stack.enter_async_context(
                httpx.AsyncClient(base_url=str(api.event("api.ready")["url"]), headers=headers, timeout=30)
            )
            for api in apis
        ]


async def test_fifty_posts_with_one_key_to_two_processes_make_one_export(open_site: OpenSite) -> None:
    """One row is made, one answer says that it is new, and all fifty are equal to the byte."""
    headers = {"Idempotency-Key": "the-same-for-all"}
    async with open_site(write_wait_seconds=2.5) as site, two_processes(site) as clients:
        answers = await asyncio.gather(
            *(
                clients[number % 2].post("/v1/exports", json={"timezone": "Europe/Berlin"}, headers=headers)
                for number in range(POSTS)
            )
        )
        assert {answer.status_code for answer in answers} == {202}, answers[0].text
        assert len({answer.content for answer in answers}) == 1
        assert len({answer.headers["Location"] for answer in answers}) == 1
        assert sum("Idempotent-Replayed" not in answer.headers for answer in answers) == 1
        (job,) = await site.jobs()
        assert answers[0].json()["id"] == job.id


async def test_two_hundred_posts_to_two_processes_overshoot_no_limit(open_site: OpenSite) -> None:
    """As many are accepted as may wait, not one more; all others are sent away and have left nothing."""
    settings = {"write_wait_seconds": 2.5, "read_wait_seconds": 30, "max_pending": PLACES, "active_per_owner": PLACES}
    async with open_site(**settings) as site, two_processes(site) as clients:
        answers = await asyncio.gather(
            *(
                clients[number % 2].post("/v1/exports", json={}, headers={"Idempotency-Key": f"key-{number}"})
                for number in range(CROWD)
            )
        )
        accepted = [answer.json()["id"] for answer in answers if answer.status_code == 202]
        sent_away = [answer for answer in answers if answer.status_code in {429, 503}]
        assert (len(accepted), len(sent_away)) == (PLACES, CROWD - PLACES)
        assert all(int(answer.headers["Retry-After"]) >= 1 for answer in sent_away)
        assert sorted(job.id for job in await site.jobs()) == sorted(accepted)
