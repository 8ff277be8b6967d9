"""Operators at the command line: dead letters are found, understood and tried again, and the queue is watched."""

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from domain.export import ErrorCode, ExportJob, Failure, FailureKind, JobId, LeaseToken
from domain.parameters import ExportParameters
from domain.policies import Policies
from domain.ports import UnitOfWork
from domain.task import NewTask, TaskId
from domain.use_cases.accounts import named_user
from domain.use_cases.exports import ExportRequest, enqueue_export
from domain.use_cases.tasks import create_task
from domain.use_cases.work import claim_export, fail_export, holder_of
from entrypoints.bootstrap import Application, assemble
from entrypoints.cli.main import EXIT_INTERRUPTED, run
from entrypoints.settings import Settings
from tests.builders import an_id
from tests.processes import eventually, fencepost
from tests.use_cases.bench import contents

T = TypeVar("T")
DEAD = Failure(FailureKind.PERMANENT, ErrorCode.RESULT_TOO_LARGE, "ResultTooLarge")
PLANTED = "PLANTED-TEXT-OF-A-TASK"
LEASE_TOKEN = "planted-lease-token"
WHY = ("--reason", "the limit was raised")


class Site:
    """One database, its operator, and its owner, ann, whose exports are made and failed as the test needs it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.settings = replace(Settings(), database=str(folder / "fencepost.db"), worker_poll_seconds=0.05)
        self.folder = folder
        self._capsys = capsys

    def types(self, *arguments: str, status: int = 0) -> str:
        """Run a command; return what it printed on standard output."""
        found = run([*arguments, "--database", self.settings.database])
        output = self._capsys.readouterr()
        assert found == status, output.err
        return output.out

    def fails(self, *arguments: str, status: int = 1) -> str:
        """Run a command that is refused; return what it said."""
        assert run([*arguments, "--database", self.settings.database]) == status
        return self._capsys.readouterr().err

    def told(self, *arguments: str, status: int = 0) -> dict[str, Any]:
        """Run a command with --json; return the one thing that it told."""
        found: dict[str, Any] = json.loads(self.types(*arguments, "--json", status=status))
        return found

    def listed(self, *arguments: str) -> list[dict[str, Any]]:
        """Run a command with --json; return what it listed."""
        found: list[dict[str, Any]] = json.loads(self.types(*arguments, "--json"))
        return found

    def statuses(self) -> dict[str, str]:
        """Return the status of each export by its id."""
        return {job["id"]: job["status"] for job in self.listed("jobs", "list")}

    def enqueue(self, owner: str = "ann") -> str:
        """Ask for an export; return its id."""
        return self._do(lambda app: app.store.write(enqueue, owner, app.randomness.new_id(), policies=app.policies))

    def a_dead_letter(self, owner: str = "ann") -> str:
        """Ask for an export that fails for good; return its id."""
        job_id = self.enqueue(owner)
        self._do(lambda app: app.store.write(bury, policies=app.policies))
        return job_id

    def claim(self) -> None:
        """Take the next export, and keep it."""
        self._do(lambda app: app.store.write(claim, policies=app.policies))

    def _do(self, work: Callable[[Application], Awaitable[T]]) -> T:
        async def opened() -> T:
            async with assemble(self.settings) as app:
                return await work(app)

        return asyncio.run(opened())


def enqueue(uow: UnitOfWork, owner: str, job_id: str, *, policies: Policies) -> str:
    """Add a task with planted text, and ask for an export of it."""
    user = named_user(uow, owner)
    create_task(uow, user.id, NewTask(title=PLANTED, description=PLANTED), task_id=TaskId(job_id))
    request = ExportRequest(owner_id=user.id, request_key=job_id, parameters=ExportParameters(), job_id=JobId(job_id))
    return enqueue_export(uow, request, policies=policies).view.job.id


def claim(uow: UnitOfWork, *, policies: Policies) -> ExportJob:
    """Take the next export."""
    job = claim_export(uow, worker_id="worker-1", lease_token=LeaseToken(LEASE_TOKEN), lease=policies.lease)
    assert job is not None
    return job


def bury(uow: UnitOfWork, *, policies: Policies) -> None:
    """Take the next export and let it fail for good."""
    fail_export(uow, holder_of(claim(uow, policies=policies)), DEAD, jitter=0, policies=policies)


@pytest.fixture
def site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Site:
    """Returns a site with the owners ann and ben."""
    site = Site(tmp_path, capsys)
    site.types("migrate")
    for name in ("ann", "ben"):
        site.types("users", "add", name)
    return site


def test_a_corrected_dead_letter_is_requeued_and_succeeds(site: Site) -> None:
    """A worker fails it, since its owner is disabled; once that is mended and a person requeues it, it succeeds."""
    job_id = site.enqueue()
    site.types("users", "disable", "ann")
    with fencepost("worker", settings=site.settings, directory=site.folder):
        eventually(lambda: site.statuses()[job_id] == "failed")
        (dead,) = site.listed("dead-letters", "--owner", "ann", "--code", "owner_disabled")
        assert dead["id"] == job_id
        site.types("users", "enable", "ann")
        requeued = site.types("jobs", "requeue", job_id, "--reason", "ann is back", "--actor", "eve", "--attempts", "2")
        assert requeued == f"{job_id}  requeued\n"
        eventually(lambda: site.statuses()[job_id] == "succeeded")
    history = site.told("jobs", "show", job_id)["history"]
    assert [line["event"] for line in history] == ["enqueue", "claim", "fail", "requeue", "claim", "complete"]
    assert (history[3]["actor"], history[3]["reason"]) == ("operator eve", "ann is back")
    assert site.listed("dead-letters") == []
    said = site.types("jobs", "requeue", job_id, "--reason", "once more", status=1)
    assert said == f"{job_id}  refused: cannot requeue a succeeded export: no rule leads there\n"


class TestRequeue:
    """`fencepost jobs requeue`."""

    def test_a_dry_run_of_a_filter_changes_nothing(self, site: Site) -> None:
        """It tells what would become of each that matches; not one row of any table differs."""
        mine = site.a_dead_letter()
        site.a_dead_letter("ben")
        before = contents(Path(site.settings.database))
        order = ("jobs", "requeue", "--all-matching", "--owner", "ann", *WHY)
        assert site.types(*order, "--dry-run") == f"{mine}  would be requeued\n"
        told = site.told(*order, "--dry-run")
        assert contents(Path(site.settings.database)) == before
        assert told == {
            "dry_run": True,
            "requeued": 1,
            "refused": 0,
            "not_tried": 0,
            "outcomes": [{"id": mine, "refusal": None}],
        }

    def test_everything_that_matches_is_requeued_in_batches(self, site: Site) -> None:
        """All dead letters of the filter, and no one else's."""
        mine = {site.a_dead_letter() for _ in range(3)}
        theirs = site.a_dead_letter("ben")
        told = site.told("jobs", "requeue", "--all-matching", "--owner", "ann", "--batch", "2", *WHY)
        assert (told["requeued"], told["refused"]) == (3, 0)
        assert site.statuses() == {**dict.fromkeys(mine, "queued"), theirs: "failed"}

    def test_what_is_refused_is_told_and_the_rest_is_done(self, site: Site) -> None:
        """The exit status is 1."""
        dead, queued = site.a_dead_letter(), site.enqueue()
        told = site.told("jobs", "requeue", dead, queued, an_id(9), *WHY, status=1)
        assert {outcome["id"]: outcome["refusal"] for outcome in told["outcomes"]} == {
            dead: None,
            queued: "cannot requeue a queued export: no rule leads there",
            an_id(9): f"there is no export '{an_id(9)}'",
        }
        assert site.statuses()[dead] == "queued"

    def test_a_full_queue_leaves_the_rest_and_says_so(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """What found room is requeued; one line names the limit, and the exit status is 1."""
        for _ in range(2):
            site.a_dead_letter()
        for name in ("MAX_PENDING", "ACTIVE_PER_OWNER"):
            monkeypatch.setenv(f"FENCEPOST_{name}", "1")
        said = site.fails("jobs", "requeue", "--all-matching", *WHY)
        assert said.splitlines() == [
            "1 were not tried: no more are admitted now.",
            "fencepost: the limit max_pending is reached",
        ]
        assert sorted(site.statuses().values()) == ["failed", "queued"]

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ((an_id(1),), "Missing option '--reason'"),
            (WHY, "name exports, or say --all-matching"),
            ((an_id(1), "--all-matching", *WHY), "name exports, or say --all-matching"),
            ((an_id(1), "--owner", "ann", *WHY), "filters choose with --all-matching"),
            (("--all-matching", "--older-than", "soon", *WHY), "is not an age such as 90s"),
            (("--all-matching", "--attempts", "0", *WHY), "0 is not in the range"),
        ],
    )
    def test_what_cannot_be_meant_is_wrong_usage(self, arguments: tuple[str, ...], words: str, site: Site) -> None:
        """One line says what is accepted, and the exit status is 2."""
        assert words in site.fails("jobs", "requeue", *arguments, status=2)

    def test_a_deadline_out_of_bounds_is_refused(self, site: Site) -> None:
        """The bounds are those of new exports, and nothing changes."""
        dead = site.a_dead_letter()
        assert "must be 10 to 86400" in site.fails("jobs", "requeue", dead, "--deadline-seconds", "9", *WHY)
        assert site.statuses() == {dead: "failed"}


