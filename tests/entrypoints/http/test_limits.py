"""What an owner may ask for: shown, and held to; what was accepted before goes on."""

from datetime import timedelta
from typing import Final, NamedTuple

import pytest

from domain.account import OwnerId
from domain.rate import RatePolicy
from entrypoints.http.rates import RequestRates
from tests.entrypoints.http.api import Api, api_of, complete, with_admission, with_requests
from tests.fakes import ManualClock


class Row(NamedTuple):
    """A limit and a value of it, what a refusal then is, and how many exports are accepted before."""

    limit: str
    value: int
    status: int
    slug: str
    accepted: int


LIMITS: Final = [
    Row("active_per_owner", 2, 429, "too-many-active-exports", 2),
    Row("max_pending", 3, 503, "queue-full", 3),
    Row("max_database_bytes", 1, 503, "storage-budget-reached", 0),
    Row("min_free_bytes", 1 << 62, 503, "storage-budget-reached", 0),
]


async def test_an_owner_reads_the_limits_and_their_use(api: Api) -> None:
    """Everything that is configured for an owner, and how much of it is used: of their own alone."""
    await api.finished_export(key="key-1")
    await api.new_export("key-2")
    await api.new_export("key-3")
    await api.as_owner("ben").new_export()
    answer = await api.get("/v1/limits")
    assert answer.status_code == 200
    left = int(answer.headers["RateLimit"].removeprefix('"requests";r=').partition(";")[0])
    # Four requests, and the allowance grows by one in ten milliseconds.
    assert 5990 <= left < 6000
    assert answer.json() == {
        "active_exports": {"limit": 100, "used": 2},
        "requests": {"limit": 6000, "window_seconds": 60, "remaining": left},
        "result_rows": 2_000_000,
        "result_bytes": 1 << 30,
        "result_retention_seconds": 604_800,
        "key_lifetime_seconds": 2_592_000,
        "deadline": {"default_seconds": 3600, "shortest_seconds": 10, "longest_seconds": 86_400},
    }


@pytest.mark.parametrize("row", LIMITS, ids=lambda row: row.limit)
async def test_past_a_limit_a_new_export_is_refused_and_all_else_goes_on(api: Api, row: Row) -> None:
    """The refusal names the limit and when to come back, and stores nothing; keys of before, tasks and reads go on."""
    before = await api.finished_export(key="before")
    async with api_of(with_admission(api.application, **{row.limit: row.value})) as client:
        for number in range(row.accepted):
            await client.new_export(f"key-{number}")
        refused = await client.post("/v1/exports", json={}, headers={"Idempotency-Key": "one-more"})
        assert refused.status_code == row.status
        problem = refused.json()
        assert (problem["type"], problem["limit"]) == (f"/problems/{row.slug}", row.limit)
        assert int(refused.headers["Retry-After"]) >= 1
        replayed = await client.post("/v1/exports", json={}, headers={"Idempotency-Key": "before"})
        assert (replayed.status_code, replayed.headers["Location"]) == (202, before)
        conflict = await client.post(
            "/v1/exports", json={"timezone": "Asia/Tokyo"}, headers={"Idempotency-Key": "before"}
        )
        assert conflict.status_code == 409
        await client.new_task()
        assert (await client.get(f"{before}/result")).status_code == 200
    assert len((await api.get("/v1/exports")).json()["exports"]) == row.accepted + 1
    # Nothing is remembered of the refusal: the same key makes an export once there is room.
    await api.new_export("one-more")


async def test_old_exports_in_line_keep_new_ones_out(api: Api, clock: ManualClock) -> None:
    """Once the oldest has waited for longer than it may: until it is taken."""
    await api.new_export("key-1")
    clock.advance(timedelta(seconds=901))
    refused = await api.as_owner("ben").post("/v1/exports", json={}, headers={"Idempotency-Key": "key-1"})
    assert (refused.status_code, refused.json()["type"]) == (503, "/problems/queue-too-old")
    assert refused.json()["limit"] == "oldest_age_seconds"
    await complete(api.application, "id\r\n")
    await api.as_owner("ben").new_export()


async def test_the_quota_is_the_first_thing_that_is_told(api: Api) -> None:
    """Where an owner's limit and everybody's are reached, it is the one that the owner can do something about."""
    await api.new_export("key-1")
    async with api_of(with_admission(api.application, active_per_owner=1, max_pending=1)) as client:
        mine = await client.post("/v1/exports", json={}, headers={"Idempotency-Key": "key-2"})
        other = await client.as_owner("ben").post("/v1/exports", json={}, headers={"Idempotency-Key": "key-2"})
    assert (mine.status_code, other.status_code) == (429, 503)


async def test_an_allowance_grows_again_with_time(api: Api, clock: ManualClock) -> None:
    """Each owner has one of their own, for all of their tokens and operations together."""
    async with api_of(with_requests(api.application, quota=3)) as client:
        statuses = [
            (await client.get(path)).status_code for path in ("/v1/tasks", "/v1/exports", "/v1/limits", "/v1/tasks")
        ]
        assert statuses == [200, 200, 200, 429]
        assert (await client.as_owner("ben").get("/v1/tasks")).status_code == 200
        assert (await client.get("/health/live")).status_code == 200
        clock.advance(timedelta(seconds=20))
        assert [(await client.get("/v1/tasks")).status_code for _ in range(2)] == [200, 429]


def test_only_owners_who_asked_of_late_are_remembered(clock: ManualClock) -> None:
    """After a window without requests nothing of an owner is left, whoever else goes on."""
    rates = RequestRates(RatePolicy(quota=100, window_seconds=10), clock=clock)
    for number in range(1000):
        rates.ask(OwnerId(number))
    assert len(rates) == 1000
    clock.advance(timedelta(seconds=11))
    assert rates.ask(OwnerId(1)).remaining == 99
    assert len(rates) == 1
