"""Random walks of several jobs, workers and a clock that goes both ways, held against a small model of its own."""

from collections import Counter
from datetime import timedelta
from typing import Any, ClassVar

from hypothesis import seed, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec import Struct
from msgspec.structs import replace

from domain.errors import GuardRefused, NoSuchTransition, NotHolding, ProtocolRefusal
from domain.events import Cancel, Claim, Complete, Event, Expire, Fail, Held, Release, RemoveResult, Requeue
from domain.export import ErrorCode, ExportJob, Failure, FailureKind, GoneReason, JobId, LeaseToken, Staged
from domain.instants import Instant
from domain.lifecycle import Transition, advance, enqueue
from tests.domain.witnesses import ENQUEUE, NOW

# Milliseconds. So few and so alike that boundaries are met exactly.
LONGEST = 60
LEASES = (20, 60)
DELAYS = (0, 20, 1000, 100)
LENGTHS = (0, 30)
DEADLINES = (20, 200, 1000, 1000)
CLOCK_STEPS = (20, 200, 1, 60, -80, 1000, 19, -100, 100, -1)
MOST_JOBS = 4
ANY = 9

WHOLE = Staged(chunk_count=1, byte_count=10, row_count=1, payload_byte_count=9)
PART = Staged(chunk_count=1, byte_count=10, row_count=0, payload_byte_count=9)

TERMINAL = ("succeeded", "failed", "cancelled")

Refusal = type[ProtocolRefusal]

picks = st.integers(0, ANY)


class Grant(Struct, frozen=True):
    """What a claim gave to its worker: the job and the token."""

    job: str
    token: LeaseToken


