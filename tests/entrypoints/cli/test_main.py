"""The command as a person meets it: help without a wait, mistakes in one line, an exit status that a script can use."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import rich_click as click

from domain.errors import InputError, InvalidInput, NotFound, StoreBusy
from entrypoints.cli.failure import explain
from entrypoints.cli.main import command_of, run, summaries
from entrypoints.client.answers import Problem
from entrypoints.client.failures import BadConnection, BadKey, OutOfReach, Refused, TimedOut, Unproven, WithoutResult
from entrypoints.settings import SettingsError


@pytest.mark.parametrize("name", [*summaries()])
def test_the_listing_says_what_each_command_says_of_itself(name: str) -> None:
    """The sentence in the listing is the one with which the command's own help begins."""
    assert (command_of(name).help or "").startswith(summaries()[name].removesuffix("."))


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["xyz"]])
def test_what_needs_no_command_loads_none(arguments: list[str]) -> None:
    """Help is there before the web framework, the HTTP client and the database would have been imported."""
    heavy = {"adapters", "aiosqlite", "httpx", "litestar", "uvicorn"}
    code = (
        f"import sys; from entrypoints.cli.main import run; sys.stdout = sys.stderr; run({arguments!r}); "
        f"print(*sorted({heavy!r} & set(sys.modules)), file=sys.__stdout__)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert loaded.split() == []


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the working directory of the test, with the files `token` and `tasks.csv`."""
    (tmp_path / "token").write_text("fp_" + "x" * 6_000)
    (tmp_path / "tasks.csv").write_text("title\na\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["xyz"], 2, "No such command 'xyz'"),
        (["users", "add"], 2, "Missing argument 'NAME'"),
        (["export"], 2, "Missing option '-o'"),
        (["export", "-o", "x.csv", "--url", "nowhere"], 2, "'nowhere' is not the address of a service"),
        (["export", "-o", "x.csv", "--token-file", "missing"], 1, "missing: No such file or directory"),
        (["export", "-o", "-", "--json"], 2, "cannot both go to standard output"),
        (["export", "-o", "missing/x.csv", "--token-file", "token"], 1, "missing/x.csv: No such file or directory"),
        (["export", "-o", ".", "--token-file", "token"], 1, ".: Is a directory"),
        (["export", "-o", "x.csv"], 2, "there is no token, or what is given is none. Set FENCEPOST_TOKEN"),
        (["export", "-o", ""], 2, "'--output': it must not be empty. See `fencepost export --help`."),
        (["export", "-o", "x.csv", "--key", ""], 2, "'--key': it must not be empty"),
        (
            ["export", "-o", "x.csv", "--columns", "id,x"],
            2,
            "there is no column 'x'; there are",
        ),
        (["export", "-o", "x.csv", "--timeout", "nan"], 2, "'nan' is not a number of seconds from 0 to"),
        (["export", "-o", "x.csv", "--patience", "1e300"], 2, "'1e300' is not a number of seconds from 0 to"),
        (["tasks", "import", "missing.csv"], 1, "missing.csv: No such file or directory"),
        (["tasks", "import", "tasks.xlsx"], 2, "'tasks.xlsx' does not say what it is; add --format"),
        (["users", "list", "more"], 2, "unexpected extra argument (more). See `fencepost users list --help`."),
        (["users", "list", "--database", ""], 2, "'--database': it must not be empty"),
        (["users", "list", "--database", "missing.db"], 3, "fencepost migrate"),
        (["users", "list", "--database", "token"], 3, "token"),
        (["tokens", "issue", "ada", "--scope", "all"], 2, "'all' is not one of"),
        (["up", "--port", "70000"], 2, "70000 is not in the range"),
        (["up", "--workers", "two"], 2, "'two' is not a valid whole number"),
        (["demo", "--input", "."], 1, ".: Is a directory"),
        (["demo", "--input", "missing.csv"], 1, "missing.csv: No such file or directory"),
        (["demo", "--input", "token"], 2, "must be a CSV file"),
        (["demo", "--input", "tasks.csv", "--output", "tasks.csv"], 2, "is the file that is imported"),
        (["lifecycle", "--check", "missing.md"], 1, "missing.md"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_is_wrong(
    arguments: list[str], status: int, said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback, nothing on standard output, no file left, and a status that tells the kinds apart."""
    assert run(arguments) == status
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("fencepost: ")
    assert said in output.err
    assert output.err.count("\n") == 1
    assert sorted(path.name for path in here.iterdir()) == ["tasks.csv", "token"]


def test_a_setting_that_is_none_is_named(tmp_path: Path) -> None:
    """A misspelt variable stops every command that reads settings."""
    ended = fencepost("users", "list", directory=tmp_path, FENCEPOST_DATABSE="x.db")
    assert ended.returncode == 2
    assert "FENCEPOST_DATABSE is not a setting" in ended.stderr


def test_a_traceback_is_there_for_who_asks(tmp_path: Path) -> None:
    """--debug shows where the failure arose, and the sentence still ends it."""
    ended = fencepost("--debug", "users", "list", directory=tmp_path)
    assert ended.returncode == 3
    assert "Traceback (most recent call last)" in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("fencepost: there is no database")


def test_a_reader_that_leaves_is_no_failure_to_tell_of(tmp_path: Path) -> None:
    """As under `| head`: no words, no traceback, and not the status of success."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        ended = subprocess.run(
            [sys.executable, "-m", "entrypoints.cli.main", "settings"],
            check=False,
            cwd=tmp_path,
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (ended.returncode, ended.stderr) == (1, "")


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_stream_is_no_defect(closed: int, tmp_path: Path) -> None:
    """What needs the stream fails as on any other that cannot be used, in one line; what does not is done."""
    program = [sys.executable, "-P", "-m", "entrypoints.cli.main", "tasks", "import", "-", "--token-file", "token"]
    (tmp_path / "token").write_text("fp_secret")
    if closed > 0:
        program[4:] = ["settings"]
    shell = ["sh", "-c", f'exec "$@" {closed}>&-', "sh", *program]
    ended = subprocess.run(shell, check=False, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    said = "" if closed == 2 else "fencepost: Bad file descriptor\n"
    assert (ended.returncode, ended.stderr) == (int(closed != 2), said)


@pytest.mark.parametrize("arguments", [["settings"], ["--help"]])
def test_output_that_cannot_be_written_is_told_in_one_line(arguments: list[str], tmp_path: Path) -> None:
    """A full disk behind standard output is not success, nor a traceback at exit."""
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "entrypoints.cli.main", *arguments],
            check=False,
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (ended.returncode, ended.stderr) == (1, "fencepost: No space left on device\n")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (click.UsageError("x"), 2),
        (click.ClickException("x"), 1),
        (SettingsError("x"), 2),
        (InvalidInput(InputError("name", "x")), 1),
        (NotFound("x"), 1),
        (StoreBusy("x"), 3),
        (BadConnection("x"), 2),
        (BadKey("x"), 2),
        (Refused(Problem(title="x")), 1),
        (WithoutResult("x"), 1),
        (OutOfReach("x"), 3),
        (TimedOut("x"), 3),
        (Unproven("x"), 4),
        (PermissionError(13, "x", "file"), 1),
        (ExceptionGroup("several", [StoreBusy("x")]), 3),
    ],
)
def test_each_kind_of_failure_has_its_status(error: Exception, status: int) -> None:
    """The table is the one that `fencepost --help` states, and the sentence is the failure's own."""
    explained = explain(error)
    assert explained.exit_status == status
    assert "x" in explained.sentence
    assert "unexpected" not in explained.sentence


def test_a_defect_says_how_to_see_more() -> None:
    """Its class is named, its text is kept to one line."""
    explained = explain(RuntimeError("two\nlines"))
    assert explained.exit_status == 1
    assert explained.sentence == "unexpected RuntimeError: two lines (`fencepost --debug …` shows where)"


def test_help_states_the_exit_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    """A script's author finds them where they look first."""
    assert run(["--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "0 done; 1 refused or failed; 2 wrong usage or configuration; 3 the service or the database" in said
    assert "4 a download did not prove complete; 130 interrupted" in said


def fencepost(*arguments: str, directory: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end, in that directory and without this process's own configuration."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FENCEPOST_")}
    return subprocess.run(
        [sys.executable, "-P", "-m", "entrypoints.cli.main", *arguments],
        check=False,
        capture_output=True,
        cwd=directory,
        env=clean | variables,
        text=True,
    )
