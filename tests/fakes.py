"""The two ports that a test must hold in its hands: the clock, and chance."""

from datetime import timedelta
from itertools import count
from typing import Final

from domain.instants import Instant, milliseconds

START: Final = Instant(1_700_000_000_000)
_GOLDEN_RATIO: Final = 0.618_033_988_749_895
_LOOK: Final = timedelta(milliseconds=1)


class ManualClock:
    """A clock that moves when it is told to.

    Each look at its monotonic side takes a millisecond, so that whoever waits by it comes to the end of the wait.
    """

    def __init__(self, now: Instant = START) -> None:
        self._now = now
        self._since_start = timedelta()

    def now(self) -> Instant:
        """Return the instant at which the clock stands."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds since the start, each look counted."""
        self._since_start += _LOOK
        return self._since_start.total_seconds()

    def advance(self, duration: timedelta) -> Instant:
        """Let time pass on both sides; return the instant at which the clock then stands."""
        self._since_start += duration
        return self.step(duration)

    def step(self, duration: timedelta) -> Instant:
        """Correct the wall clock by `duration`, back when it is negative: no time passes."""
        self._now = Instant(self._now + milliseconds(duration))
        return self._now


class SequentialRandomness:
    """Ids, secrets and fractions that are the same in every run; none comes twice."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._secrets = count(1)
        self._fractions = count(1)

    def new_id(self) -> str:
        """Return the next id: a UUID of version 7 that sorts after the ones before it."""
        return f"0198c0de-0000-7000-8000-{next(self._ids):012x}"

    def new_secret(self) -> str:
        """Return the next secret, as long as a real one."""
        return f"secret-{next(self._secrets):036}"

    def fraction(self) -> float:
        """Return the next of a sequence that fills [0, 1) evenly."""
        return next(self._fractions) * _GOLDEN_RATIO % 1
