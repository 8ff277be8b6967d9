"""A bare connection, for what no port shows."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.sqlite import driver


@pytest.fixture
def connection(database: Path) -> Iterator[driver.Connection]:
    """A connection that can write, to a database with this program's schema."""
    opened = driver.connect(database)
    yield opened
    opened.close()
