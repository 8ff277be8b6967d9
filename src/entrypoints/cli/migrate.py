"""`fencepost migrate`: the database's schema."""

import rich_click as click

from entrypoints.bootstrap import migrate_database
from entrypoints.cli.database import database_option, settings_for
from entrypoints.cli.printing import note


@click.command()
@database_option
def command(*, database: str | None) -> None:
    """Create the database, or bring it up to date. Does nothing when it is."""
    settings = settings_for(database)
    applied = migrate_database(settings)
    if applied:
        note(f"{settings.database}: applied migration {', '.join(map(str, applied))}.")
    else:
        note(f"{settings.database} is up to date.")
