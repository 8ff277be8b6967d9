"""Export parameters: one canonical text for each meaning, read back as it was written, compared member by member."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from domain.errors import InvalidInput, InvalidParameters
from domain.instants import EARLIEST, LATEST, Instant
from domain.parameters import (
    COLUMN_TYPES,
    Column,
    ColumnType,
    CsvOptions,
    Delimiter,
    ExportFormat,
    ExportParameters,
    FormulaProtection,
    LineEnding,
    Quoting,
    canonical,
    decode,
    differing_members,
    digest,
    encode,
    renewed,
)
from domain.task import PRIORITIES, TaskFilter, TaskStatus

instants = st.none() | st.integers(EARLIEST, LATEST).map(Instant)
filters = st.builds(
    TaskFilter,
    status=st.lists(st.sampled_from(TaskStatus), max_size=5).map(tuple),
    priority=st.lists(st.sampled_from(PRIORITIES), max_size=6).map(tuple),
    due_before=instants,
    due_after=instants,
    created_before=instants,
    created_after=instants,
    updated_since=instants,
)
dialects = st.builds(
    CsvOptions,
    delimiter=st.sampled_from(Delimiter),
    line_ending=st.sampled_from(LineEnding),
    bom=st.booleans(),
    quoting=st.sampled_from(Quoting),
    formula_protection=st.sampled_from(FormulaProtection),
)
column_lists = st.permutations(list(Column)).flatmap(
    lambda order: st.integers(1, len(order)).map(lambda count: tuple(order[:count]))
)
parameters = st.builds(
    ExportParameters,
    format=st.sampled_from(ExportFormat),
    columns=column_lists,
    filter=filters,
    timezone=st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu"]) | st.text(max_size=20),
    csv=dialects,
    deadline_seconds=st.none() | st.integers(1, 10**6),
)

PLAIN = ExportParameters()
# One other value for each member, by its JSON Pointer.
OTHERS: dict[str, Any] = {
    "/columns": (Column.TITLE, Column.ID),
    "/filter/status": (TaskStatus.DONE,),
    "/filter/priority": (1, 2),
    "/filter/due_before": Instant(0),
    "/filter/due_after": Instant(0),
    "/filter/created_before": Instant(0),
    "/filter/created_after": Instant(0),
    "/filter/updated_since": Instant(0),
    "/timezone": "Europe/Berlin",
    "/csv/delimiter": Delimiter.SEMICOLON,
    "/csv/line_ending": LineEnding.LF,
    "/csv/bom": True,
    "/csv/quoting": Quoting.ALL,
    "/csv/formula_protection": FormulaProtection.NONE,
    "/deadline_seconds": 60,
}


def changed(names: set[str]) -> ExportParameters:
    """Return the default parameters with these members, named by JSON Pointers, set to their other value."""
    stated: dict[str, Any] = {"filter": {}, "csv": {}}
    for name in names:
        *outer, member = name.strip("/").split("/")
        (stated[outer[0]] if outer else stated)[member] = OTHERS[name]
    return ExportParameters(
        **{
            **stated,
            "filter": TaskFilter(**stated["filter"]),
            "csv": CsvOptions(**stated["csv"]),
        }
    )


def leaves(value: object, where: str = "") -> set[str]:
    """Return the JSON Pointer of every member that is not an object itself."""
    if isinstance(value, dict):
        return {leaf for name, inner in value.items() for leaf in leaves(inner, f"{where}/{name}")}
    return {where}


@given(parameters)
def test_the_canonical_form_is_its_own_canonical_form(stated: ExportParameters) -> None:
    """Bringing a request into its one spelling twice is the same as once, in values and in text."""
    once = canonical(stated)
    assert canonical(once) == once
    assert encode(once) == encode(stated)


@given(parameters)
def test_what_is_written_is_read_back(stated: ExportParameters) -> None:
    """Decoding the stored text gives the canonical request, and encoding that gives the text."""
    text = encode(stated)
    assert decode(text) == canonical(stated)
    assert encode(decode(text)) == text


@given(parameters, st.data())
def test_order_and_repetition_in_filter_lists_do_not_matter(stated: ExportParameters, data: st.DataObject) -> None:
    """Filter lists are sets: shuffled and with members twice they are the same request."""
    status, priority = list(stated.filter.status), list(stated.filter.priority)
    shuffled = msgspec.structs.replace(
        stated,
        filter=msgspec.structs.replace(
            stated.filter,
            status=tuple(data.draw(st.permutations(status + status[:1]))),
            priority=tuple(data.draw(st.permutations(priority + priority[-2:]))),
        ),
    )
    assert encode(shuffled) == encode(stated)
    assert differing_members(encode(stated), encode(shuffled)) == ()


@given(parameters, st.data())
def test_spacing_member_order_and_stated_defaults_do_not_matter(stated: ExportParameters, data: st.DataObject) -> None:
    """The same JSON with other spacing, members in another order, or defaults left out, is the same request."""

    def reordered(value: object) -> object:
        if isinstance(value, dict):
            return {name: reordered(value[name]) for name in data.draw(st.permutations(sorted(value)))}
        return value

    text = encode(stated)
    assert encode(decode(json.dumps(reordered(json.loads(text)), indent=data.draw(st.integers(0, 3))))) == text
    defaults = json.loads(encode(PLAIN))
    sparse = {name: value for name, value in json.loads(text).items() if value != defaults[name]}
    assert encode(decode(json.dumps(sparse))) == text


@given(column_lists, column_lists)
def test_the_order_of_columns_matters(first: tuple[Column, ...], second: tuple[Column, ...]) -> None:
    """Two requests with other columns, or the same in another order, differ in exactly that member."""
    texts = [encode(ExportParameters(columns=columns)) for columns in (first, second)]
    assert differing_members(*texts) == (() if first == second else ("/columns",))
    assert (digest(texts[0]) == digest(texts[1])) is (first == second)


def test_another_value_is_known_for_every_member_that_can_differ() -> None:
    """The examples below leave no member out; `format` has one value yet."""
    assert set(OTHERS) | {"/format"} == leaves(json.loads(encode(PLAIN)))
    assert len(ExportFormat) == 1


@given(st.sets(st.sampled_from(sorted(OTHERS))))
def test_the_members_that_differ_are_named_and_no_others(names: set[str]) -> None:
    """Whatever set of members is changed, that set is what the comparison names, in order, either way round."""
    stored, sent = encode(PLAIN), encode(changed(names))
    assert differing_members(stored, sent) == tuple(sorted(names))
    assert differing_members(sent, stored) == tuple(sorted(names))
    assert (digest(stored) == digest(sent)) is (names == set())


def test_the_digest_is_of_the_text() -> None:
    """The digest is SHA-256 in lower-case hexadecimal, so another program can compute it."""
    assert digest("{}") == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_the_canonical_text_of_the_defaults_never_changes() -> None:
    """The digest is kept with every export that was ever accepted, so the spelling is a promise."""
    assert encode(PLAIN) == (
        '{"format":"csv",'
        '"columns":["id","title","description","status","priority","due_at","created_at","updated_at","version"],'
        '"filter":{"status":[],"priority":[],"due_before":null,"due_after":null,"created_before":null,'
        '"created_after":null,"updated_since":null},"timezone":"UTC",'
        '"csv":{"delimiter":",","line_ending":"crlf","bom":false,"quoting":"minimal",'
        '"formula_protection":"apostrophe"},"deadline_seconds":null}'
    )


@pytest.mark.parametrize(
    ("stated", "where"),
    [
        (ExportParameters(columns=()), ["/columns"]),
        (ExportParameters(columns=(Column.ID, Column.TITLE, Column.ID)), ["/columns"]),
        (ExportParameters(filter=TaskFilter(priority=(1, 5))), ["/filter/priority"]),
        (ExportParameters(filter=TaskFilter(priority=(0,))), ["/filter/priority"]),
        (ExportParameters(columns=(), filter=TaskFilter(priority=(9,))), ["/columns", "/filter/priority"]),
    ],
    ids=["no column", "a column twice", "priority above", "priority below", "two faults"],
)
def test_a_request_that_contradicts_itself_is_refused_with_each_fault(
    stated: ExportParameters, where: list[str]
) -> None:
    """Every fault is named by its JSON Pointer, all at once, and nothing is encoded."""
    for function in (canonical, encode):
        with pytest.raises(InvalidInput) as caught:
            function(stated)
        assert [error.where for error in caught.value.errors] == where


UNREADABLE = {
    "nothing": "",
    "no JSON": "not json",
    "cut off": '{"columns":["id"',
    "not an object": "[]",
    "null": "null",
    "unknown member": '{"colour":"red"}',
    "unknown inner member": '{"csv":{"escape":"x"}}',
    "unknown format": '{"format":"xlsx"}',
    "unknown column": '{"columns":["owner_id"]}',
    "wrong type": '{"deadline_seconds":"soon"}',
    "no column": '{"columns":[]}',
    "column twice": '{"columns":["id","id"]}',
    "no such priority": '{"filter":{"priority":[7]}}',
    "delimiter of two characters": '{"csv":{"delimiter":"||"}}',
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
def test_a_stored_text_that_cannot_be_read_is_a_permanent_failure(text: str) -> None:
    """Unreadable or contradictory, it ends the attempt with the one refusal that no retry follows."""
    with pytest.raises(InvalidParameters):
        decode(text)


@given(st.text())
def test_no_text_is_read_as_something_else(text: str) -> None:
    """Any text at all is either read as a request that encodes to the same meaning, or refused."""
    try:
        found = decode(text)
    except InvalidParameters:
        return
    assert decode(encode(found)) == found


@pytest.mark.parametrize("stored", ["", "not json", '{"columns":'])
def test_a_stored_text_that_is_not_json_differs_as_a_whole(stored: str) -> None:
    """A key whose request can no longer be read still answers, without naming members that nobody can compare."""
    assert differing_members(stored, encode(PLAIN)) == ("/",)


@given(st.sets(st.sampled_from(["filter", "csv", "timezone", "format"])), st.sets(st.sampled_from(sorted(OTHERS))))
def test_a_text_stored_before_a_member_existed_means_its_default(unknown: set[str], names: set[str]) -> None:
    """A request that was stored by a version without these members is the same as one that leaves them out."""
    known = {name: value for name, value in json.loads(encode(PLAIN)).items() if name not in unknown}
    stored = renewed(json.dumps(known))
    assert stored == encode(PLAIN)
    assert differing_members(stored, encode(changed(names))) == tuple(sorted(names))


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
def test_a_text_that_cannot_be_read_is_not_renewed(text: str) -> None:
    """It stays as it is, so it equals no new request, and the comparison goes through."""
    assert renewed(text) == text
    assert differing_members(renewed(text), encode(PLAIN)) != ()


def test_only_text_columns_can_hold_what_a_person_wrote() -> None:
    """Every column has a type, and title and description are the only ones whose text is free."""
    assert set(COLUMN_TYPES) == set(Column)
    assert {column for column, kind in COLUMN_TYPES.items() if kind is ColumnType.TEXT} == {
        Column.TITLE,
        Column.DESCRIPTION,
    }
