"""Lists of an owner's tasks and exports, page by page: by `created_at`, then `id`, so that no two share a place."""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from domain.instants import Instant

T = TypeVar("T")


class Listed(Protocol):
    """Something that has a place in a list."""

    @property
    def created_at(self) -> Instant:
        """By which the list is ordered."""
        ...

    @property
    def id(self) -> str:
        """What orders those of one instant."""
        ...


L = TypeVar("L", bound=Listed)


class Position(Struct, frozen=True):
    """A place in a list, from which a page begins. It stays one when the thing that stood there is gone."""

    created_at: Instant
    id: str


class Page(Struct, Generic[T], frozen=True):
    """Some of a list, and the place of the last of them where more follow; None when this is the last page."""

    items: list[T]
    following: Position | None


def page_of(found: Sequence[L], *, limit: int) -> Page[L]:
    """Return a page of up to `limit` of what was found, among which is one more when more follow."""
    shown = list(found[:limit])
    return Page(shown, Position(shown[-1].created_at, shown[-1].id) if len(found) > limit else None)
