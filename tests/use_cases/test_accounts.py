"""Users and tokens: what an operator sets up, and what every request is checked against."""

from pathlib import Path

import pytest

from adapters.sqlite.store import SqliteStore
from domain.account import OwnerId, Principal, Scope, TokenId, User, token_digest, token_from
from domain.errors import InvalidInput, NameTaken, NotFound
from domain.ports import Bulkhead
from domain.use_cases.accounts import (
    add_user,
    authenticate,
    disable_user,
    enable_user,
    issue_token,
    list_tokens,
    list_users,
    named_user,
    owner_is_enabled,
    revoke_token,
)
from tests.builders import an_id
from tests.fakes import START, ManualClock, SequentialRandomness
from tests.use_cases.bench import contents


async def issued(store: SqliteStore, user: User, number: int = 1, *scopes: Scope) -> str:
    """Issue a token for the user; return it as it is shown."""
    token = token_from(f"secret-{number}")
    await store.write(
        issue_token,
        user.name,
        token_id=TokenId(an_id(number)),
        token=token,
        scopes=frozenset(scopes or (Scope.TASKS,)),
    )
    return token


async def who(store: SqliteStore, token: str) -> Principal | None:
    """Return whom the token speaks for."""
    return await store.read(Bulkhead.TASKS, authenticate, token)


async def test_users_are_added_and_listed_by_name(store: SqliteStore, owner: User, neighbour: User) -> None:
    """Each of them once."""
    assert await store.read(Bulkhead.OPERATIONS, list_users) == [owner, neighbour]
    assert await store.read(Bulkhead.OPERATIONS, named_user, "Bob") == neighbour


async def test_a_name_is_given_once(store: SqliteStore, database: Path, owner: User) -> None:
    """The second is refused, and nothing changes."""
    before = contents(database)
    with pytest.raises(NameTaken):
        await store.write(add_user, owner.name)
    assert contents(database) == before


@pytest.mark.parametrize("name", ["", " Ann", "Ann ", "x" * 201, "a\nb", "a\0b", "\x1b[31m", "a\u200eb"])
async def test_a_name_that_cannot_be_shown_is_refused(store: SqliteStore, database: Path, name: str) -> None:
    """It is printed on an operator's screen."""
    with pytest.raises(InvalidInput, match="name"):
        await store.write(add_user, name)
    assert contents(database)["users"] == []


@pytest.mark.parametrize("name", ["A", "x" * 200, "Zoë Öz", "名前"])
async def test_any_printable_name_is_kept(store: SqliteStore, name: str) -> None:
    """In any script, to the longest."""
    assert (await store.write(add_user, name)).name == name


async def test_a_token_speaks_for_its_user_within_its_scopes(store: SqliteStore, owner: User) -> None:
    """And for nobody when a letter of it is wrong."""
    token = await issued(store, owner, 1, Scope.EXPORTS, Scope.OPS)
    principal = await who(store, token)
    assert principal == Principal(owner.id, "Ann", TokenId(an_id(1)), frozenset({Scope.EXPORTS, Scope.OPS}))
    for wrong in (token[:-1], token + "x", token.upper(), "", token_digest(token)):
        assert await who(store, wrong) is None


async def test_a_token_itself_is_nowhere_in_the_database(
    store: SqliteStore, database: Path, owner: User, randomness: SequentialRandomness
) -> None:
    """Only its digest is kept, so that whoever reads the file can call nothing."""
    token = token_from(randomness.new_secret())
    await store.write(issue_token, owner.name, token_id=TokenId(an_id()), token=token, scopes=frozenset({Scope.TASKS}))
    text = repr(contents(database))
    assert token_digest(token) in text
    assert token not in text
    assert token.removeprefix("fp_") not in text


async def test_a_token_needs_a_user_and_a_scope(store: SqliteStore, database: Path, owner: User) -> None:
    """Otherwise it is refused, and not kept."""
    with pytest.raises(NotFound):
        await store.write(issue_token, "nobody", token_id=TokenId(an_id()), token="fp_1", scopes=frozenset(Scope))
    with pytest.raises(InvalidInput, match="tasks, exports, ops"):
        await store.write(issue_token, owner.name, token_id=TokenId(an_id()), token="fp_1", scopes=frozenset[Scope]())
    assert contents(database)["api_tokens"] == []


async def test_a_revoked_token_is_listed_and_speaks_for_nobody(
    store: SqliteStore, owner: User, clock: ManualClock
) -> None:
    """The user's other tokens go on."""
    revoked, kept = await issued(store, owner, 1), await issued(store, owner, 2)
    await store.write(revoke_token, TokenId(an_id(1)))
    assert await who(store, revoked) is None
    assert await who(store, kept) is not None
    tokens = await store.read(Bulkhead.OPERATIONS, list_tokens, owner.name)
    assert [(token.id, token.revoked_at) for token in tokens] == [(an_id(1), clock.now()), (an_id(2), None)]


async def test_a_token_is_revoked_once(store: SqliteStore, owner: User) -> None:
    """A second time, or of an unknown one, there is nothing in force to revoke."""
    await issued(store, owner)
    await store.write(revoke_token, TokenId(an_id(1)))
    for token_id in (an_id(1), an_id(2)):
        with pytest.raises(NotFound, match=token_id):
            await store.write(revoke_token, TokenId(token_id))


async def test_a_disabled_user_is_refused_until_enabled(
    store: SqliteStore, database: Path, owner: User, neighbour: User
) -> None:
    """Every token at once, without revoking one; both verbs can be repeated, and concern the one user."""
    token, other = await issued(store, owner, 1), await issued(store, neighbour, 2)
    disabled = await store.write(disable_user, "Ann")
    assert disabled.disabled_at == START
    assert await who(store, token) is None
    assert await who(store, other) is not None
    assert not await store.read(Bulkhead.EXPORTS, owner_is_enabled, owner.id)
    before = contents(database)
    assert await store.write(disable_user, "Ann") == disabled
    assert contents(database) == before
    for _ in range(2):
        assert await store.write(enable_user, "Ann") == owner
    assert await who(store, token) is not None
    assert await store.read(Bulkhead.EXPORTS, owner_is_enabled, owner.id)


async def test_nobody_is_neither_listed_nor_disabled(store: SqliteStore, owner: User) -> None:
    """An unknown name is told, and an unknown id owns nothing."""
    for verb in (disable_user, enable_user, list_tokens, named_user):
        with pytest.raises(NotFound, match="'nobody'"):
            await store.write(verb, "nobody")
    assert not await store.read(Bulkhead.EXPORTS, owner_is_enabled, OwnerId(owner.id + 1))
