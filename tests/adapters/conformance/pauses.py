"""A transaction that stands still in the middle, so that a test can look at what happens beside it."""

import asyncio
from threading import Event
from typing import Final

from domain.ports import UnitOfWork

# A test that came to nothing ends; no sound one comes near.
DEADLINE_SECONDS: Final = 20


class Pause:
    """A place in a function that runs on another thread: the test waits for it to get there, then lets it go on."""

    def __init__(self) -> None:
        self._reached = Event()
        self._left = Event()

    def here(self) -> None:
        """Stop until the test says go on. On the other thread."""
        self._reached.set()
        if not self._left.wait(DEADLINE_SECONDS):
            raise TimeoutError("the test never let this function go on")

    async def reached(self) -> None:
        """Wait until the other thread is there."""
        if not await asyncio.to_thread(self._reached.wait, DEADLINE_SECONDS):
            raise TimeoutError("the function never came to the pause")

    def is_reached(self) -> bool:
        """Tell whether the other thread is there, or was."""
        return self._reached.is_set()

    def go_on(self) -> None:
        """Let the other thread go on."""
        self._left.set()


def pause_in(uow: UnitOfWork, pause: Pause) -> None:
    """Do nothing, for as long as the test wants, in a transaction that is open on both kinds of connection."""
    uow.users.all()
    pause.here()
