"""Users and their tokens: what an operator sets up, and what every request is checked against."""

from domain.account import ApiToken, OwnerId, Principal, Scope, TokenId, User, token_digest
from domain.errors import InputError, InvalidInput, NotFound
from domain.ports import UnitOfWork

_LONGEST_NAME = 200


def add_user(uow: UnitOfWork, name: str) -> User:
    """Add a user.

    Raises:
        NameTaken: there is one of that name.
        InvalidInput: the name is empty, too long, or not printable.
    """
    if not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise InvalidInput(
            InputError("name", f"must be 1 to {_LONGEST_NAME} printable characters without outer spaces")
        )
    return uow.users.add(name)


def list_users(uow: UnitOfWork) -> list[User]:
    """Return every user, by name."""
    return uow.users.all()


def disable_user(uow: UnitOfWork, name: str) -> User:
    """Refuse the user's tokens from now on; exports that were accepted fail with `owner_disabled`. Idempotent.

    Raises:
        NotFound: there is no user of that name.
    """
    user = named_user(uow, name)
    if user.disabled_at is None:
        uow.users.set_disabled(user.id, at=uow.now)
    return named_user(uow, name)


def enable_user(uow: UnitOfWork, name: str) -> User:
    """Let the user's tokens speak again. Idempotent.

    Raises:
        NotFound: there is no user of that name.
    """
    user = named_user(uow, name)
    uow.users.set_disabled(user.id, at=None)
    return named_user(uow, name)


def named_user(uow: UnitOfWork, name: str) -> User:
    """Return the user of that name.

    Raises:
        NotFound: there is none.
    """
    user = uow.users.find(name)
    if user is None:
        raise NotFound(f"there is no user {name!r}")
    return user


def issue_token(uow: UnitOfWork, name: str, *, token_id: TokenId, token: str, scopes: frozenset[Scope]) -> ApiToken:
    """Keep the digest of a token that now speaks for the user, within the scopes.

    Raises:
        NotFound: there is no user of that name.
        InvalidInput: no scope.
    """
    user = named_user(uow, name)
    if not scopes:
        raise InvalidInput(InputError("scopes", "must name at least one of: " + ", ".join(Scope)))
    kept = ApiToken(token_id, user.id, token_digest(token), tuple(sorted(scopes)), uow.now)
    uow.api_tokens.add(kept)
    return kept


def list_tokens(uow: UnitOfWork, name: str) -> list[ApiToken]:
    """Return the user's tokens, oldest first, revoked ones included.

    Raises:
        NotFound: there is no user of that name.
    """
    return uow.api_tokens.of(named_user(uow, name).id)


def revoke_token(uow: UnitOfWork, token_id: TokenId) -> None:
    """Refuse the token from now on.

    Raises:
        NotFound: there is no such token, or it was revoked before.
    """
    if not uow.api_tokens.revoke(token_id, at=uow.now):
        raise NotFound(f"there is no token {token_id!r} in force")


def authenticate(uow: UnitOfWork, token: str) -> Principal | None:
    """Return whom a bearer token speaks for; None when it is unknown, revoked, or its user is disabled."""
    return uow.api_tokens.principal(token_digest(token))


def owner_is_enabled(uow: UnitOfWork, owner_id: OwnerId) -> bool:
    """Tell whether the owner exists and is not disabled."""
    user = uow.users.get(owner_id)
    return user is not None and user.disabled_at is None
