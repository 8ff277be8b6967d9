"""Users and tokens: rows to facts and back."""

from typing import Any, Final

from adapters.sqlite import driver, statements
from adapters.sqlite.rows import fact
from domain.account import ApiToken, OwnerId, Principal, Scope, TokenId, User
from domain.errors import NameTaken
from domain.instants import Instant

SQL: Final = statements.load("accounts")


class SqliteUsers:
    """`Users` in SQLite."""

    def __init__(self, connection: driver.Connection, now: Instant) -> None:
        self._connection = connection
        self._now = now

    def add(self, name: str) -> User:
        """Add a user, created now."""
        try:
            row = self._connection.execute(SQL["add_user"], {"name": name, "now": self._now}).fetchone()
        except driver.IntegrityError as error:
            raise NameTaken(f"there is a user {name!r} already") from error
        return fact(User, row)

    def find(self, name: str) -> User | None:
        """Return the user of that name."""
        row = self._connection.execute(SQL["find_user"], {"name": name}).fetchone()
        return fact(User, row) if row else None

    def get(self, owner_id: OwnerId) -> User | None:
        """Return the user of that id."""
        row = self._connection.execute(SQL["get_user"], {"id": owner_id}).fetchone()
        return fact(User, row) if row else None

    def all(self) -> list[User]:
        """Return every user, by name."""
        return [fact(User, row) for row in self._connection.execute(SQL["all_users"])]

    def set_disabled(self, owner_id: OwnerId, *, at: Instant | None) -> None:
        """Disable the user as of `at`, or enable with None."""
        self._connection.execute(SQL["set_user_disabled"], {"id": owner_id, "at": at})


class SqliteApiTokens:
    """`ApiTokens` in SQLite; scopes are one text, separated by spaces as in RFC 6749."""

    def __init__(self, connection: driver.Connection) -> None:
        self._connection = connection

    def add(self, token: ApiToken) -> None:
        """Keep a token."""
        self._connection.execute(
            SQL["add_token"],
            {
                "id": token.id,
                "user_id": token.user_id,
                "token_hash": token.token_hash,
                "scopes": " ".join(token.scopes),
                "created_at": token.created_at,
                "revoked_at": token.revoked_at,
            },
        )

    def of(self, owner_id: OwnerId) -> list[ApiToken]:
        """Return the user's tokens, oldest first."""
        return [_token(row) for row in self._connection.execute(SQL["tokens_of_user"], {"user_id": owner_id})]

    def revoke(self, token_id: TokenId, *, at: Instant) -> bool:
        """Revoke a token; tell whether it was in force."""
        return self._connection.execute(SQL["revoke_token"], {"id": token_id, "at": at}).rowcount == 1

    def principal(self, token_hash: str) -> Principal | None:
        """Return whom the token speaks for."""
        row = self._connection.execute(SQL["principal"], {"token_hash": token_hash}).fetchone()
        return Principal(row[0], row[1], row[2], frozenset(_scopes(row[3]))) if row else None


def _token(row: tuple[Any, ...]) -> ApiToken:
    token_id, user_id, token_hash, scopes, created_at, revoked_at = row
    return ApiToken(token_id, user_id, token_hash, _scopes(scopes), created_at, revoked_at)


def _scopes(text: str) -> tuple[Scope, ...]:
    return tuple(Scope(word) for word in text.split())
