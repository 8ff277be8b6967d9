"""What every test shares: the event loop that the product uses, and how Hypothesis searches."""

import pytest
from hypothesis import settings

# The quick suite is the same for everyone, every time; the long searches have a seed. How long an example takes is not
# a property: two cores with other work on them would refute it.
settings.register_profile("house", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("house")


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """Runs asynchronous tests on asyncio with uvloop, as the API and the worker run."""
    return "asyncio", {"use_uvloop": True}
