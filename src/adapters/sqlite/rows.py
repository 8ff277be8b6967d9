"""From a row to a fact, for all facts alike."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

S = TypeVar("S", bound=Struct)


def fact(kind: type[S], row: Sequence[object]) -> S:
    """Return the fact that a row states, whose columns are in the order of its members.

    Raises:
        msgspec.ValidationError: the row holds what this program cannot have written.
        ValueError: there are more or fewer columns than members.
    """
    return msgspec.convert(dict(zip(kind.__struct_fields__, row, strict=True)), kind)
