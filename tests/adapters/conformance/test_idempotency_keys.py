"""`IdempotencyKeys`: an outcome is found again by owner, route and key together, and by nothing less."""

from msgspec.structs import replace

from domain.account import OwnerId, User
from domain.ports import Bulkhead, KeyedOutcome, Store
from tests.adapters.conformance.steps import keep_outcomes


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