class ExportLifecycle(RuleBasedStateMachine):
    """Every event at any instant; the model says beforehand whether it is refused, and what becomes of the job."""

    seen: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.real: dict[str, ExportJob] = {}
        self.model: dict[str, dict[str, Any]] = {}
        self.history: dict[str, list[Transition]] = {}
        self.grants: list[Grant] = []

    # ── Who is next ──

    def job_at(self, pick: int, *statuses: str) -> str:
        """Return a job of one of the statuses, as long as there is one and the pick is not the highest."""
        names = [name for name, job in self.model.items() if pick == ANY or job["status"] in statuses]
        names = names or list(self.model)
        return names[pick % len(names)]

    def some_job_is(self, *statuses: str) -> bool:
        """Tell whether an event that wants one of these statuses would find a job: the others are tried elsewhere."""
        return any(job["status"] in statuses for job in self.model.values())

    def grant_at(self, pick: int) -> Grant:
        """Return what one of the latest claims granted; all but one for each job are stale."""
        return self.grants[-1 - pick % len(self.grants)]

    # ── The model ──

    def is_live(self, job: dict[str, Any]) -> bool:
        """Tell whether the model's job is under a lease."""
        return job["until"] is not None and 0 < job["until"] - self.now <= LONGEST

    def has_budget(self, job: dict[str, Any]) -> bool:
        """Tell whether the model's job may be tried once more."""
        return bool(job["attempts"] - job["excused"] < job["allowed"])

    def fence(self, grant: Grant) -> Refusal | None:
        """Return how the model refuses a write under this grant, or None when it holds."""
        job = self.model[grant.job]
        if job["status"] != "running":
            return NoSuchTransition
        if job["token"] != grant.token or not self.is_live(job):
            return NotHolding
        return None

    def ended(self, status: str, code: str | None) -> dict[str, Any]:
        """Return how the model's job looks in a terminal status."""
        return {"status": status, "token": None, "until": None, "code": code, "finished": self.now}

    def take(self, name: str, event: Event, expected: Refusal | dict[str, Any]) -> bool:
        """Let the event happen, hold the outcome against the model's, and tell whether it went through."""
        job = self.real[name]
        outcome = _outcome_of(job, event)
        if isinstance(outcome, ProtocolRefusal):
            self.seen[f"refused: {event.name} {job.status.value}, {outcome.rule}"] += 1
            assert type(outcome) is expected
            return False
        assert isinstance(expected, dict), f"{event.name} went through and should meet {expected}"
        step, code = outcome, outcome.after.last_error_code
        self.seen[f"{event.name} {job.status.value} -> {step.after.status.value}, {code}"] += 1
        self.hold_against_the_rules_of_a_step(job, event, step)
        self.model[name] |= {**expected, "version": self.model[name]["version"] + 1}
        self.real[name] = step.after
        self.history[name].append(step)
        return True

    def hold_against_the_rules_of_a_step(self, job: ExportJob, event: Event, step: Transition) -> None:
        """Assert what must be so of any single step, whatever the model thinks of it."""
        after = step.after
        assert after.attempt_count == job.attempt_count + isinstance(event, Claim)
        assert after.excused_count in {job.excused_count, job.excused_count + 1}
        assert after.version == job.version + 1
        if job.status.value in TERMINAL:
            assert isinstance(event, Requeue) or after == replace(job, version=after.version)
        if isinstance(event, Claim) and job.lease_until is not None:
            assert not self.now < job.lease_until <= self.now + LONGEST
            self.seen["the lease was over" if job.lease_until <= self.now else "the lease was from the future"] += 1
        if isinstance(event, Held):
            assert event.lease_token == job.lease_token
            assert job.lease_until is not None
            assert self.now < job.lease_until <= self.now + LONGEST

    # ── Events ──

    @initialize(deadline=st.sampled_from(DEADLINES), attempts=st.integers(1, 3))
    def enqueue_the_first(self, deadline: int, attempts: int) -> None:
        """There is always a job."""
        self.enqueue(deadline, attempts)

    @precondition(lambda self: len(self.real) < MOST_JOBS)
    @rule(deadline=st.sampled_from(DEADLINES), attempts=st.integers(1, 3))
    def enqueue(self, deadline: int, attempts: int) -> None:
        """An owner asks for another export."""
        name = f"job-{len(self.real)}"
        step = enqueue(
            replace(
                ENQUEUE,
                now=self.now,
                job_id=JobId(name),
                deadline_at=Instant(self.now + deadline),
                max_attempts=attempts,
            )
        )
        self.real[name] = step.after
        self.history[name] = [step]
        self.model[name] = {
            "status": "queued",
            "attempts": 0,
            "excused": 0,
            "allowed": attempts,
            "available": self.now,
            "deadline": self.now + deadline,
            "token": None,
            "until": None,
            "code": None,
            "finished": None,
            "version": 1,
        }

    @rule(pick=picks, lease=st.sampled_from(LEASES), worker=st.sampled_from(["a", "b", "c"]))
    def claim(self, pick: int, lease: int, worker: str) -> None:
        """A worker tries to take the job."""
        name = self.job_at(pick, "queued", "running")
        job = self.model[name]
        token = LeaseToken(f"token-{len(self.grants)}")
        may = {
            "queued": job["available"] <= self.now,
            "running": not self.is_live(job),
        }.get(job["status"])
        expected: Refusal | dict[str, Any]
        if may is None:
            expected = NoSuchTransition
        elif not may or self.now >= job["deadline"] or not self.has_budget(job):
            expected = GuardRefused
        else:
            expected = {
                "status": "running",
                "attempts": job["attempts"] + 1,
                "token": token,
                "until": min(self.now + lease, job["deadline"]),
            }
        event = Claim(
            now=self.now, worker_id=worker, lease_token=token, lease=_span(lease), longest_lease=_span(LONGEST)
        )
        if self.take(name, event, expected):
            self.grants.append(Grant(name, token))

    @precondition(lambda self: self.grants)
    @rule(pick=picks, found=st.sampled_from([WHOLE, PART, None]))
    def complete(self, pick: int, found: Staged | None) -> None:
        """A worker, stale or not, says that its attempt is done."""
        grant = self.grant_at(pick)
        expected = self.fence(grant) or (self.ended("succeeded", None) if found == WHOLE else GuardRefused)
        event = Complete(
            now=self.now, lease_token=grant.token, longest_lease=_span(LONGEST), expected=WHOLE, found=found
        )
        self.take(grant.job, event, expected)

    @precondition(lambda self: self.grants)
    @rule(
        pick=picks,
        kind=st.sampled_from(FailureKind),
        delay=st.sampled_from(DELAYS),
        length=st.sampled_from(LENGTHS),
    )
    def fail(self, pick: int, kind: FailureKind, delay: int, length: int) -> None:
        """A worker, stale or not, says that its attempt failed."""
        grant = self.grant_at(pick)
        job = self.model[grant.job]
        excused = job["excused"] + (kind is FailureKind.ENVIRONMENT)
        retried = {
            "status": "queued",
            "token": None,
            "until": None,
            "available": self.now + delay,
            "excused": excused,
        }
        expected: Refusal | dict[str, Any]
        if (refusal := self.fence(grant)) is not None:
            expected = refusal
        elif kind is FailureKind.PERMANENT or (kind is FailureKind.TRANSIENT and not self.has_budget(job)):
            expected = self.ended("failed", "result_too_large")
        elif self.now + delay + length >= job["deadline"]:
            expected = self.ended("failed", "deadline_exceeded")
        else:
            expected = retried
        event = Fail(
            now=self.now,
            lease_token=grant.token,
            longest_lease=_span(LONGEST),
            failure=Failure(kind, ErrorCode.RESULT_TOO_LARGE, "ResultTooLarge"),
            retry_at=Instant(self.now + delay),
            retry_ends_at=Instant(self.now + delay + length),
        )
        self.take(grant.job, event, expected)

    @precondition(lambda self: self.grants)
    @rule(pick=picks)
    def release(self, pick: int) -> None:
        """A worker, stale or not, gives the job back."""
        grant = self.grant_at(pick)
        job = self.model[grant.job]
        given_back = {
            "status": "queued",
            "token": None,
            "until": None,
            "available": self.now,
            "excused": job["excused"] + 1,
        }
        event = Release(now=self.now, lease_token=grant.token, longest_lease=_span(LONGEST))
        self.take(grant.job, event, self.fence(grant) or given_back)

    @precondition(lambda self: self.some_job_is("running"))
    @rule(pick=picks)
    def write_with_a_made_up_token(self, pick: int) -> None:
        """Somebody who never claimed tries to give the job back."""
        name = self.job_at(pick, "running")
        runs = self.model[name]["status"] == "running"
        event = Release(now=self.now, lease_token=LeaseToken("guessed"), longest_lease=_span(LONGEST))
        self.take(name, event, NotHolding if runs else NoSuchTransition)

    @precondition(lambda self: self.some_job_is("queued", "running"))
    @rule(pick=picks)
    def expire(self, pick: int) -> None:
        """Somebody looks whether the job can still succeed."""
        name = self.job_at(pick, "queued", "running")
        job = self.model[name]
        expected: Refusal | dict[str, Any] = GuardRefused
        if job["status"] in TERMINAL:
            expected = NoSuchTransition
        elif not self.is_live(job) and self.now >= job["deadline"]:
            expected = self.ended("failed", "deadline_exceeded")
        elif not self.is_live(job) and not self.has_budget(job):
            expected = self.ended("failed", "attempts_exhausted")
        self.take(name, Expire(now=self.now, longest_lease=_span(LONGEST)), expected)

    @precondition(lambda self: self.some_job_is("queued", "running"))
    @rule(pick=picks, actor=st.sampled_from(["owner", "operator"]), is_sure=st.sampled_from([False, False, True]))
    def cancel(self, pick: int, actor: str, *, is_sure: bool) -> None:
        """Somebody does not want the file any more; seldom, or no walk would come far."""
        if not is_sure:
            return
        name = self.job_at(pick, "queued", "running")
        is_over = self.model[name]["status"] in TERMINAL
        expected: Refusal | dict[str, Any] = NoSuchTransition if is_over else self.ended("cancelled", "cancelled")
        self.take(name, Cancel(now=self.now, actor=actor), expected)

    @precondition(lambda self: self.some_job_is("succeeded"))
    @rule(pick=picks, reason=st.sampled_from(GoneReason))
    def remove_result(self, pick: int, reason: GoneReason) -> None:
        """The result expires or is deleted."""
        name = self.job_at(pick, "succeeded")
        expected: Refusal | dict[str, Any] = {} if self.model[name]["status"] == "succeeded" else NoSuchTransition
        self.take(name, RemoveResult(now=self.now, actor="owner", reason=reason), expected)

    @precondition(lambda self: self.some_job_is("failed"))
    @rule(pick=picks, attempts=st.integers(0, 2), deadline=st.sampled_from([0, *DEADLINES]))
    def requeue(self, pick: int, attempts: int, deadline: int) -> None:
        """An operator sends the job back."""
        name = self.job_at(pick, "failed")
        job = self.model[name]
        expected: Refusal | dict[str, Any]
        if job["status"] != "failed":
            expected = NoSuchTransition
        elif attempts < 1 or deadline == 0:
            expected = GuardRefused
        else:
            expected = {
                "status": "queued",
                "available": self.now,
                "deadline": self.now + deadline,
                "allowed": job["attempts"] - job["excused"] + attempts,
                "code": None,
                "finished": None,
            }
        event = Requeue(
            now=self.now,
            actor="operator",
            reason="mended",
            attempts=attempts,
            deadline_at=Instant(self.now + deadline),
        )
        self.take(name, event, expected)

    @rule(step=st.sampled_from(CLOCK_STEPS))
    def step_clock(self, step: int) -> None:
        """Time passes, or the clock is set."""
        self.now = Instant(self.now + step)

    # ── Invariants ──

    @invariant()
    def the_model_agrees(self) -> None:
        """Every job is what the model says that it is."""
        for name, job in self.real.items():
            assert self.model[name] == {
                "status": job.status.value,
                "attempts": job.attempt_count,
                "excused": job.excused_count,
                "allowed": job.max_attempts,
                "available": job.available_at,
                "deadline": job.deadline_at,
                "token": job.lease_token,
                "until": job.lease_until,
                "code": None if job.last_error_code is None else job.last_error_code.value,
                "finished": job.finished_at,
                "version": job.version,
            }

    @invariant()
    def attempts_stay_within_the_budget(self) -> None:
        """What was tried, excused attempts aside, is never more than what is allowed, and never less than nothing."""
        for job in self.real.values():
            assert 0 <= job.excused_count <= job.attempt_count
            assert job.attempt_count - job.excused_count <= job.max_attempts

    @invariant()
    def a_lease_belongs_to_a_running_job(self) -> None:
        """Token, end and worker of a lease are set exactly while the job runs."""
        for job in self.real.values():
            runs = job.status.value == "running"
            assert [job.lease_token is not None, job.lease_until is not None, job.worker_id is not None] == [runs] * 3
            assert (job.finished_at is not None) is (job.status.value in TERMINAL)
            assert (job.last_error_code is not None) is (job.status.value in {"failed", "cancelled"})

    @invariant()
    def the_history_tells_the_whole_story(self) -> None:
        """Versions leave no gap, each step begins where the last one ended, and claims number the attempts."""
        for name, steps in self.history.items():
            assert [step.entry.version for step in steps] == list(range(1, len(steps) + 1))
            assert [step.before for step in steps] == [None, *(step.after for step in steps[:-1])]
            assert steps[-1].after == self.real[name]
            claims = [step.entry.attempt for step in steps if step.entry.event == "claim"]
            assert claims == list(range(1, self.real[name].attempt_count + 1))
            assert sum(step.entry.event == "complete" for step in steps) == (self.model[name]["status"] == "succeeded")


