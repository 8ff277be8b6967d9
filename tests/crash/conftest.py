"""One large database, made once and copied for each test."""

import asyncio
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest

from domain.account import OwnerId
from tests.crash.site import Site, fill, site


class OpenSite(Protocol):
    """Opens a site of the test's own, configured as it states."""

    def __call__(self, **configured: float) -> AbstractAsyncContextManager[Site]:
        """Open it."""


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, OwnerId]:
    """A database that no process has open, and its owner."""
    path = tmp_path_factory.mktemp("template") / "tasks.db"
    return path, asyncio.run(fill(path))


@pytest.fixture
def open_site(tmp_path: Path, template: tuple[Path, OwnerId]) -> OpenSite:
    """Opens a copy of the large database."""
    path, owner_id = template
    return partial(site, tmp_path, path, owner_id)
