"""`MaintenanceLease`: one row that everyone sees, whose number only grows."""

import pytest

from domain.errors import StaleVersion
from domain.maintenance import MaintenanceGrant
from domain.ports import Bulkhead, Store, UnitOfWork
from tests.adapters.conformance.conftest import Adapter
from tests.builders import a_grant


async def last(store: Store) -> MaintenanceGrant | None:
    """Return the last grant."""
    return await store.read(Bulkhead.OPERATIONS, lambda uow: uow.maintenance.last())


def make(uow: UnitOfWork, grant: MaintenanceGrant) -> None:
    """Keep a grant."""
    uow.maintenance.grant(grant)


async def test_before_the_first_grant_there_is_none(store: Store) -> None:
    """A new database has no holder."""
    assert await last(store) is None


async def test_a_grant_is_kept_exactly_and_seen_by_everyone(store: Store, adapter: Adapter) -> None:
    """Every member is read back equal, by this process and by another, and the next grant takes its place."""
    async with adapter.open_store() as other:
        for number in (1, 2, 7):
            await store.write(make, a_grant(number))
            assert await last(store) == await last(other) == a_grant(number)


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_number_that_is_not_higher_is_refused(store: Store, number: int) -> None:
    """`StaleVersion`, and the last grant stays: whoever decided on an older state decides nothing."""
    await store.write(lambda uow: uow.maintenance.grant(a_grant(3)))

    def grant_again(uow: UnitOfWork) -> None:
        with pytest.raises(StaleVersion):
            uow.maintenance.grant(a_grant(number, worker_id="worker-2"))

    await store.write(grant_again)
    assert await last(store) == a_grant(3)


async def test_a_grant_that_is_rolled_back_was_never_made(store: Store) -> None:
    """The one before it is the last."""
    await store.write(lambda uow: uow.maintenance.grant(a_grant(1)))

    def fail_after_granting(uow: UnitOfWork) -> None:
        uow.maintenance.grant(a_grant(2))
        raise LookupError

    with pytest.raises(LookupError):
        await store.write(fail_after_granting)
    assert await last(store) == a_grant(1)
