"""How often each owner may ask this process: the state that the pure rule needs, and the header fields that tell of it.

The fields are those of draft-ietf-httpapi-ratelimit-headers-10: structured fields (RFC 9651) with one policy.
"""

from collections.abc import Mapping
from math import ceil

from domain.account import OwnerId
from domain.ports import Clock
from domain.rate import Allowance, RatePolicy, ask


class RequestRates:
    """One number for each owner who has asked of late: as many as send requests within a window or two."""

    def __init__(self, policy: RatePolicy, *, clock: Clock) -> None:
        self.policy = policy
        self._clock = clock
        self._whole_at: dict[OwnerId, float] = {}
        self._swept_at = clock.monotonic()
        self._stated_policy = f'"requests";q={policy.quota};w={policy.window_seconds}'

    def __len__(self) -> int:
        """Return how many owners are remembered."""
        return len(self._whole_at)

    def ask(self, owner_id: OwnerId) -> Allowance:
        """Count a request of the owner, and return what it found."""
        now = self._clock.monotonic()
        if now - self._swept_at >= self.policy.window_seconds:
            # Whose allowance is whole is not told apart from who was never here.
            self._whole_at = {owner: whole_at for owner, whole_at in self._whole_at.items() if whole_at > now}
            self._swept_at = now
        found = ask(self._whole_at.get(owner_id), now, self.policy)
        self._whole_at[owner_id] = found.whole_at
        return found

    def headers(self, found: Allowance) -> Mapping[str, str]:
        """Return the header fields of an answer to a request that found this."""
        return {
            "RateLimit": f'"requests";r={found.remaining};t={ceil(found.renewed_after_seconds)}',
            "RateLimit-Policy": self._stated_policy,
        }
