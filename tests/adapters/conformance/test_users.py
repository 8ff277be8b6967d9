"""`Users`: names are unique, ids stay, and disabling can be undone."""

import pytest

from domain.account import OwnerId, User
from domain.errors import NameTaken
from domain.instants import Instant
from domain.ports import Bulkhead, Store, UnitOfWork
from tests.adapters.conformance.steps import add_users
from tests.fakes import START


def everyone(uow: UnitOfWork) -> list[User]:
    """Return every user."""
    return uow.users.all()


async def test_a_user_is_created_now_and_is_not_disabled(store: Store) -> None:
    """`add` returns the user as it is kept, with the transaction's time."""
    added = await store.write(lambda uow: uow.users.add("Ann"))
    assert (added.name, added.created_at, added.disabled_at) == ("Ann", START, None)
    assert await store.read(Bulkhead.OPERATIONS, everyone) == [added]


async def test_a_user_is_found_by_name_and_by_id(store: Store, owner: User, neighbour: User) -> None:
    """`find` and `get` return the one user that is asked for."""
    found = await store.read(
        Bulkhead.OPERATIONS, lambda uow: [uow.users.find("Ann"), uow.users.get(owner.id), uow.users.find("Bob")]
    )
    assert found == [owner, owner, neighbour]


async def test_nobody_is_found_by_an_unknown_name_or_id(store: Store, owner: User) -> None:
    """A name in another spelling is another name, and an id that was never given is nobody's."""
    found = await store.read(
        Bulkhead.OPERATIONS, lambda uow: [uow.users.find("ann"), uow.users.get(OwnerId(owner.id + 1))]
    )
    assert found == [None, None]


async def test_a_name_in_use_is_refused_and_nothing_changes(store: Store, owner: User) -> None:
    """The second user of a name is `NameTaken`, also when the function catches that and goes on."""

    def add_again(uow: UnitOfWork) -> None:
        with pytest.raises(NameTaken, match="'Ann'"):
            uow.users.add("Ann")

    await store.write(add_again)
    assert await store.read(Bulkhead.OPERATIONS, everyone) == [owner]


async def test_all_users_come_by_name(store: Store) -> None:
    """`all` is in the order of the names, whatever the order of adding."""
    await store.write(add_users, "Eve", "Ann", "Zoë", "Bob")
    assert [user.name for user in await store.read(Bulkhead.OPERATIONS, everyone)] == ["Ann", "Bob", "Eve", "Zoë"]


async def test_disabling_states_an_instant_and_enabling_takes_it_back(
    store: Store, owner: User, neighbour: User
) -> None:
    """`set_disabled` concerns the one user, in both directions."""
    at = Instant(START + 5)
    await store.write(lambda uow: uow.users.set_disabled(owner.id, at=at))
    disabled, other = await store.read(Bulkhead.OPERATIONS, everyone)
    assert disabled.disabled_at == at
    assert other == neighbour
    await store.write(lambda uow: uow.users.set_disabled(owner.id, at=None))
    assert await store.read(Bulkhead.OPERATIONS, everyone) == [owner, neighbour]
