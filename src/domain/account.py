"""Who may do what: users, who own tasks and exports, and the bearer tokens that speak for them."""

from enum import StrEnum
from hashlib import sha256
from typing import Final, NewType

from msgspec import Struct

from domain.instants import Instant

OwnerId = NewType("OwnerId", int)
TokenId = NewType("TokenId", str)

# A fixed prefix lets secret scanners find a token that was committed or posted by mistake.
TOKEN_PREFIX: Final = "fp_"  # noqa: S105 - the public part of a token, not one


class Scope(StrEnum):
    """What a token may be used for: the owner's tasks, the owner's exports, or operating the service."""

    TASKS = "tasks"
    EXPORTS = "exports"
    OPS = "ops"


class User(Struct, frozen=True):
    """Someone who owns tasks and exports. A disabled user's tokens are refused and exports fail."""

    id: OwnerId
    name: str
    created_at: Instant
    disabled_at: Instant | None = None


class ApiToken(Struct, frozen=True):
    """A bearer token as it is kept: the secret itself is shown once and never stored."""

    id: TokenId
    user_id: OwnerId
    token_hash: str
    scopes: tuple[Scope, ...]
    created_at: Instant
    revoked_at: Instant | None = None


class Principal(Struct, frozen=True):
    """The caller of a request, as its token proves it."""

    owner_id: OwnerId
    name: str
    token_id: TokenId
    scopes: frozenset[Scope]


def token_from(secret: str) -> str:
    """Return the token that is shown for 256 random bits given as text."""
    return TOKEN_PREFIX + secret


def token_digest(token: str) -> str:
    """Return what is stored of a token: SHA-256 in hexadecimal.

    A slow password hash would buy nothing, since the secret is random and not chosen by a person.
    """
    return sha256(token.encode()).hexdigest()
