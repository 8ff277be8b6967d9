"""What the three packages may import, and that they are ours."""

import subprocess
import sys
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

import grimp
import pytest

from tests.tree import ROOT

PACKAGES = ("domain", "adapters", "entrypoints")

# Values, types, arithmetic, digests: pure, synchronous, with no view of the outside. What is missing here does I/O,
# reads a clock, draws random numbers, starts threads or loops, or was never needed.
DOMAIN_IMPORTS = {
    "collections",
    "contextlib",
    "datetime",
    "enum",
    "functools",
    "hashlib",
    "msgspec",
    "re",
    "transitions",
    "typing",
    "zlib",
}


def test_the_domain_imports_only_what_is_on_its_list() -> None:
    """Every external import of the domain is on the list, and nothing stands there in vain."""
    graph = grimp.build_graph(*PACKAGES, include_external_packages=True, cache_dir=None)
    domain = {"domain"} | graph.find_descendants("domain")
    imported = {module for importer in domain for module in graph.find_modules_directly_imported_by(importer)}
    assert {module.partition(".")[0] for module in imported - domain} == DOMAIN_IMPORTS


def test_the_domain_loads_no_loop_no_server_and_no_database() -> None:
    """What the domain imports does not bring in by itself what the domain may not import."""
    heavy = {"aiosqlite", "asyncio", "httpx", "litestar", "pysqlite3", "socket", "sqlite3", "uvicorn"}
    modules = ", ".join(
        file.relative_to(ROOT / "src").with_suffix("").as_posix().replace("/", ".")
        for file in sorted((ROOT / "src" / "domain").rglob("*.py"))
        if file.name != "__init__.py"
    )
    code = f"import sys, {modules}; print(*sorted({heavy!r} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert loaded.split() == []


@pytest.mark.parametrize("package", PACKAGES)
def test_our_package_is_the_one_imported(package: str) -> None:
    """`domain`, `adapters` and `entrypoints` come from src, although others publish packages of the same names."""
    location = import_module(package).__file__
    assert location is not None
    assert Path(location).parent == ROOT / "src" / package


@pytest.mark.parametrize("package", PACKAGES)
def test_no_other_distribution_brings_a_package_of_our_name(package: str) -> None:
    """No installed dependency holds a package that would be imported instead of ours in some other installation."""
    assert set(packages_distributions().get(package, ())) <= {"fencepost"}