def _outcome_of(job: ExportJob, event: Event) -> Transition | ProtocolRefusal:
    try:
        return advance(job, event)
    except ProtocolRefusal as refusal:
        return refusal


def _span(milliseconds: int) -> timedelta:
    return timedelta(milliseconds=milliseconds)


# What a walk must have met for the whole to prove anything.
RARE = {
    "the lease was over",
    "the lease was from the future",
    "claim running -> running, None",
    "complete running -> succeeded, None",
    "fail running -> queued, None",
    "fail running -> failed, result_too_large",
    "fail running -> failed, deadline_exceeded",
    "release running -> queued, None",
    "expire queued -> failed, deadline_exceeded",
    "expire running -> failed, deadline_exceeded",
    "expire running -> failed, attempts_exhausted",
    "cancel queued -> cancelled, cancelled",
    "cancel running -> cancelled, cancelled",
    "remove_result succeeded -> succeeded, None",
    "requeue failed -> queued, None",
    "refused: claim queued, not: is available",
    "refused: claim queued, not: before deadline",
    "refused: claim running, not: lease is dead",
    "refused: claim running, not: has budget",
    "refused: claim running, not: before deadline",
    "refused: complete running, not: holds",
    "refused: complete running, not: staged is complete",
    "refused: complete succeeded, no rule leads there",
    "refused: complete cancelled, no rule leads there",
    "refused: fail running, not: holds",
    "refused: release running, not: holds",
    "refused: expire running, not: lease is dead",
    "refused: requeue failed, not: grants attempts",
    "refused: requeue failed, not: new deadline is ahead",
}


def test_no_walk_of_jobs_workers_and_clocks_leaves_the_protocol() -> None:
    """Every event goes as the model foretells, every invariant holds after every step, and the rare paths were met."""
    ExportLifecycle.seen.clear()
    # A single long search dwells on what it met first; many short ones see more.
    for number in range(10):
        walks = seed(number)(type("Walks", (ExportLifecycle,), {}))
        run_state_machine_as_test(walks, settings=settings(max_examples=30, stateful_step_count=60))
    assert RARE - set(ExportLifecycle.seen) == set()
