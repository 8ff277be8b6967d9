"""The application's store with something in its way: trouble, or a look at what is asked of it."""

from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from domain.ports import Bulkhead, Store, UnitOfWork
from domain.use_cases.accounts import authenticate

P = ParamSpec("P")
T = TypeVar("T")


class HookedStore:
    """A store that keeps its laws, and awaits `before` with each function that it is about to run."""

    def __init__(self, store: Store, before: Callable[[Callable[..., Any]], Awaitable[None]]) -> None:
        self._store = store
        self._before = before

    async def write(self, function: Callable[Concatenate[UnitOfWork, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Write as the real one does."""
        await self._before(function)
        return await self._store.write(function, *args, **kwargs)

    async def read(
        self, bulkhead: Bulkhead, function: Callable[Concatenate[UnitOfWork, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Read as the real one does."""
        await self._before(function)
        return await self._store.read(bulkhead, function, *args, **kwargs)

    async def checkpoint(self) -> None:
        """Move what is committed, as the real one does."""
        await self._store.checkpoint()


def failing_after_authentication(store: Store) -> Store:
    """Return a store that knows whose a token is, and meets a defect at everything else."""

    async def fail(function: Callable[..., Any]) -> None:
        if function is not authenticate:
            raise RuntimeError("a defect")

    return HookedStore(store, fail)


def troubled(store: Store, trouble: Exception) -> Store:
    """Return a store that fails at everything, for this reason."""

    async def fail(_: Callable[..., Any]) -> None:
        raise trouble

    return HookedStore(store, fail)
