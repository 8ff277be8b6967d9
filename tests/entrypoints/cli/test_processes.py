"""The two commands that a newcomer types, run as they run them: real processes, a real file, nothing left behind."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace

from entrypoints.settings import Settings
from tests.processes import Running, environment_for, eventually, fencepost, needs_curl

EDGE = Path(__file__).resolve().parents[2] / "data" / "edge-tasks.csv"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Returns settings for a database of the test's own, on a free port."""
    return replace(Settings(), database=str(tmp_path / "fencepost.db"), port=0)


def processes_that_know(folder: Path) -> list[str]:
    """Return the processes that were started with this folder in their environment and are still there."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


class TestDemo:
    """`fencepost demo`."""

    @staticmethod
    def run(settings: Settings, folder: Path, *options: str) -> tuple[int, str, str]:
        """Run it in that folder on the edge file; return exit status, output and errors once nothing is left."""
        scratch = folder / "scratch"
        scratch.mkdir()
        environment = environment_for(settings, TMPDIR=str(scratch))
        command = [
            sys.executable,
            "-P",
            "-m",
            "entrypoints.cli.main",
            "demo",
            "--input",
            str(EDGE),
            "--output",
            "out.csv",
            *options,
        ]
        ended = subprocess.run(
            command, check=False, capture_output=True, cwd=folder, env=environment, text=True, timeout=120
        )
        assert [*scratch.iterdir()] == []
        assert processes_that_know(scratch) == []
        return ended.returncode, ended.stdout, ended.stderr

    def test_every_row_is_kept_or_named(self, settings: Settings, tmp_path: Path) -> None:
        """Fifty-nine awkward rows come back equal, one is refused by line and reason, and no trace is left.

        Beside that, nothing is told but that the service is up and what was imported: no log, of ours or of a library.
        """
        status, output, errors = self.run(settings, tmp_path, "--on-error", "skip")
        assert status == 0, output + errors
        assert "59 rows equal by an independent comparison" in output
        assert "line 105, due_at: outside the range" in output
        assert "Everything held." in output
        assert "FAILED" not in output
        assert re.sub(r":\d+", ":PORT", errors).splitlines() == [
            "API and worker are up, http://127.0.0.1:PORT, on a temporary database.",
            f"Imported 59 rows of {EDGE}, refused 1.",
        ]
        assert (tmp_path / "out.csv").stat().st_size > 70_000

    def test_a_faulty_file_is_refused_whole(self, settings: Settings, tmp_path: Path) -> None:
        """By default one row refuses them all; its line is told, no file is made, and no trace is left."""
        status, output, errors = self.run(settings, tmp_path)
        assert (status, output) == (1, "")
        assert "line 105, due_at: outside the range" in errors
        assert not (tmp_path / "out.csv").exists()


class TestUp:
    """`fencepost up --demo`."""

    @staticmethod
    @contextmanager
    def started(settings: Settings, folder: Path) -> Iterator[Running]:
        """Start it, wait until it has printed all it prints, and stop it as a person does."""
        with fencepost("up", "--demo", settings=settings, directory=folder) as service:
            eventually(lambda: any("Ctrl-C" in line for line in (*service.output, *service.lines)) or service.has_ended)
            yield service
            service.signal(signal.SIGINT)
            assert service.ended() == 0, service.lines

    @needs_curl
    def test_the_printed_lines_work_as_printed(self, settings: Settings, tmp_path: Path) -> None:
        """Pasted together they leave the file; Ctrl-C leaves no process; a second start keeps tasks, not tokens.

        No log stands between them, neither the service's own nor a library's.
        """
        with self.started(settings, tmp_path) as service:
            first = self.pasted(service, tmp_path)
            assert first.returncode == 0, first
            assert '"status":' in first.stdout
            assert "tasks.csv: " in first.stdout
            assert service.lines == []
            assert f"kept in {settings.database}." in "".join(service.output)
            assert (tmp_path / "tasks.csv").read_text().count("'=SUM(A1:A9)") == 1
            earlier_token = self.token(service)
            assert len(processes_that_know(tmp_path)) == 3
        assert processes_that_know(tmp_path) == []
        (tmp_path / "tasks.csv").unlink()
        with self.started(settings, tmp_path) as service:
            assert self.pasted(service, tmp_path).returncode == 0
            assert (tmp_path / "tasks.csv").read_text().count("'=SUM(A1:A9)") == 1
            assert self.status_of(service, earlier_token) == 401
            assert self.status_of(service, self.token(service)) == 200

    @staticmethod
    def pasted(service: Running, folder: Path) -> "subprocess.CompletedProcess[str]":
        """Run the three printed lines in a shell."""
        lines = [line for line in service.output if "curl" in line]
        assert len(lines) == 3
        return subprocess.run(
            ["/bin/sh"], input="".join(lines), check=False, capture_output=True, cwd=folder, text=True, timeout=60
        )

    @staticmethod
    def status_of(service: Running, token: str) -> int:
        """Return how a request with this token is answered."""
        found = re.search(r"ready at (\S+)$", "".join(service.output), re.MULTILINE)
        assert found is not None
        answer = httpx.get(f"{found[1]}/v1/tasks", headers={"Authorization": f"Bearer {token}"}, trust_env=False)
        return answer.status_code

    @staticmethod
    def token(service: Running) -> str:
        """Return the token that was printed."""
        found = re.search(r"^\s+(fp_\S+)$", "".join(service.output), re.MULTILINE)
        assert found is not None
        return found[1]
