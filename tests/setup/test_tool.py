"""`./tool` on a copy of what it needs: when it sets up, when it leaves alone, and what it says when it cannot.

A script stands in for uv, so that nothing is fetched; it writes down how it was called. The rest is the real thing.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tree import ROOT

UV = """#!/bin/sh
echo "begin $*" >> "$UV_CALLS"
{body}
echo end >> "$UV_CALLS"
"""


@dataclass(frozen=True)
class Checkout:
    """A copy of the repository, as far as set-up is concerned, with a uv of its own."""

    root: Path

    def uv_does(self, body: str) -> None:
        """Replaces what happens between the two lines that the stand-in for uv writes."""
        uv = self.root / "bin" / "uv"
        uv.parent.mkdir(exist_ok=True)
        uv.write_text(UV.format(body=body))
        uv.chmod(0o755)

    def start(self, *arguments: str, path: str | None = None, **variables: str) -> subprocess.Popen[str]:
        """Starts `./tool`; pip, if it comes to that, is kept off every index."""
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))},
            "PATH": path or f"{self.root / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "UV_CALLS": str(self.root / "calls"),
            "PIP_NO_INDEX": "1",
            **variables,
        }
        return subprocess.Popen(
            [self.root / "tool", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, path: str | None = None, **variables: str) -> tuple[int, str, str]:
        """Runs `./tool` to its end; returns exit status, standard output and standard error."""
        process = self.start(*arguments, path=path, **variables)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def calls(self) -> list[str]:
        """Returns what the stand-in for uv wrote down since it was last asked."""
        record = self.root / "calls"
        lines = record.read_text().splitlines() if record.exists() else []
        record.unlink(missing_ok=True)
        return lines


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A fresh copy, in a directory whose name has a space in it."""
    root = tmp_path / "check out"
    for name in ("requirements", "scripts"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("tool", "pyproject.toml"):
        shutil.copy2(ROOT / name, root / name)
    made = Checkout(root)
    made.uv_does(":")
    return made


def test_the_first_start_installs_by_hash_and_runs_the_command(checkout: Checkout) -> None:
    """A fresh checkout gets an environment from the hashed lock, then the command runs in it, in the caller's words."""
    status, out, _ = checkout.run("runtime", "python", "-c", "import sys; print(sys.prefix, *sys.argv[1:])", "a b", "*")
    assert (status, out) == (0, f"{checkout.root / '.venv'} a b *\n")
    sync, _, install, _ = checkout.calls()
    assert "--require-hashes" in sync
    assert sync.endswith("requirements/runtime.txt")
    assert "--no-deps" in install


def test_the_second_start_installs_nothing(checkout: Checkout) -> None:
    """A complete environment is left alone, and says nothing."""
    checkout.run("runtime")
    checkout.calls()
    assert checkout.run("runtime", "python", "-c", "print(1)") == (0, "1\n", "")
    assert checkout.calls() == []


def test_an_environment_for_the_tests_also_runs_the_service(checkout: Checkout) -> None:
    """Nothing is installed, and nothing taken away, when a smaller profile is asked for."""
    checkout.run("dev")
    assert checkout.calls()[0].endswith("requirements/dev.txt")
    checkout.run("runtime")
    assert checkout.calls() == []


def test_a_larger_profile_adds_to_the_environment(checkout: Checkout) -> None:
    """The first test run of someone who ran the service keeps what is there and adds the rest."""
    checkout.run("runtime")
    kept = checkout.root / ".venv" / "kept"
    kept.touch()
    checkout.calls()
    checkout.run("dev")
    assert checkout.calls()[0].endswith("requirements/dev.txt")
    assert kept.exists()


@pytest.mark.parametrize("name", ["requirements/runtime.txt", "scripts/bootstrap.py"])
def test_a_changed_lock_is_noticed(checkout: Checkout, name: str) -> None:
    """A start after the requirements changed brings the environment up to date, once."""
    checkout.run("runtime")
    checkout.calls()
    with (checkout.root / name).open("a") as file:
        file.write("\n# changed\n")
    checkout.run("runtime")
    assert checkout.calls()
    checkout.run("runtime")
    assert checkout.calls() == []


@pytest.mark.parametrize(
    ("table", "notices"), [("[project.urls]\nx = 'https://example.com'", True), ("[tool.x]", False)]
)
def test_only_what_is_installed_counts_of_the_project_file(checkout: Checkout, table: str, *, notices: bool) -> None:
    """A change to the project's metadata makes a new installation; one to a linter's settings does not."""
    checkout.run("runtime")
    checkout.calls()
    with (checkout.root / "pyproject.toml").open("a") as file:
        file.write(f"\n{table}\n")
    checkout.run("runtime")
    assert bool(checkout.calls()) is notices


@pytest.mark.parametrize("complete_before", [False, True])
def test_an_interrupted_set_up_is_done_again(checkout: Checkout, *, complete_before: bool) -> None:
    """A set-up, or an update, that was killed half way leaves no stamp; the next start begins from nothing."""
    if complete_before:
        checkout.run("runtime")
    checkout.uv_does("kill -9 $PPID")
    assert checkout.run("dev", "python", "-c", "print(1)")[:2] == (-9, "")
    half = checkout.root / ".venv" / "half"
    half.touch()
    checkout.uv_does(":")
    assert checkout.run("runtime", "python", "-c", "print(1)")[:2] == (0, "1\n")
    assert not half.exists()


def test_an_environment_that_was_moved_is_made_anew(checkout: Checkout) -> None:
    """The scripts of an environment hold its path, so a renamed checkout does not use the old ones."""
    checkout.run("runtime")
    checkout.calls()
    moved = Checkout(checkout.root.rename(checkout.root.with_name("moved")))
    moved.run("runtime")
    assert moved.calls()


def test_two_set_ups_at_once_take_turns(checkout: Checkout) -> None:
    """Two first starts end well, one of them having waited; the environment is made once."""
    checkout.uv_does("sleep 0.3")
    first, second = (checkout.start("runtime", "python", "-c", "print(1)") for _ in range(2))
    outcomes = [process.communicate(timeout=60) for process in (first, second)]
    assert [out for out, _ in outcomes] == ["1\n", "1\n"]
    assert [line.split()[0] for line in checkout.calls()] == ["begin", "end", "begin", "end"]
    assert sum("waiting for it" in err for _, err in outcomes) == 1


def test_what_cannot_be_installed_is_said_plainly(checkout: Checkout) -> None:
    """Without an index the set-up ends with one piece of advice, no traceback, no stamp, and status 1."""
    checkout.uv_does("exit 1")
    status, out, err = checkout.run("runtime", "python", "-c", "print(1)")
    assert (status, out) == (1, "")
    assert "check the network" in err
    assert "Traceback" not in err
    assert not list(checkout.root.glob(".venv/*stamp*"))


def test_a_python_that_is_too_old_is_named(checkout: Checkout) -> None:
    """Where python3 is older than 3.11, its version is told and what to do about it."""
    old = checkout.root / "old"
    old.mkdir()
    python = old / "python3"
    python.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2 || exit 1\n')
    python.chmod(0o755)
    for tool in ("dirname", "head", "sh"):
        (old / tool).symlink_to(shutil.which(tool) or pytest.fail(f"{tool} is not on PATH"))
    status, out, err = checkout.run("runtime", path=str(old))
    assert (status, out) == (1, "")
    assert "Python 3.11 or newer is needed; python3 is Python 3.9.2" in err


def test_a_chosen_python_that_does_not_work_is_named(checkout: Checkout) -> None:
    """PYTHON= is used or refused, never replaced by another interpreter in silence."""
    status, _, err = checkout.run("runtime", PYTHON="/nowhere/python3")
    assert status == 1
    assert "PYTHON=/nowhere/python3" in err


@pytest.mark.parametrize("arguments", [(), ("neither",), ("runtime", "no-such-command")])
def test_wrong_usage_is_one_line(checkout: Checkout, arguments: tuple[str, ...]) -> None:
    """An unknown profile or command is told in one line, with status 2."""
    checkout.run("runtime")
    status, out, err = checkout.run(*arguments)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
