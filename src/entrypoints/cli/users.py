"""`fencepost users`: the owners of tasks."""

import rich_click as click

from domain.account import User
from domain.instants import format_instant
from domain.ports import Bulkhead
from domain.use_cases.accounts import add_user, disable_user, enable_user, list_users
from entrypoints.cli.database import database_option, in_application, settings_for
from entrypoints.cli.printing import note, show_json, show_table, typed


@click.group()
def command() -> None:
    """Add, list, disable and enable the owners of tasks."""


@command.command()
@click.argument("name")
@database_option
def add(name: str, *, database: str | None) -> None:
    """Add a user."""
    user = in_application(settings_for(database), lambda app: app.store.write(add_user, name))
    note(f"Added {user.name}. Next: fencepost tokens issue {typed(user.name)}")


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@database_option
def list_(*, as_json: bool, database: str | None) -> None:
    """List all users, by name."""
    users = in_application(settings_for(database), lambda app: app.store.read(Bulkhead.OPERATIONS, list_users))
    if as_json:
        show_json([_members(user) for user in users])
    else:
        show_table(
            ("NAME", "ADDED", "STATE"), [(user.name, format_instant(user.created_at), _state(user)) for user in users]
        )


@command.command()
@click.argument("name")
@database_option
def disable(name: str, *, database: str | None) -> None:
    """Refuse the user's tokens from now on; exports under way fail. Nothing is deleted."""
    in_application(settings_for(database), lambda app: app.store.write(disable_user, name))
    note(f"Disabled {name}. To undo: fencepost users enable {typed(name)}")


@command.command()
@click.argument("name")
@database_option
def enable(name: str, *, database: str | None) -> None:
    """Let the user's tokens speak again."""
    in_application(settings_for(database), lambda app: app.store.write(enable_user, name))
    note(f"Enabled {name}.")


def _state(user: User) -> str:
    return "enabled" if user.disabled_at is None else f"disabled {format_instant(user.disabled_at)}"


def _members(user: User) -> dict[str, str | None]:
    return {
        "name": user.name,
        "created_at": format_instant(user.created_at),
        "disabled_at": None if user.disabled_at is None else format_instant(user.disabled_at),
    }
