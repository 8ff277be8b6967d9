"""`IdempotencyKeys`: an outcome is found again by owner, route and key together, and by nothing less."""

from datetime import timedelta

from msgspec.structs import replace

from domain.account import OwnerId, User
from domain.instants import Instant
from domain.ports import Bulkhead, KeyedOutcome, Store
from tests.adapters.conformance.steps import keep_outcomes
from tests.fakes import START, ManualClock


def an_outcome(owner_id: OwnerId) -> KeyedOutcome:
    """Return what a request with a key came to."""
    return KeyedOutcome(
        owner_id=owner_id,
        route="POST /v1/tasks",
        request_key="key-1",
        parameters_digest="0" * 64,
        resource_id="task-1",
        outcome_json='{"title":"Zoë\\u0000\U0001f600"}',
    )


async def test_an_outcome_is_found_as_it_was_kept(store: Store, owner: User) -> None:
    """`find` returns every member of what `add` was given, or None before that."""
    outcome = an_outcome(owner.id)
    question = (owner.id, outcome.route, outcome.request_key)
    assert await store.read(Bulkhead.TASKS, lambda uow: uow.idempotency_keys.find(*question)) is None
    await store.write(lambda uow: uow.idempotency_keys.add(outcome))
    assert await store.read(Bulkhead.TASKS, lambda uow: uow.idempotency_keys.find(*question)) == outcome


async def test_a_key_means_nothing_to_another_owner_route_or_spelling(
    store: Store, owner: User, neighbour: User
) -> None:
    """The same key of another owner, of another route, or in other letters is a new key."""
    outcome = an_outcome(owner.id)
    await store.write(lambda uow: uow.idempotency_keys.add(outcome))
    found = await store.read(
        Bulkhead.TASKS,
        lambda uow: [
            uow.idempotency_keys.find(neighbour.id, outcome.route, outcome.request_key),
            uow.idempotency_keys.find(owner.id, "POST /v1/tasks/import", outcome.request_key),
            uow.idempotency_keys.find(owner.id, outcome.route, "KEY-1"),
        ],
    )
    assert found == [None, None, None]


async def test_owners_and_routes_can_use_the_same_key(store: Store, owner: User, neighbour: User) -> None:
    """Each of them finds its own outcome."""
    first = an_outcome(owner.id)
    outcomes = [
        first,
        replace(first, owner_id=neighbour.id, resource_id="b"),
        replace(first, route="r", resource_id="c"),
    ]
    await store.write(keep_outcomes, *outcomes)
    found = await store.read(
        Bulkhead.TASKS,
        lambda uow: [uow.idempotency_keys.find(kept.owner_id, kept.route, kept.request_key) for kept in outcomes],
    )
    assert found == outcomes


async def test_old_outcomes_are_forgotten_a_few_at_a_time(store: Store, owner: User, clock: ManualClock) -> None:
    """Those that were kept at or before the instant, as many as asked for; younger ones stay."""
    for number in range(4):
        await store.write(keep_outcomes, replace(an_outcome(owner.id), request_key=f"key-{number}"))
        clock.advance(timedelta(milliseconds=1))

    async def forget(before: int, limit: int = 9) -> int:
        return await store.write(lambda uow: uow.idempotency_keys.forget(before=Instant(before), limit=limit))

    assert await forget(START - 1) == 0
    assert [await forget(START + 2, limit=2) for _ in range(3)] == [2, 1, 0]
    question = [(owner.id, "POST /v1/tasks", f"key-{number}") for number in range(4)]
    found = await store.read(Bulkhead.TASKS, lambda uow: [uow.idempotency_keys.find(*key) for key in question])
    assert [outcome is not None for outcome in found] == [False, False, False, True]
