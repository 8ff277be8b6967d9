"""Import and export as clients: what is asked for, what is left behind, what a script gets to see."""

import io
import json
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from entrypoints.cli.main import run
from tests.entrypoints.client.scripted import (
    EXPORT_ID,
    FILE,
    Scripted,
    Service,
    a_file,
    a_problem,
    an_export,
    scripted,
)
from tests.processes import free_port

CREATE = "POST /v1/exports"
STATUS = f"GET /v1/exports/{EXPORT_ID}"
RESULT = f"GET /v1/exports/{EXPORT_ID}/result"
IMPORT = "POST /v1/tasks/import?on_error=refuse&formula_protection=none"
SOUND = {CREATE: [an_export("queued")], STATUS: [an_export()], RESULT: [a_file()]}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Returns a folder with a token in the file `token` and tasks in `tasks.csv`."""
    (tmp_path / "token").write_text("fp_secret\n")
    (tmp_path / "tasks.csv").write_bytes(FILE)
    return tmp_path


def typed(service: Service, here: Path, *arguments: str) -> int:
    """Run a command as a client of the service; return its exit status."""
    return run([*arguments, "--url", service.url, "--token-file", str(here / "token"), "--patience", "5"])


def left_in(folder: Path) -> list[str]:
    """Return what lies in the folder, apart from what was there before."""
    return sorted(path.name for path in folder.iterdir() if path.name not in {"token", "tasks.csv"})


class TestExport:
    """`fencepost export`."""

    def test_the_file_is_downloaded_and_proven(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Rows, bytes and digest are told, with the key that repeats it; standard output stays empty."""
        with scripted(SOUND) as service:
            assert typed(service, here, "export", "-o", str(here / "out.csv")) == 0
        assert (here / "out.csv").read_bytes() == FILE
        assert left_in(here) == ["out.csv"]
        output = capsys.readouterr()
        assert output.out == ""
        assert f"Key: {service.received[0].headers['Idempotency-Key']}" in output.err
        assert f"1 row, {len(FILE)} bytes, sha256 {sha256(FILE).hexdigest()}" in output.err
        assert {request.headers["Authorization"] for request in service.received} == {"Bearer fp_secret"}

    def test_a_fresh_key_is_made_each_time(self, here: Path) -> None:
        """Two exports are two, unless the same key is given."""
        with scripted(SOUND) as service:
            for more in ((), (), ("--key", "mine")):
                assert typed(service, here, "export", "-o", str(here / "out.csv"), *more) == 0
        first, second, third = (
            request.headers["Idempotency-Key"] for request in service.received if request.route == CREATE
        )
        assert first != second
        assert third == "mine"

    def test_only_what_was_stated_is_asked_for(self, here: Path) -> None:
        """The service's defaults hold for everything else."""
        stated = (
            "--columns title,id --status open --status done --priority 1 --due-before 2026-01-31T08:30:00Z "
            "--timezone Europe/Berlin --delimiter tab --line-ending lf --quoting all --bom --deadline 60 "
        )
        with scripted(SOUND) as service:
            for options in ("", stated, "--formula-protection none"):
                assert typed(service, here, "export", "-o", str(here / "out.csv"), *options.split()) == 0
        bodies = [msgspec.json.decode(request.body) for request in service.received if request.route == CREATE]
        assert bodies == [
            {},
            {
                "columns": ["title", "id"],
                "filter": {"status": ["open", "done"], "priority": [1], "due_before": "2026-01-31T08:30:00Z"},
                "timezone": "Europe/Berlin",
                "csv": {"delimiter": "\t", "line_ending": "lf", "quoting": "all", "bom": True},
                "deadline_seconds": 60,
            },
            {"csv": {"formula_protection": "none"}},
        ]

    def test_an_empty_filter_is_passed_on(self, here: Path) -> None:
        """It is the service's to refuse: to pass it over would export what the filter was to keep out."""
        with scripted(SOUND) as service:
            assert typed(service, here, "export", "-o", str(here / "out.csv"), "--due-after", "", "--timezone", "") == 0
        assert msgspec.json.decode(service.received[0].body) == {"filter": {"due_after": ""}, "timezone": ""}

    @pytest.mark.parametrize(
        ("answer", "status", "can_go_on"),
        [
            (a_file(FILE[:-1]), 4, True),
            (a_file(cut_after=3), 4, True),
            (a_problem(410, "The file has expired"), 1, False),
        ],
    )
    def test_what_is_not_proven_is_not_there(
        self, here: Path, answer: Scripted, status: int, *, can_go_on: bool, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """An earlier file stays as it was, nothing lies beside it, and the key is told where it helps."""
        (here / "out.csv").write_text("earlier")
        with scripted({**SOUND, RESULT: [answer]}) as service:
            assert typed(service, here, "export", "-o", str(here / "out.csv"), "--key", "k") == status
        assert (here / "out.csv").read_text() == "earlier"
        assert left_in(here) == ["out.csv"]
        assert ("To go on with the same export, add: --key k" in capsys.readouterr().err) is can_go_on

    def test_a_file_for_a_pipe_is_proven_before_its_first_byte(
        self, here: Path, capfdbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        """Standard output gets the whole file or nothing."""
        for answer, written in ((a_file(FILE[:-1]), b""), (a_file(), FILE)):
            with scripted({**SOUND, RESULT: [answer]}) as service:
                assert (typed(service, here, "export", "-o", "-") == 0) is bool(written)
            assert capfdbinary.readouterr().out == written
        assert left_in(here) == []

    def test_a_script_gets_json(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Standard output is one JSON object."""
        with scripted(SOUND) as service:
            assert typed(service, here, "export", "-o", str(here / "out.csv"), "--json", "--key", "k") == 0
        outcome = json.loads(capsys.readouterr().out)
        assert (outcome["key"], outcome["id"], outcome["rows"]) == ("k", EXPORT_ID, 1)
        assert outcome["sha256"] == sha256(FILE).hexdigest()

    @pytest.mark.parametrize(
        ("export", "status", "said"),
        [
            (an_export("failed", error={"code": "result_too_large", "detail": "too large"}), 1, "result_too_large"),
            (an_export("running"), 3, "it goes on"),
        ],
    )
    def test_an_export_without_a_file_ends_the_command(
        self, here: Path, export: Scripted, status: int, said: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Failed is final; what only took too long can be gone on with."""
        with scripted({**SOUND, STATUS: [export]}) as service:
            assert typed(service, here, "export", "-o", str(here / "out.csv"), "--timeout", "0.1") == status
        assert said in capsys.readouterr().err
        assert left_in(here) == []

    def test_a_service_that_is_not_there_is_named(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """With the address, and the status for "out of reach"."""
        url = f"http://127.0.0.1:{free_port()}"
        arguments = ["export", "-o", str(here / "out.csv"), "--url", url, "--token-file", str(here / "token")]
        assert run([*arguments, "--patience", "0"]) == 3
        assert f"cannot reach {url}" in capsys.readouterr().err
        assert left_in(here) == []


class TestImport:
    """`fencepost tasks import`."""

    REPORT = Scripted(201, b'{"imported":2,"refused":1,"refused_rows":[{"line":3,"column":"status","reason":"no"}]}')

    def test_the_outcome_is_told(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """How many were taken, and which were not, by line, column and reason."""
        with scripted({IMPORT: [self.REPORT]}) as service:
            assert typed(service, here, "tasks", "import", str(here / "tasks.csv")) == 0
        output = capsys.readouterr()
        assert output.out == "Imported 2 tasks, refused 1.\n"
        assert "line 3, status: no" in output.err
        assert service.received[0].body == FILE

    def test_a_script_gets_json(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Standard output is the service's report."""
        with scripted({IMPORT: [self.REPORT]}) as service:
            assert typed(service, here, "tasks", "import", str(here / "tasks.csv"), "--json") == 0
        assert json.loads(capsys.readouterr().out) == json.loads(self.REPORT.body)

    @pytest.mark.parametrize(
        ("name", "options", "media"),
        [
            ("a.csv", (), "text/csv"),
            ("a.JSONL", (), "application/jsonl"),
            ("a.ndjson", (), "application/jsonl"),
            ("a.txt", ("--format", "csv"), "text/csv"),
            ("a.csv", ("--format", "jsonl"), "application/jsonl"),
        ],
    )
    def test_the_kind_of_file_is_what_its_name_or_the_option_says(
        self, here: Path, name: str, options: Sequence[str], media: str
    ) -> None:
        """The option has the last word."""
        (here / name).write_bytes(FILE)
        with scripted({IMPORT: [self.REPORT]}) as service:
            assert typed(service, here, "tasks", "import", str(here / name), *options) == 0
        assert service.received[0].headers["Content-Type"] == media

    def test_refused_lines_are_listed(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Each of those that the service names, and how many more there are."""
        errors = [{"line": 2, "column": "title", "detail": "too long"}]
        refusal = a_problem(400, "Rows of the file were refused", errors=errors, error_count=3)
        with scripted({IMPORT: [refusal]}) as service:
            assert typed(service, here, "tasks", "import", str(here / "tasks.csv")) == 1
        said = capsys.readouterr().err
        assert "line 2, title: too long" in said
        assert "and 2 more" in said
        assert "--on-error skip" in said
        assert "fencepost: Rows of the file were refused: what happened" in said

    def test_a_fault_of_the_whole_file_is_told_once(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """The refusal itself names all of them; no row can be left out to mend it."""
        errors = [{"line": 1, "detail": "no column a"}, {"line": 1, "detail": "no column b"}]
        with scripted({IMPORT: [a_problem(400, "The file was refused", errors=errors)]}) as service:
            assert typed(service, here, "tasks", "import", str(here / "tasks.csv")) == 1
        assert capsys.readouterr().err == "fencepost: The file was refused: what happened\n"

    @pytest.mark.parametrize(("count", "said"), [(0, "0 tasks"), (1, "1 task"), (1234, "1,234 tasks")])
    def test_tasks_are_counted_as_people_do(
        self, here: Path, count: int, said: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """One is one task."""
        report = Scripted(200, b'{"imported":%d,"refused":0,"refused_rows":[]}' % count)
        with scripted({IMPORT: [report]}) as service:
            assert typed(service, here, "tasks", "import", str(here / "tasks.csv")) == 0
        assert capsys.readouterr().out == f"Imported {said}.\n"

    def test_standard_input_can_be_sent_again(
        self, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A pipe does not go back to its start, and is kept until the request is answered."""
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FILE)))
        with scripted({IMPORT: [a_problem(503, "Later"), self.REPORT]}) as service:
            assert typed(service, here, "tasks", "import", "-") == 0
        assert [request.body for request in service.received] == [FILE, FILE]
        assert capsys.readouterr().out == "Imported 2 tasks, refused 1.\n"
