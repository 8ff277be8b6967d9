"""The documents hold together: every link leads somewhere, and every decision says what would notice a breach."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.tree import ROOT, named, repository_files

DOCUMENTS = tuple(file for file in repository_files() if file.suffix == ".md")
DECISIONS = tuple(file for file in DOCUMENTS if file.parent == ROOT / "docs" / "adr" and file.name != "README.md")

FENCED = re.compile(r"^(```+|~~~+).*?^\1\s*$", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"\]\(<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\)|^\[[^\]]+\]:\s+<?([^>\s]+)", re.MULTILINE)
HEADING = re.compile(r"^(#{1,6}) +(.+?) *#*$", re.MULTILINE)
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)

# What a Confirmation may point at: something in the repository that runs, or a target of the Makefile.
CONFIRMING = re.compile(r"(?:tests|src|contracts|benchmarks|scripts|\.ci)/\S*|pyproject\.toml|make [a-z-]+.*")


def prose(document: Path) -> str:
    """Returns a document's text without its code, where brackets are not links and a # is not a heading."""
    return CODE_SPAN.sub(lambda span: span[2], FENCED.sub("", document.read_text(encoding="utf-8")))


def slug(heading: str) -> str:
    """Returns a heading as the usual renderers write it into an address."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", words).strip().lower().replace(" ", "-")


def anchors(document: Path) -> set[str]:
    """Returns the fragments that a document's headings can be reached by; a repeated heading gets a number."""
    found: set[str] = set()
    for _, heading in HEADING.findall(prose(document)):
        name = slug(heading)
        found.add(next(name for name in (name, *(f"{name}-{n}" for n in range(1, 100))) if name not in found))
    return found


def broken_links(document: Path) -> Iterator[str]:
    """Yields each relative link of a document that leads to no file, or to no heading of it."""
    for inline, reference in LINK.findall(CODE_SPAN.sub("", FENCED.sub("", document.read_text(encoding="utf-8")))):
        target = inline or reference
        if SCHEME.match(target) or target.startswith("//"):
            continue
        path, _, fragment = unquote(target).partition("#")
        file = (document.parent / path).resolve() if path else document
        if not file.is_relative_to(ROOT) or not file.exists():
            yield f"{named(document)}: {target} is not in the repository"
        elif fragment and file.suffix == ".md" and fragment not in anchors(file):
            yield f"{named(document)}: {target} names no heading"


def test_every_relative_link_leads_somewhere() -> None:
    """Each link between the documents, and into the tree, reaches a file and a heading that exist."""
    assert DOCUMENTS
    assert [fault for document in DOCUMENTS for fault in broken_links(document)] == []


def test_decisions_are_numbered_without_a_gap() -> None:
    """docs/adr holds 0001, 0002 and so on, each number once, each name in lower case with dashes."""
    numbers = []
    for decision in DECISIONS:
        name = re.fullmatch(r"(\d{4})-[a-z0-9]+(?:-[a-z0-9]+)+\.md", decision.name)
        assert name, f"{named(decision)}: want NNNN-verb-phrase.md"
        numbers.append(int(name[1]))
    assert numbers == list(range(1, len(numbers) + 1))
    assert numbers


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda decision: decision.stem[:4])
def test_a_decision_is_named_as_it_is_headed(decision: Path) -> None:
    """The file's name is the heading in short form, and a number in the heading is the file's."""
    heading = HEADING.findall(prose(decision))[0][1]
    numbered = re.fullmatch(r"(?:ADR[ -]?)?(\d+)[.:] (.+)", heading)
    number, title = numbered.groups() if numbered else (decision.stem[:4], heading)
    assert decision.stem == f"{int(number):04}-{slug(title)}"


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda decision: decision.stem[:4])
def test_a_decision_has_its_sections(decision: Path) -> None:
    """Context, options, decision, consequences and confirmation follow each other."""
    headings = [heading for _, heading in HEADING.findall(prose(decision))[1:]]
    wanted = ("context", "option", "decision", "consequence", "confirmation")
    places = [
        next((place for place, heading in enumerate(headings) if word in heading.lower()), None) for word in wanted
    ]
    assert None not in places, f"{named(decision)}: sections {dict(zip(wanted, places, strict=True))}"
    assert all(before < after for before, after in pairwise(place for place in places if place is not None))


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda decision: decision.stem[:4])
def test_a_decision_names_what_would_notice_a_breach(decision: Path) -> None:
    """Its Confirmation names, in backticks, a test, contract, benchmark or command; each such name exists."""
    text = decision.read_text(encoding="utf-8")
    section = re.search(r"^##+ .*confirmation.*?$(.*?)(?=^##? |\Z)", text, re.MULTILINE | re.DOTALL | re.IGNORECASE)
    assert section, f"{named(decision)}: no Confirmation"
    names = [span[2].strip() for span in CODE_SPAN.finditer(section[1]) if CONFIRMING.fullmatch(span[2].strip())]
    assert names, f"{named(decision)}: its Confirmation names nothing that runs"
    assert [name for name in names if not exists(name)] == []


def exists(name: str) -> bool:
    """Whether a file, a test in it (`tests/….py::test_…`), a pattern of files or a target of the Makefile is there."""
    if name.startswith("make "):
        target = re.escape(name.split()[1])
        return re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE) is not None
    path, *inside = name.split("::")
    files = [ROOT / path] if (ROOT / path).exists() else list(ROOT.glob(path)) if "*" in path else []
    return bool(files) and all(
        re.search(rf"\b(?:def|class) {re.escape(part.partition('[')[0])}\b", file.read_text(encoding="utf-8"))
        for file in files
        for part in inside
    )
