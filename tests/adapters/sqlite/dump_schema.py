"""The schema that the migrations make, as one text; `python -m tests.adapters.sqlite.dump_schema` writes it anew."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from adapters.sqlite import driver, migrate

SCHEMA: Final = Path(__file__).with_name("schema.sql")
_SETTINGS: Final = ("application_id", "auto_vacuum", "journal_mode", "user_version")


def schema_of(connection: driver.Connection) -> str:
    """Return what a database is set to and every object of its schema, in the order of kind and name."""
    settings = [f"-- {name} = {connection.execute(f'PRAGMA {name}').fetchone()[0]}" for name in _SETTINGS]
    objects = connection.execute(
        "SELECT sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY type DESC, name"
    ).fetchall()
    return "\n\n".join(["\n".join(settings), *(f"{text};" for (text,) in objects)]) + "\n"


def migrated_schema() -> str:
    """Return the schema of a database that was just made."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "fencepost.db"
        migrate.migrate(path)
        connection = driver.connect(path)
        try:
            return schema_of(connection)
        finally:
            connection.close()


if __name__ == "__main__":
    SCHEMA.write_text(migrated_schema(), encoding="utf-8")
