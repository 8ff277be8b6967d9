"""JSON at the edge: stricter than a library, and never surprised."""

import json
from contextlib import suppress
from typing import Any

from hypothesis import given, strategies as st

from entrypoints.http.bodies import parse_json, pointer
from entrypoints.http.decoding import read_members
from entrypoints.http.problems import Refused
from entrypoints.http.schemas import ExportRequest, NewTask

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e15, 1e15).filter(lambda value: not value.is_integer())
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_a_sound_value_is_read_as_it_is(value: object) -> None:
    """Nothing is changed or found fault with."""
    assert parse_json(json.dumps(value).encode()) == (value, [])


@given(st.binary())
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    """There is no third way."""
    with suppress(Refused):
        _, faults = parse_json(content)
        assert all(fault.pointer is not None for fault in faults)


@given(VALUES, st.sampled_from([NewTask, ExportRequest]))
def test_any_value_is_a_body_or_has_faults(value: object, into: type[NewTask | ExportRequest]) -> None:
    """What is no sound body is refused with places, whatever it is made of."""
    members, faults = read_members(value, into)
    assert all(fault.pointer is not None for fault in faults)
    if not faults:
        into(**members)


@given(st.lists(TEXT, min_size=1, max_size=4), st.sampled_from(["\0", "\ud800", 2**60]))
def test_what_cannot_be_kept_is_named_by_its_pointer(path: list[str], poison: object) -> None:
    """However deep it is, its place is told."""
    value = poison
    for name in reversed(path):
        value = {name: value}
    _, faults = parse_json(json.dumps(value).encode())
    assert [fault.pointer for fault in faults] == [pointer(*path)]


@given(st.integers(0, 60), st.sampled_from(["[", '{"x":']))
def test_depth_is_bounded(depth: int, opening: str) -> None:
    """Up to 32 levels are read, deeper ones refused."""
    closing = "]" if opening == "[" else "}"
    content = (opening * depth + "1" + closing * depth).encode()
    try:
        parse_json(content)
    except Refused:
        assert depth > 32
    else:
        assert depth <= 32
