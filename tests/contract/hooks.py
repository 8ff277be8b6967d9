"""What the fuzzer cannot derive from the contract: files of tasks that are sound, and headers that often fit."""

import csv
import io
import json
from itertools import count
from re import compile as pattern
from typing import Any

import schemathesis
from hypothesis import strategies as st

from entrypoints.http.wire import TIMEZONES

_COLUMNS = ("title", "description", "status", "priority", "due_at")
_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40)
_ROWS = st.fixed_dictionaries(
    {"title": _TEXT},
    optional={
        "description": _TEXT,
        "status": st.sampled_from(["open", "in_progress", "done"]),
        "priority": st.integers(1, 4),
        "due_at": st.sampled_from(["2026-02-01T09:00:00Z", "1969-07-20T22:17:40.5+02:00"]),
    },
)


def _csv(rows: list[dict[str, object]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, _COLUMNS, restval="")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _json_lines(rows: list[dict[str, object]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


_FILES = st.lists(_ROWS, max_size=20)
_NOISE = st.binary(max_size=200)

schemathesis.openapi.media_type("text/csv", st.one_of(_FILES.map(_csv), _FILES.map(_csv), _NOISE))
schemathesis.openapi.media_type(
    "application/jsonl",
    st.one_of(_FILES.map(_json_lines), _FILES.map(_json_lines), _NOISE),
    aliases=["application/x-ndjson"],
)


# Most tasks are in their first versions, so that many changes are accepted.
_TAG = st.one_of(st.sampled_from(['"1"', '"2"', '"3"']), st.from_regex(r'(W/)?"[!#-~]{0,20}"', fullmatch=True))
schemathesis.openapi.format("entity-tags", st.one_of(st.just("*"), st.lists(_TAG, min_size=1).map(", ".join)))


_KEY = pattern(r"([A-Za-z0-9._-]{1,200}|\"[A-Za-z0-9._, -]{1,200})(\"?)")
_NUMBERS = count(1)

schemathesis.openapi.format("idempotency-key", st.from_regex(r"[A-Za-z0-9._-]{1,200}", fullmatch=True))


# Zones are accepted or refused by one list; one case for each of its hundreds would leave no time for anything else.
_MOST_ZONES = frozenset(TIMEZONES) - frozenset(TIMEZONES[::60])


@schemathesis.hook
def filter_case(_: schemathesis.HookContext, case: schemathesis.Case[Any]) -> bool:
    """Leaves most zones out where the fuzzer walks through every value of an enumeration."""
    zone = case.body.get("timezone") if isinstance(case.body, dict) else None
    is_walk = case.meta is not None and case.meta.phase.name.value == "coverage"
    return not (is_walk and isinstance(zone, str) and zone in _MOST_ZONES)


@schemathesis.hook
def before_call(_: schemathesis.HookContext, case: schemathesis.Case[Any], __: dict[str, object]) -> None:
    """Gives half of the requests a key of their own: the fuzzer likes to repeat one, and would see conflicts only."""
    number = next(_NUMBERS)
    found = _KEY.fullmatch(str(case.headers.get("Idempotency-Key", "")))
    if found is not None and number % 2:
        case.headers["Idempotency-Key"] = f"{found[1]}-{number}{found[2]}"
