"""Ids, secrets and chance, from the operating system's generator."""

from random import SystemRandom
from secrets import token_urlsafe

from uuid_utils import uuid7

_CHANCE = SystemRandom()
_SECRET_BYTES = 32  # 256 bits: beyond guessing, whatever the number of tries


class SystemRandomness:
    """`Randomness` of this host."""

    def new_id(self) -> str:
        """Return a fresh UUID, version 7 (RFC 9562): ordered by time, 74 of its bits random."""
        return str(uuid7())

    def new_secret(self) -> str:
        """Return 256 random bits as URL-safe text."""
        return token_urlsafe(_SECRET_BYTES)

    def fraction(self) -> float:
        """Return a number in [0, 1)."""
        return _CHANCE.random()
