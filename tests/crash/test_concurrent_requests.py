"""Several API processes on one database, asked for the same at the same moment."""

import asyncio
from contextlib import AsyncExitStack

import httpx
from msgspec.structs import replace

from tests.crash.conftest import OpenSite
from tests.processes import fencepost

POSTS = 50


async def test_fifty_posts_with_one_key_to_two_processes_make_one_export(open_site: OpenSite) -> None:
    """One row is made, one answer says that it is new, and all fifty are equal to the byte."""
    async with open_site(write_wait_seconds=2.5) as site, AsyncExitStack() as stack:
        settings = replace(site.settings, port=0)
        apis = [stack.enter_context(fencepost("api", settings=settings, directory=site.directory)) for _ in range(2)]
        headers = {"Authorization": f"Bearer {await site.token()}", "Idempotency-Key": "the-same-for-all"}
        clients = [
            await stack.enter_async_context(
                httpx.AsyncClient(base_url=str(api.event("api.ready")["url"]), headers=headers, timeout=30)
            )
            for api in apis
        ]
        answers = await asyncio.gather(
            *(clients[number % 2].post("/v1/exports", json={"timezone": "Europe/Berlin"}) for number in range(POSTS))
        )
        assert {answer.status_code for answer in answers} == {202}, answers[0].text
        assert len({answer.content for answer in answers}) == 1
        assert len({answer.headers["Location"] for answer in answers}) == 1
        assert sum("Idempotent-Replayed" not in answer.headers for answer in answers) == 1
        (job,) = await site.jobs()
        assert answers[0].json()["id"] == job.id
