"""What keeps secrets and people's text out of logs, tracebacks and debuggers."""

from typing import Any, ClassVar

from msgspec import Struct


class Discreet(Struct, frozen=True):
    """A fact that may hold a secret or task text: however it is printed, only the members named in `shown` are seen.

    Pretty printers pass `__repr__` by, and a traceback with local variables is one of them.
    """

    shown: ClassVar[tuple[str, ...]]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in self.shown]
