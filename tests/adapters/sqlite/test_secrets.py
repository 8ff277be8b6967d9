"""The lease token: nothing that is printed or logged on the way of an export shows it."""

import logging
from typing import Final

import pytest

from adapters.sqlite.store import SqliteStore
from domain.account import User
from domain.errors import GuardRefused, NotHolding, Refusal
from domain.export import LeaseToken
from domain.policies import Policies, classify
from domain.ports import Bulkhead
from domain.use_cases.exports import enqueue_export
from domain.use_cases.work import claim_export, complete_export, holder_of, stage_chunk, still_holds
from tests.builders import a_rendered_file, an_export_request, chunks_of

SECRET: Final = "z" * 43
OTHER: Final = "y" * 43


async def test_no_log_line_and_no_refusal_shows_a_lease_token(
    store: SqliteStore, owner: User, policies: Policies, caplog: pytest.LogCaptureFixture
) -> None:
    """With every logger at its most talkative, through a life with each kind of refusal in it."""
    caplog.set_level(logging.DEBUG)
    await store.write(enqueue_export, an_export_request(owner.id), policies=policies)
    job = await store.write(claim_export, worker_id="worker-1", lease_token=LeaseToken(SECRET), lease=policies.lease)
    assert job is not None
    holder = holder_of(job)
    stale = type(holder)(holder.job_id, holder.attempt, LeaseToken(OTHER))
    chunks = chunks_of("id\r\n")
    printed: list[object] = [job, holder, stale]
    for who, error in ((stale, NotHolding), (holder, GuardRefused)):
        with pytest.raises(error) as refusal:
            await store.write(complete_export, who, a_rendered_file(chunks), policies=policies)
        printed += [refusal.value, repr(refusal.value), vars(refusal.value), classify(refusal.value)]
    await store.write(stage_chunk, holder, chunks[0], rows_total=0, lease=policies.lease)
    with pytest.raises(Refusal) as refusal_of_store:
        await store.write(stage_chunk, holder, chunks[0], rows_total=0, lease=policies.lease)
    printed += [refusal_of_store.value, refusal_of_store.value.__cause__]
    assert await store.read(Bulkhead.OPERATIONS, still_holds, holder, lease=policies.lease)
    printed.append(await store.write(complete_export, holder, a_rendered_file(chunks), policies=policies))
    printed += await store.read(Bulkhead.OPERATIONS, lambda uow: uow.exports.history(job.id))
    texts = [caplog.text, *(str(record.args) for record in caplog.records), *map(str, printed), *map(repr, printed)]
    assert "executing" in caplog.text
    assert [text for text in texts if SECRET in text or OTHER in text] == []


async def test_a_job_that_ended_holds_no_token_any_more(store: SqliteStore, owner: User, policies: Policies) -> None:
    """The database keeps a token exactly as long as it means something."""
    await store.write(enqueue_export, an_export_request(owner.id), policies=policies)
    job = await store.write(claim_export, worker_id="worker-1", lease_token=LeaseToken(SECRET), lease=policies.lease)
    assert job is not None
    await store.write(stage_chunk, holder_of(job), chunks_of("id\r\n")[0], rows_total=0, lease=policies.lease)
    ended = await store.write(complete_export, holder_of(job), a_rendered_file(chunks_of("id\r\n")), policies=policies)
    assert ended.lease_token is None
    assert (await store.read(Bulkhead.OPERATIONS, lambda uow: uow.exports.get(job.id))) == ended
