"""The host's clocks. SQLite has no clock of its own: its database time is that of the host that it runs on."""

from time import monotonic, time_ns

from domain.instants import Instant


class SystemClock:
    """`Clock` of this host."""

    def now(self) -> Instant:
        """Return the wall clock's time, in milliseconds since the Unix epoch."""
        return Instant(time_ns() // 1_000_000)

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return monotonic()