class TestLooking:
    """`fencepost jobs list`, `show`, and `fencepost dead-letters`."""

    def test_filters_narrow_a_list(self, site: Site) -> None:
        """By owner, status, code and age, up to a limit."""
        dead, queued = site.a_dead_letter(), site.enqueue("ben")

        def ids(*arguments: str) -> list[str]:
            return [job["id"] for job in site.listed(*arguments)]

        assert ids("jobs", "list") == [queued, dead]
        assert ids("jobs", "list", "--limit", "1") == [queued]
        assert ids("jobs", "list", "--status", "failed") == [dead]
        assert ids("jobs", "list", "--owner", "ben") == [queued]
        assert ids("jobs", "list", "--code", "result_too_large") == [dead]
        assert ids("jobs", "list", "--newer-than", "1h") == [queued, dead]
        assert ids("jobs", "list", "--older-than", "1h") == []
        assert ids("dead-letters") == ids("dead-letters", "--newer-than", "1d") == [dead]
        assert ids("dead-letters", "--older-than", "30m") == []
        assert ids("dead-letters", "--owner", "ben") == []

    def test_a_list_says_when_there_may_be_more(self, site: Site, capsys: pytest.CaptureFixture[str]) -> None:
        """On standard error, beside the table."""
        site.a_dead_letter()
        assert run(["dead-letters", "--limit", "1", "--database", site.settings.database]) == 0
        output = capsys.readouterr()
        assert "result_too_large" in output.out
        assert output.err == "There may be more: this shows the newest 1.\n"

    @pytest.mark.parametrize(
        "arguments", [("jobs", "list"), ("dead-letters",), ("jobs", "requeue", "--all-matching", *WHY)]
    )
    def test_an_unknown_owner_is_named(self, arguments: tuple[str, ...], site: Site) -> None:
        """A misspelt name is no empty list."""
        assert site.fails(*arguments, "--owner", "bob") == "fencepost: there is no user 'bob'\n"

    def test_an_unknown_export_is_named(self, site: Site) -> None:
        """By every command that takes one."""
        assert site.fails("jobs", "show", "7") == "fencepost: there is no export '7'\n"
        assert site.fails("jobs", "cancel", "7", *WHY) == "fencepost: there is no export '7'\n"

    def test_a_cancelled_export_tells_by_whom_and_why(self, site: Site) -> None:
        """A second time is refused in the protocol's words."""
        job_id = site.enqueue()
        site.types("jobs", "cancel", job_id, "--reason", "not needed", "--actor", "eve")
        shown = site.types("jobs", "show", job_id)
        assert "by operator eve; because not needed" in shown
        assert "cannot cancel a cancelled export" in site.fails("jobs", "cancel", job_id, *WHY)

    def test_nothing_shows_a_lease_token_or_the_text_of_a_task(self, site: Site) -> None:
        """Neither in words nor as JSON, of a job that runs and of one that failed."""
        dead = site.a_dead_letter()
        running = site.enqueue()
        site.claim()
        shown = ""
        for arguments in (
            ("jobs", "list"),
            ("jobs", "show", dead),
            ("jobs", "show", running),
            ("dead-letters",),
            ("jobs", "requeue", dead, "--dry-run", *WHY),
            ("queue", "status"),
        ):
            shown += site.types(*arguments) + site.types(*arguments, "--json")
        assert running in shown
        assert PLANTED not in shown
        assert LEASE_TOKEN not in shown


class TestQueue:
    """`fencepost queue status`."""

    def test_the_queue_is_told_in_full(self, site: Site) -> None:
        """Counts, ages, rates, limits and workers, in words and as JSON."""
        site.a_dead_letter()
        site.enqueue()
        told = site.told("queue", "status")
        assert told["counts"] == {"queued": 1, "running": 0, "succeeded": 0, "failed": 1, "cancelled": 0}
        shown = site.types("queue", "status")
        for words in ("queued     1", "oldest available", "max_pending", "15 minutes", "worker-1"):
            assert words in shown

    @pytest.mark.parametrize("options", [(), ("--json",)])
    def test_watching_goes_on_until_it_is_interrupted(self, options: tuple[str, ...], site: Site) -> None:
        """Where lines are kept it writes one a look, and Ctrl-C ends it in order."""
        site.enqueue()
        command = ("queue", "status", "--watch", "--interval", "0.1", *options)
        with fencepost(*command, settings=site.settings, directory=site.folder) as watching:
            eventually(lambda: len(watching.output) >= 2)
            watching.signal(signal.SIGINT)
            assert watching.ended() == EXIT_INTERRUPTED
        assert all("queued" in line for line in watching.output)
        assert not any("Traceback" in line for line in watching.lines)
