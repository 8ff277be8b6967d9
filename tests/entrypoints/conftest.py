"""Log lines as production writes them, for the length of one test."""

import logging
import warnings
from collections.abc import Iterator

import pytest
import structlog

from entrypoints.settings import Settings
from entrypoints.telemetry import configure


@pytest.fixture
def json_logs() -> Iterator[None]:
    """Writes JSON lines to standard error, and puts the logging of the test run back afterwards."""
    root = logging.getLogger()
    handlers, level, show = root.handlers[:], root.level, warnings.showwarning
    configure(Settings())
    yield
    logging.captureWarnings(capture=False)
    warnings.showwarning = show
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()
