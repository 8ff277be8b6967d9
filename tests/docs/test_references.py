"""What the documents name exists: tests, environment variables, targets of make."""

import re

from entrypoints.settings import CLIENT_VARIABLES, PREFIX, Settings
from tests.architecture.test_documents import DOCUMENTS, exists
from tests.tree import ROOT, named

TEST = re.compile(r"`(tests/[^`\s]+)`")
VARIABLE = re.compile(rf"\b{PREFIX}[A-Z_]+\b")
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
