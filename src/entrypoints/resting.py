"""How a process waits: for a time, and not a moment longer than it has to once it is told to stop."""

import asyncio


async def rest(seconds: float, *, unless: asyncio.Event) -> None:
    """Return after so many seconds, or as soon as the event is set."""
    try:
        async with asyncio.timeout(seconds):
            await unless.wait()
    except TimeoutError:
        return
