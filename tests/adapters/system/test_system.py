"""`Clock` and `Randomness`: the real ones, and the fakes that the tests use, are held to the same laws."""

import re
from itertools import pairwise
from uuid import RFC_4122, UUID

import pytest

from adapters.system.clock import SystemClock
from adapters.system.randomness import SystemRandomness
from domain.instants import EARLIEST, LATEST, format_instant, parse_instant
from domain.ports import Clock, Randomness
from tests.fakes import ManualClock, SequentialRandomness

CLOCKS = (SystemClock, ManualClock)
RANDOMNESSES = (SystemRandomness, SequentialRandomness)


@pytest.mark.parametrize("kind", CLOCKS)
def test_now_is_an_instant(kind: type[Clock]) -> None:
    """In whole milliseconds, within the range, so that it can be written and read back."""
    now = kind().now()
    assert EARLIEST < now < LATEST
    assert parse_instant(format_instant(now)) == now


def test_the_system_clock_shows_this_century() -> None:
    """Milliseconds since 1970, not seconds and not microseconds."""
    assert parse_instant("2025-01-01T00:00:00Z") < SystemClock().now() < parse_instant("2100-01-01T00:00:00Z")


@pytest.mark.parametrize("kind", CLOCKS)
def test_the_monotonic_side_never_goes_back(kind: type[Clock]) -> None:
    """A hundred looks in a row, each at the last one or after it."""
    clock = kind()
    looks = [clock.monotonic() for _ in range(100)]
    assert looks == sorted(looks)


@pytest.mark.parametrize("kind", RANDOMNESSES)
def test_ids_are_uuids_of_version_seven_in_order(kind: type[Randomness]) -> None:
    """In their canonical lower-case form; none comes twice, and later ones sort after earlier ones."""
    randomness = kind()
    ids = [randomness.new_id() for _ in range(1000)]
    for text in ids:
        parsed = UUID(text)
        assert (str(parsed), parsed.version, parsed.variant) == (text, 7, RFC_4122)
    assert all(earlier < later for earlier, later in pairwise(ids))


@pytest.mark.parametrize("kind", RANDOMNESSES)
def test_secrets_are_as_long_as_256_bits_and_never_equal(kind: type[Randomness]) -> None:
    """In the alphabet that is safe in a URL and in a header."""
    randomness = kind()
    secrets = [randomness.new_secret() for _ in range(1000)]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", secret) for secret in secrets)
    assert len(set(secrets)) == len(secrets)


@pytest.mark.parametrize("kind", RANDOMNESSES)
def test_fractions_are_spread_over_zero_to_one(kind: type[Randomness]) -> None:
    """Never one, and some in each tenth."""
    randomness = kind()
    fractions = [randomness.fraction() for _ in range(1000)]
    assert all(0 <= fraction < 1 for fraction in fractions)
    assert {int(fraction * 10) for fraction in fractions} == set(range(10))
