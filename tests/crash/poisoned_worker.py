"""A worker whose renderer does not survive one owner's exports: `DEATH OWNER_ID WORKER_ID`, settings as usual.

Everything but that owner's rendering is what `fencepost worker` runs.
"""

import asyncio
import ctypes
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from domain.account import OwnerId
from domain.parameters import ExportParameters
from domain.ports import Renderer, Rendering
from entrypoints.bootstrap import assemble
from entrypoints.settings import Settings
from entrypoints.telemetry import configure
from entrypoints.worker import Worker

# Room for the interpreter and its libraries, and none for what the poisoned export asks for.
_MEMORY: Final = 2 << 30


def be_killed() -> None:
    """End as the system's out-of-memory killer ends a process."""
    os.kill(os.getpid(), signal.SIGKILL)


def read_nowhere() -> None:
    """End by a segmentation fault."""
    ctypes.string_at(0)


def run_out_of_memory() -> None:
    """Ask for more memory than the process may have."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    bytearray(_MEMORY)


DEATHS: Final[dict[str, Callable[[], None]]] = {
    "killed": be_killed,
    "segmentation fault": read_nowhere,
    "aborted": os.abort,
    "out of memory": run_out_of_memory,
}


class PoisonedRenderer:
    """The real renderer, except for one owner."""

    def __init__(self, renderer: Renderer, *, owner_id: OwnerId, die: Callable[[], None]) -> None:
        self._renderer = renderer
        self._owner_id = owner_id
        self._die = die

    @asynccontextmanager
    async def render(self, owner_id: OwnerId, parameters: ExportParameters) -> AsyncIterator[Rendering]:
        """Render as the real one does, or die."""
        if owner_id == self._owner_id:
            self._die()
        async with self._renderer.render(owner_id, parameters) as rendering:
            yield rendering


async def main(death: str, owner_id: OwnerId, worker_id: str) -> None:
    """Work until killed."""
    # A process that dies on purpose leaves no file of its memory behind.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    settings = Settings.from_environment()
    configure(settings)
    async with assemble(settings) as app:
        renderer = PoisonedRenderer(app.renderer, owner_id=owner_id, die=DEATHS[death])
        poisoned = replace(app, renderer=renderer)
        await Worker(poisoned, worker_id=worker_id, stopping=asyncio.Event()).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], OwnerId(int(sys.argv[2])), sys.argv[3]))
