"""Header fields, one reader at a time."""

import re
from collections import Counter
from datetime import timedelta
from string import ascii_letters, digits

import pytest
from hypothesis import given, strategies as st

from entrypoints.http.headers import (
    KEY_PATTERN,
    TAGS_PATTERN,
    HeaderError,
    accepts_gzip,
    etag,
    read_authorization,
    read_entity_tags,
    read_idempotency_key,
    read_media_type,
    read_request_id,
    read_traceparent,
    retry_after,
)

PRINTABLE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=255)
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@given(PRINTABLE)
def test_every_printable_key_can_be_quoted(key: str) -> None:
    """A structured-field string holds any printable ASCII, and is read back as what was quoted."""
    quoted = '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'
    assert re.search(KEY_PATTERN, quoted)
    assert read_idempotency_key([quoted]) == key


@given(st.text(ascii_letters + digits + "!#$%&'()*+-./:<=>?@[]^_`{|}~", min_size=1, max_size=255))
def test_a_bare_key_is_the_same_as_a_quoted_one(key: str) -> None:
    """Where a key needs no quotes they make no difference."""
    assert read_idempotency_key([key]) == read_idempotency_key([f'"{key}"']) == key


@given(st.text(max_size=300))
def test_a_key_is_read_exactly_when_the_contract_describes_it(text: str) -> None:
    """The pattern and the reader agree on every text."""
    described = re.fullmatch(KEY_PATTERN[1:-1], text) is not None
    try:
        read_idempotency_key([text])
    except HeaderError:
        assert not described
    else:
        assert described


@given(st.lists(st.from_regex(r'(W/)?"[!#-~]*"', fullmatch=True), min_size=1))
def test_entity_tags_are_matched_as_their_strength_allows(tags: list[str]) -> None:
    """If-Match takes strong tags alone, If-None-Match both."""
    assert re.search(TAGS_PATTERN, ", ".join(tags))
    read = read_entity_tags(tags)
    for tag in tags:
        opaque = tag.removeprefix("W/")[1:-1]
        assert read.match_weakly(opaque)
        assert read.match_strongly(opaque) == (etag(opaque) in tags)
    assert not read.match_weakly("\x7f")


def test_any_version_is_any_version() -> None:
    """`*` matches everything, and names no version."""
    read = read_entity_tags(["*"])
    assert (read.match_strongly("7"), read.match_weakly("x"), read.versions) == (True, True, None)
    assert read_entity_tags(['"3", W/"4", "05", "x", "6"']).versions == frozenset({3, 6})


@pytest.mark.parametrize("text", ["", "3", '"3', "*, *", '"3",', ',"3"', '"3" "4"', 'w/"3"', '"é"', '"3"; x', "'3'"])
def test_what_is_no_list_of_entity_tags_is_refused(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(HeaderError):
        read_entity_tags([text])


def test_media_types_are_read_without_their_parameters() -> None:
    """Case, white space and other parameters do not matter; the charset does."""
    for text in ("application/json", "Application/JSON ; charset=UTF-8", 'application/json;charset="us-ascii"; v=1'):
        assert read_media_type([text]) == "application/json"
    for values in ([], ["json"], ["a/b", "a/b"], ["a/b; charset=latin-1"], ["a/b;charset=utf-8;charset=utf-16"], [""]):
        with pytest.raises(HeaderError):
            read_media_type(values)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [(["gzip"], True), (["br", "x-gzip"], True), (["deflate, GZIP ; q=0.1"], True), (["gzip;q=0"], False),
     (["gzip;q=0.0"], False), ([], False), (["*"], False), (["gzip;q=x"], False), (["notgzip"], False)],
)  # fmt: skip
def test_gzip_is_wanted_when_it_is_named(values: list[str], wanted: bool) -> None:
    """A weight of zero refuses it; what cannot be read asks for nothing."""
    assert accepts_gzip(values) is wanted


def test_a_bearer_token_is_read_by_rfc_6750() -> None:
    """The scheme's case does not matter; anything else than one token offers none."""
    assert read_authorization(["bEARER fp_a-b.c~d+e/f=="]).token == "fp_a-b.c~d+e/f=="
    for values in (["Bearer"], ["Bearer a b"], ["Bearer é"], ["Bearer a", "Bearer a"]):
        assert (read_authorization(values).token, read_authorization(values).is_bearer) == (None, True)
    for values in ([], ["Basic eDp5"], ["fp_x"], [""]):
        assert read_authorization(values).token is None


@given(st.timedeltas(timedelta(), timedelta(minutes=5)), st.floats(0, 1, exclude_max=True))
def test_a_retry_after_is_never_less_than_was_meant(wait: timedelta, jitter: float) -> None:
    """Whole seconds, at least one, and at most twice as many."""
    stated = int(retry_after(wait, jitter=jitter))
    assert stated >= max(wait.total_seconds(), 1)
    assert stated <= max(2 * wait.total_seconds(), wait.total_seconds() + 1, 1)


def test_chance_spreads_a_retry_after() -> None:
    """Those who were refused together come back in different seconds, as many in one as in another."""
    stated = Counter(retry_after(timedelta(seconds=10), jitter=number / 1000) for number in range(1000))
    assert stated.keys() == {str(seconds) for seconds in range(10, 21)}
    assert max(stated.values()) <= 101
    assert Counter(retry_after(timedelta(seconds=1), jitter=number / 10) for number in range(10)) == {"1": 5, "2": 5}


def test_ids_and_traces_are_taken_when_they_are_well_formed() -> None:
    """Others are as if they were not there."""
    assert read_request_id(["a.B-_9"]) == "a.B-_9"
    assert [read_request_id(values) for values in ([], [""], ["a b"], ["a", "b"], ["x" * 129])] == [None] * 5
    assert read_traceparent([TRACE]) == TRACE
    zeros = ("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32), ("00f067aa0ba902b7", "0" * 16)
    wrong = [TRACE.upper(), "ff" + TRACE[2:], TRACE + "-x", "", *(TRACE.replace(*pair) for pair in zeros)]
    assert [read_traceparent([text]) for text in wrong] == [None] * len(wrong)
