"""`fencepost tokens`: what speaks for a user."""

from collections.abc import Sequence

import rich_click as click

from domain.account import ApiToken, Scope, TokenId, token_from
from domain.instants import format_instant
from domain.ports import Bulkhead
from domain.use_cases.accounts import issue_token, list_tokens, list_users, revoke_token
from entrypoints.bootstrap import Application
from entrypoints.cli.database import database_option, in_application, settings_for
from entrypoints.cli.printing import note, show_json, show_table, typed


@click.group()
def command() -> None:
    """Issue, list and revoke the tokens that speak for a user."""


@command.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([scope.value for scope in Scope]),
    multiple=True,
    default=(Scope.TASKS.value, Scope.EXPORTS.value),
    show_default="tasks and exports",
    help="What the token may be used for; can be given several times.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the token, its id and its scopes.")
@database_option
def issue(name: str, *, scopes: Sequence[str], as_json: bool, database: str | None) -> None:
    """Make a token for the user. It is printed now, and never again: only its digest is kept."""

    async def work(app: Application) -> tuple[str, ApiToken, bool]:
        token = token_from(app.randomness.new_secret())
        token_id = TokenId(app.randomness.new_id())
        kept = await app.store.write(
            issue_token, name, token_id=token_id, token=token, scopes=frozenset(map(Scope, scopes))
        )
        users = await app.store.read(Bulkhead.OPERATIONS, list_users)
        return token, kept, any(user.name == name and user.disabled_at is not None for user in users)

    token, kept, is_disabled = in_application(settings_for(database), work)
    if as_json:
        show_json({"token": token, "id": kept.id, "scopes": [*kept.scopes]})
    else:
        click.echo(token)
        note(f"Token {kept.id} of {name} for {', '.join(kept.scopes)}. Keep it now: it cannot be shown again.")
    if is_disabled:
        note(f"{name} is disabled, so the token is refused until: fencepost users enable {typed(name)}")


@command.command("list")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@database_option
def list_(name: str, *, as_json: bool, database: str | None) -> None:
    """List the user's tokens, oldest first."""
    tokens = in_application(settings_for(database), lambda app: app.store.read(Bulkhead.OPERATIONS, list_tokens, name))
    if as_json:
        show_json([_members(token) for token in tokens])
    else:
        show_table(
            ("ID", "SCOPES", "ISSUED", "STATE"),
            [(token.id, ",".join(token.scopes), format_instant(token.created_at), _state(token)) for token in tokens],
        )


@command.command()
@click.argument("token_id", metavar="ID")
@database_option
def revoke(token_id: str, *, database: str | None) -> None:
    """Refuse a token from now on; `fencepost tokens list NAME` shows the ids."""
    in_application(settings_for(database), lambda app: app.store.write(revoke_token, TokenId(token_id)))
    note(f"Revoked {token_id}.")


def _state(token: ApiToken) -> str:
    return "in force" if token.revoked_at is None else f"revoked {format_instant(token.revoked_at)}"


def _members(token: ApiToken) -> dict[str, object]:
    return {
        "id": token.id,
        "scopes": [*token.scopes],
        "created_at": format_instant(token.created_at),
        "revoked_at": None if token.revoked_at is None else format_instant(token.revoked_at),
    }
