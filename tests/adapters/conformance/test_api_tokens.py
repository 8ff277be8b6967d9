"""`ApiTokens`: a digest speaks for its user until it is revoked or the user is disabled."""

import pytest

from domain.account import ApiToken, OwnerId, Principal, Scope, TokenId, User, token_digest
from domain.instants import Instant
from domain.ports import Bulkhead, Store
from tests.adapters.conformance.steps import keep_tokens
from tests.builders import an_id
from tests.fakes import START


def a_token(user_id: OwnerId, number: int = 1, *scopes: Scope) -> ApiToken:
    """Return a token as it is kept; a higher number was created later."""
    return ApiToken(
        id=TokenId(an_id(number)),
        user_id=user_id,
        token_hash=token_digest(f"fp_{number}"),
        scopes=scopes or (Scope.TASKS,),
        created_at=Instant(START + number),
    )


async def principal(store: Store, token: ApiToken) -> Principal | None:
    """Return whom the token speaks for."""
    return await store.read(Bulkhead.OPERATIONS, lambda uow: uow.api_tokens.principal(token.token_hash))


@pytest.mark.parametrize("scopes", [(Scope.TASKS,), (Scope.EXPORTS, Scope.OPS), tuple(Scope)])
async def test_a_token_speaks_for_its_user_within_its_scopes(
    store: Store, owner: User, scopes: tuple[Scope, ...]
) -> None:
    """`principal` names the user, the token and exactly the scopes that were kept."""
    token = a_token(owner.id, 1, *scopes)
    await store.write(lambda uow: uow.api_tokens.add(token))
    assert await principal(store, token) == Principal(owner.id, "Ann", token.id, frozenset(scopes))


async def test_an_unknown_digest_speaks_for_nobody(store: Store, owner: User) -> None:
    """A digest that was never kept has no principal."""
    await store.write(lambda uow: uow.api_tokens.add(a_token(owner.id)))
    assert await principal(store, a_token(owner.id, 2)) is None


async def test_a_token_of_a_disabled_user_speaks_for_nobody_until_the_user_is_enabled(
    store: Store, owner: User
) -> None:
    """Disabling a user silences every token without revoking one."""
    token = a_token(owner.id)
    await store.write(lambda uow: uow.api_tokens.add(token))
    await store.write(lambda uow: uow.users.set_disabled(owner.id, at=START))
    assert await principal(store, token) is None
    await store.write(lambda uow: uow.users.set_disabled(owner.id, at=None))
    assert await principal(store, token) is not None


async def test_a_revoked_token_speaks_for_nobody_and_the_others_go_on(store: Store, owner: User) -> None:
    """`revoke` ends one token."""
    revoked, kept = a_token(owner.id, 1), a_token(owner.id, 2)
    await store.write(keep_tokens, revoked, kept)
    assert await store.write(lambda uow: uow.api_tokens.revoke(revoked.id, at=START))
    assert await principal(store, revoked) is None
    assert await principal(store, kept) is not None


async def test_revoking_twice_changes_nothing_and_says_so(store: Store, owner: User) -> None:
    """The second `revoke` returns False and leaves the instant of the first."""
    token = a_token(owner.id)
    await store.write(lambda uow: uow.api_tokens.add(token))
    assert await store.write(lambda uow: uow.api_tokens.revoke(token.id, at=START))
    assert not await store.write(lambda uow: uow.api_tokens.revoke(token.id, at=Instant(START + 9)))
    (kept,) = await store.read(Bulkhead.OPERATIONS, lambda uow: uow.api_tokens.of(owner.id))
    assert kept.revoked_at == START


async def test_revoking_an_unknown_token_says_so(store: Store) -> None:
    """`revoke` returns False where there is no such token."""
    assert not await store.write(lambda uow: uow.api_tokens.revoke(TokenId(an_id()), at=START))


async def test_the_tokens_of_a_user_come_oldest_first_with_the_revoked_ones(
    store: Store, owner: User, neighbour: User
) -> None:
    """`of` returns every token of that user and none of another."""
    tokens = [a_token(owner.id, number, *Scope) for number in (3, 1, 2)]
    await store.write(keep_tokens, *tokens, a_token(neighbour.id, 4))
    await store.write(lambda uow: uow.api_tokens.revoke(tokens[1].id, at=START))
    found = await store.read(Bulkhead.OPERATIONS, lambda uow: uow.api_tokens.of(owner.id))
    assert [token.id for token in found] == [an_id(1), an_id(2), an_id(3)]
    assert [token.revoked_at for token in found] == [START, None, None]
    assert found[2] == tokens[0]
