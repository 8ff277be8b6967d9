"""What must not stand in a file of this repository, and what the lock must hold."""

import re
from itertools import pairwise

import pytest

from tests.tree import ROOT, named, repository_files

# In two halves, so that this file does not hold what it looks for.
REGISTRIES = tuple(
    first + second
    for first, second in (
        ("py", "pi.org"),
        ("python", "hosted.org"),
        ("npm", "js.org"),
        ("npm", "js.com"),
        ("yarn", "pkg.com"),
        ("deb.deb", "ian.org"),
        ("archive.ub", "untu.com"),
        ("repo.ana", "conda.com"),
    )
)

# A home directory, or the place of this checkout.
LOCAL_PATH = re.compile(rf"(?<![\w./-])(?:/(?:(?:home|Users)/\w+|root)|{re.escape(str(ROOT))})(?![\w.-])")

# What others wrote, byte for byte.
DATA = {"examples/tasks-real.csv", "tests/data/edge-tasks.csv"}

# Lock files that record the address of the index which made them.
LOCKS_WITH_ADDRESSES = {
    "Pipfile.lock",
    "package-lock.json",
    "pdm.lock",
    "pnpm-lock.yaml",
    "poetry.lock",
    "uv.lock",
    "yarn.lock",
}

REQUIREMENT = re.compile(r"[a-z0-9][a-z0-9._-]*==[^\s;]+(?: ; .+)? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?")


def test_no_file_names_a_package_registry() -> None:
    """Where packages come from is the reader's configuration, never the repository's."""
    assert [
        f"{named(file)}: {registry}"
        for file in repository_files()
        for registry in REGISTRIES
        if registry in file.read_text(encoding="utf-8", errors="replace")
    ] == []


def test_no_file_holds_a_path_of_somebodys_machine() -> None:
    """No file tells where it was written: not the place of a checkout, not a home directory."""
    assert [
        f"{named(file)}: {path}"
        for file in repository_files()
        if named(file) not in DATA
        for path in LOCAL_PATH.findall(file.read_text(encoding="utf-8", errors="replace"))
    ] == []


def test_no_lock_file_records_an_address() -> None:
    """The lock is requirements/*.txt; the formats that hold addresses are never committed."""
    assert [
        named(file)
        for file in repository_files()
        if file.name in LOCKS_WITH_ADDRESSES or (file.name.startswith("pylock") and file.suffix == ".toml")
    ] == []


@pytest.mark.parametrize("name", ["runtime", "dev"])
def test_the_lock_is_pins_and_hashes_and_nothing_else(name: str) -> None:
    """Every requirement is pinned to a version and to the digests of its files; there is no option, URL or path."""
    lines = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    assert [
        line for line in lines if not (line.startswith("    #") or REQUIREMENT.fullmatch(line) or HASH.fullmatch(line))
    ] == []
    hashed = sum(
        REQUIREMENT.fullmatch(line) is not None and HASH.fullmatch(following) is not None
        for line, following in pairwise(lines)
    )
    assert hashed == sum("==" in line for line in lines if not line.startswith(" ")) > 0


def test_the_tests_run_on_the_versions_that_the_service_runs_on() -> None:
    """Every runtime pin stands unchanged among the development pins."""
    pins = {
        name: {
            line
            for line in (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
            if REQUIREMENT.fullmatch(line)
        }
        for name in ("runtime", "dev")
    }
    assert pins["runtime"] <= pins["dev"]
