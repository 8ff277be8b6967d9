"""Bearer tokens: recognisable by scanners, and kept only as a digest that another program can compute."""

from hypothesis import given, strategies as st

from domain.account import TOKEN_PREFIX, Scope, token_digest, token_from


@given(st.text(min_size=1))
def test_a_token_is_recognisable_and_holds_its_secret_whole(secret: str) -> None:
    """The prefix is the only thing added, so no bit of the secret is lost."""
    assert token_from(secret) == TOKEN_PREFIX + secret
    assert TOKEN_PREFIX == "fp_"


def test_the_digest_is_sha_256_in_hexadecimal() -> None:
    """A known value (FIPS 180-2, "abc"), so that stored digests stay comparable for ever."""
    assert token_digest("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@given(st.text(), st.text())
def test_different_tokens_have_different_digests(first: str, second: str) -> None:
    """A digest speaks for one token."""
    assert (token_digest(first) == token_digest(second)) is (first == second)


def test_the_scopes_are_those_of_the_contract() -> None:
    """Rows and the command line hold these words, so they do not change by accident."""
    assert [scope.value for scope in Scope] == ["tasks", "exports", "ops"]
