"""How fast one owner may send requests: the generic cell rate algorithm (GCRA; ITU-T I.371, as a virtual schedule).

One number for each owner says everything: the instant at which their allowance will be whole again. A request moves it
on by one interval; it is refused where that would put it further ahead than the window is long. So there is no window
at whose edge twice the allowance fits, and nothing has to be counted or reset.
"""

from msgspec import Struct


class RatePolicy(Struct, frozen=True):
    """At most `quota` requests at once, and as many in every `window_seconds` from then on."""

    quota: int
    window_seconds: int

    @property
    def interval(self) -> float:
        """The seconds in which the allowance grows by one request."""
        return self.window_seconds / self.quota

    def share(self, processes: int) -> "RatePolicy":
        """Return the part of it that one of several processes grants, at least one request: they do not talk."""
        return RatePolicy(max(self.quota // processes, 1), self.window_seconds)


class Allowance(Struct, frozen=True):
    """What a request found: whether it is let through, how many more would be, and when that changes (seconds).

    `whole_at` is to be kept for the owner's next request. Who keeps nothing once it has passed forgets nothing.
    """

    is_granted: bool
    remaining: int
    retry_after_seconds: float
    renewed_after_seconds: float
    whole_at: float


def ask(whole_at: float | None, now: float, policy: RatePolicy) -> Allowance:
    """Return what a request at `now` finds, on any clock that does not go back. None stands for a whole allowance."""
    interval, window = policy.interval, policy.window_seconds
    before = now if whole_at is None else max(whole_at, now)
    after = before + interval
    # A whole allowance is worth exactly the quota, also where the interval has no exact binary form.
    tolerance = interval * 1e-6
    is_granted = after - now <= window + tolerance
    kept = after if is_granted else before
    return Allowance(
        is_granted=is_granted,
        remaining=max(int((window - (kept - now) + tolerance) // interval), 0),
        retry_after_seconds=0.0 if is_granted else after - now - window,
        renewed_after_seconds=kept - now,
        whole_at=kept,
    )
