"""What the documents name exists: tests, environment variables, problems, log events, targets of make."""

import re

from domain.export import ErrorCode
from entrypoints.http.problem_types import PROBLEMS
from entrypoints.settings import CLIENT_VARIABLES, PREFIX, Settings
from entrypoints.telemetry import LogEvent
from tests.architecture.test_documents import DOCUMENTS, exists
from tests.tree import ROOT, named

TEST = re.compile(r"`(tests/[^`\s]+)`")
VARIABLE = re.compile(rf"\b{PREFIX}[A-Z_]+\b")
PROBLEM = re.compile(r"`([a-z]+(?:-[a-z]+)+)`")
EVENT = re.compile(r"`([a-z_]+\.[a-z_]+)`")
TARGET = re.compile(r"`make ([a-z]+)|^make ([a-z]+)\b", re.MULTILINE)


def test_every_test_that_a_document_names_exists() -> None:
    """A file, or a test in a file, that stands in backticks is there."""
    found = [(document, name) for document in DOCUMENTS for name in TEST.findall(document.read_text(encoding="utf-8"))]
    assert found
    assert [f"{named(document)}: {name}" for document, name in found if not exists(name)] == []


def test_every_variable_that_a_document_names_is_read() -> None:
    """Each FENCEPOST_… in a document is a setting, or one of the client's two."""
    known = {PREFIX + name.upper() for name in Settings.__struct_fields__} | set(CLIENT_VARIABLES)
    assert [
        f"{named(document)}: {name}"
        for document in DOCUMENTS
        for name in VARIABLE.findall(document.read_text(encoding="utf-8"))
        if name not in known
    ] == []


def test_every_target_of_make_that_a_document_names_exists() -> None:
    """`make …` in a document is a target of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [
        f"{named(document)}: make {target}"
        for document in DOCUMENTS
        for target in map("".join, TARGET.findall(document.read_text(encoding="utf-8")))
        if not re.search(rf"^{target}:", makefile, re.MULTILINE)
    ] == []


def test_every_problem_that_a_document_names_exists() -> None:
    """What stands in backticks and is spelt like a problem's type, in the pages for callers and operators, is one."""
    pages = [ROOT / "docs" / f"{name}.md" for name in ("client-guide", "delivery", "operations")]
    named_problems = {name for page in pages for name in PROBLEM.findall(page.read_text(encoding="utf-8"))}
    assert named_problems
    assert named_problems - PROBLEMS.keys() == set()


def test_every_way_for_an_export_to_fail_is_explained() -> None:
    """The page about delivery tells of each error code."""
    page = (ROOT / "docs" / "delivery.md").read_text(encoding="utf-8")
    assert [code for code in ErrorCode if f"`{code}`" not in page] == []


def test_every_log_event_that_operators_are_told_of_is_written() -> None:
    """What stands in backticks and is spelt like an event, on the page for operators, is one of `LogEvent`."""
    found = set(EVENT.findall((ROOT / "docs" / "operations.md").read_text(encoding="utf-8")))
    assert found
    assert found - {event.value for event in LogEvent} == set()
