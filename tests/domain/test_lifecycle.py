"""The protocol, row by row: what each row does, what refuses it, and that nothing else moves a job."""

from datetime import timedelta
from typing import ClassVar

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import asdict, replace
from rich.pretty import pretty_repr

from domain.errors import GuardRefused, NoSuchTransition, NotHolding, ProtocolRefusal
from domain.events import Claim, Complete, Event, Expire, Fail, Held, Release
from domain.export import ErrorCode, ExportJob, Failure, FailureKind, JobStatus
from domain.instants import EARLIEST, LATEST, Instant
from domain.lifecycle import (
    PROTOCOL,
    Transition,
    advance,
    enqueue,
    holds,
    lease_is_live,
    require_holding,
    used_attempts,
    words,
)
from domain.use_cases.work import holder_of
from tests.domain.witnesses import (
    CANCEL,
    CLAIM,
    COMPLETE,
    DEADLINE,
    ENQUEUE,
    EVENTS,
    EXPIRE,
    FAIL,
    FAIL_ENVIRONMENT,
    FALSIFIED,
    JOBS,
    LEASE,
    LONGEST,
    LOST,
    NOW,
    OTHER_TOKEN,
    QUEUED,
    RELEASE,
    REMOVE_RESULT,
    REQUEUE,
    RETRY_AT,
    ROWS,
    RUNNING,
    SUCCEEDED,
    TOKEN,
    WHOLE,
    WITNESSES,
    Falsified,
    Refused,
    Witness,
    row_name,
    seconds_after,
)

HELD = (COMPLETE, FAIL, RELEASE)


def kinds_of_event(base: type[Event] = Event) -> set[type[Event]]:
    """Return every kind of event that can happen: the leaves of the class tree that the domain defines."""
    return {
        leaf
        for kind in base.__subclasses__()
        if kind.__module__ == Event.__module__
        for leaf in (kinds_of_event(kind) or {kind})
    }


def conditions_that_hold(row: str, job: ExportJob, event: Event) -> dict[str, bool]:
    """Return what each condition of the row says."""
    return {condition.__name__: condition(job, event) for condition in ROWS[row].when}


def row_that_applies(job: ExportJob, event: Event) -> str | None:
    """Return the row that a reader of the table would take: the first whose conditions all hold."""
    return next(
        (
            row_name(rule)
            for rule in PROTOCOL
            if isinstance(event, rule.event)
            and rule.source is job.status
            and all(condition(job, event) for condition in rule.when)
        ),
        None,
    )


def outcome_of(job: ExportJob, event: Event) -> Transition | ProtocolRefusal:
    """Return the step or the refusal that the event leads to."""
    try:
        return advance(job, event)
    except ProtocolRefusal as refusal:
        return refusal


def refusal_of(job: ExportJob, event: Event) -> ProtocolRefusal:
    """Return the refusal that the event meets; a step instead is a failure."""
    outcome = outcome_of(job, event)
    assert isinstance(outcome, ProtocolRefusal)
    return outcome


# ── Rows ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_row_has_a_name_of_its_own_and_a_witness() -> None:
    """No two rows say the same, and each is shown at work below."""
    assert len(ROWS) == len(PROTOCOL)
    assert {witness.row for witness in WITNESSES} == set(ROWS)


def test_there_is_one_example_of_every_kind_of_event() -> None:
    """The examples leave no event of the protocol out."""
    assert {type(event) for event in EVENTS} == kinds_of_event()
    assert len(EVENTS) == len(kinds_of_event())


@pytest.mark.parametrize("witness", WITNESSES, ids=lambda witness: witness.row)
def test_a_row_changes_what_it_says_and_nothing_else(witness: Witness) -> None:
    """Each witness takes exactly its row, and every member of the job that the row does not name stays as it was."""
    step = advance(witness.job, witness.event)
    assert row_that_applies(witness.job, witness.event) == witness.row
    assert step.before is witness.job
    assert asdict(step.after) == {**asdict(witness.job), **witness.changes, "version": witness.job.version + 1}


@pytest.mark.parametrize("witness", WITNESSES, ids=lambda witness: witness.row)
def test_every_step_writes_one_line_of_history_about_itself(witness: Witness) -> None:
    """The line of history repeats the event, the instant, and what the job has become."""
    step = advance(witness.job, witness.event)
    entry = step.entry
    assert (entry.job_id, entry.version, entry.event) == (witness.job.id, step.after.version, witness.event.name)
    assert (entry.status, entry.attempt, entry.at) == (step.after.status, step.after.attempt_count, witness.event.now)
    assert entry.worker_id == (step.after.worker_id or witness.job.worker_id)
    assert step.after.last_error_code is None or entry.code == step.after.last_error_code


@pytest.mark.parametrize("status", JobStatus)
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_an_event_without_a_row_is_refused(status: JobStatus, event: Event) -> None:
    """Wherever the table has no row for the event and the status, the refusal says so and the job is unchanged."""
    job, same = JOBS[status], replace(JOBS[status])
    outcome = outcome_of(job, event)
    has_row = any(isinstance(event, rule.event) and rule.source is status for rule in PROTOCOL)
    assert (type(outcome) is NoSuchTransition) is not has_row
    if isinstance(outcome, NoSuchTransition):
        assert (outcome.job_id, outcome.event, outcome.status) == (job.id, event.name, status.value)
        assert job == same


def test_no_event_outside_the_table_moves_a_job() -> None:
    """The machine has no door beside the table: not the automatic ones of its library, not the bare kinds of events."""

    class Sneak(Event, frozen=True, kw_only=True):
        """An event named as the library names its own short cuts."""

        name: ClassVar[str] = "to_failed"

    assert type(refusal_of(RUNNING, Sneak(now=NOW))) is NoSuchTransition
    held = Held(now=NOW, lease_token=TOKEN, longest_lease=LONGEST)
    assert type(refusal_of(RUNNING, held)) is NoSuchTransition


# ── Conditions ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_condition_of_every_row_is_falsified() -> None:
    """The examples below leave no condition out."""
    stated = {(row, condition.__name__) for row, rule in ROWS.items() for condition in rule.when}
    assert {(example.row, example.condition) for example in FALSIFIED} == stated


@pytest.mark.parametrize(
    "example",
    FALSIFIED,
    ids=[f"{number}: {example.condition}, {example.row}" for number, example in enumerate(FALSIFIED)],
)
def test_a_condition_that_fails_alone_closes_its_row(example: Falsified) -> None:
    """Without that one condition the row is not taken: another row is, or a refusal names the condition."""
    job, same = example.job, replace(example.job)
    said = conditions_that_hold(example.row, job, example.event)
    assert [name for name, held in said.items() if not held] == [example.condition]
    if isinstance(example.follows, Refused):
        refusal = refusal_of(job, example.event)
        assert type(refusal) is example.follows.kind
        assert refusal.rule == f"not: {example.follows.condition.replace('_', ' ')}"
        assert refusal.rule in str(refusal)
        assert job == same
    else:
        assert row_that_applies(job, example.event) == example.follows
        step, rule = advance(job, example.event), ROWS[example.follows]
        assert step.after == replace(rule.then(job, example.event), status=rule.target, version=job.version + 1)


def test_a_refused_claim_names_the_condition_of_the_row_that_came_nearest() -> None:
    """With a dead lease and no budget the worker hears of the budget, not of a lease."""
    assert refusal_of(replace(LOST, attempt_count=4), CLAIM).rule == "not: has budget"


def test_conditions_are_named_in_words() -> None:
    """What a refusal names is the condition's own name, readable."""
    assert words(holds) == "not: holds"


instants = st.integers(EARLIEST, LATEST).map(Instant)
moments = st.integers(NOW - 5, NOW + 5).map(Instant)
tokens = st.sampled_from([TOKEN, OTHER_TOKEN])
spans = st.integers(1, 8).map(lambda count: timedelta(milliseconds=count))
failures = st.builds(
    Failure,
    kind=st.sampled_from(FailureKind),
    code=st.sampled_from([None, *ErrorCode]),
    error_class=st.just("KeyError"),
)


@st.composite
def jobs(draw: st.DrawFn) -> ExportJob:
    """Draw a job of any status whose instants lie so close together that every condition goes either way."""
    status = draw(st.sampled_from(JobStatus))
    runs = status is JobStatus.RUNNING
    attempt_count = draw(st.integers(1 if runs else 0, 5))
    return replace(
        JOBS[status],
        attempt_count=attempt_count,
        excused_count=draw(st.integers(0, attempt_count)),
        max_attempts=draw(st.integers(1, 5)),
        available_at=draw(moments),
        deadline_at=draw(moments),
        lease_token=draw(tokens) if runs else None,
        lease_until=draw(moments) if runs else None,
    )


held_events = st.one_of(
    st.builds(
        Complete,
        now=moments,
        lease_token=tokens,
        longest_lease=spans,
        expected=st.just(WHOLE),
        found=st.sampled_from([WHOLE, replace(WHOLE, row_count=8), None]),
    ),
    st.builds(
        Fail,
        now=moments,
        lease_token=tokens,
        longest_lease=spans,
        failure=failures,
        retry_at=moments,
        retry_ends_at=moments,
    ),
    st.builds(Release, now=moments, lease_token=tokens, longest_lease=spans),
)
events = st.one_of(
    held_events,
    st.builds(Claim, now=moments, worker_id=st.just("worker-3"), lease_token=tokens, lease=spans, longest_lease=spans),
    st.builds(Expire, now=moments, longest_lease=spans),
    st.sampled_from([CANCEL, REMOVE_RESULT]),
    st.builds(replace, st.just(REQUEUE), now=moments, deadline_at=moments, attempts=st.integers(-1, 2)),
)


@given(jobs(), events)
def test_the_machine_takes_the_row_that_a_reader_of_the_table_would(job: ExportJob, event: Event) -> None:
    """For any job and event, the step is the first row's whose conditions all hold; without one it is refused."""
    same, row = replace(job), row_that_applies(job, event)
    if row is None:
        refusal = refusal_of(job, event)
        has_row = any(isinstance(event, rule.event) and rule.source is job.status for rule in PROTOCOL)
        assert isinstance(refusal, NoSuchTransition) is not has_row
    else:
        after = advance(job, event).after
        assert after == replace(ROWS[row].then(job, event), status=ROWS[row].target, version=job.version + 1)
        assert after.attempt_count == job.attempt_count + isinstance(event, Claim)
        assert after.excused_count >= job.excused_count
    assert job == same


@given(jobs(), held_events)
def test_only_the_holder_writes(job: ExportJob, event: Held) -> None:
    """A write of an attempt goes through only with the token of the running claim and inside its lease."""
    may = (
        job.status is JobStatus.RUNNING
        and event.lease_token == job.lease_token
        and job.lease_until is not None
        and event.now < job.lease_until
        and job.lease_until - event.now <= event.longest_lease // timedelta(milliseconds=1)
    )
    outcome = outcome_of(job, event)
    if isinstance(outcome, GuardRefused):
        assert outcome.rule == "not: staged is complete"
    assert isinstance(outcome, Transition | GuardRefused) is may
    assert isinstance(outcome, NotHolding | NoSuchTransition) is not may


# ── Enqueue ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_enqueue_makes_a_queued_job_that_can_be_claimed_at_once() -> None:
    """A new job is at version 1, has used no attempt and holds everything that the request stated."""
    step = enqueue(ENQUEUE)
    job = step.after
    assert step.before is None
    assert (job.status, job.version, job.attempt_count, job.excused_count) == (JobStatus.QUEUED, 1, 0, 0)
    assert (job.created_at, job.available_at, job.deadline_at, job.max_attempts) == (NOW, NOW, DEADLINE, 3)
    assert (job.lease_token, job.lease_until, job.worker_id, job.started_at, job.finished_at) == (None,) * 5
    stated = asdict(ENQUEUE)
    assert job.id == stated.pop("job_id")
    assert stated.pop("now") == NOW
    assert {name: getattr(job, name) for name in stated} == stated
    assert (step.entry.event, step.entry.version, step.entry.status) == ("enqueue", 1, JobStatus.QUEUED)
    assert advance(job, CLAIM).after.attempt_count == 1


# ── Leases ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(
    now=instants,
    lease=st.integers(1, 10**9),
    margin=st.integers(0, 10**9),
    until_deadline=st.integers(1, 10**10),
)
def test_a_lease_ends_at_its_length_or_at_the_deadline(
    now: Instant, lease: int, margin: int, until_deadline: int
) -> None:
    """The lease runs for its length and never past the deadline, and its holder holds from the first instant on."""
    job = replace(QUEUED, available_at=now, deadline_at=Instant(now + until_deadline))
    longest = timedelta(milliseconds=lease + margin)
    claim = replace(CLAIM, now=now, lease=timedelta(milliseconds=lease), longest_lease=longest)
    after = advance(job, claim).after
    assert after.lease_until == min(now + lease, now + until_deadline, LATEST)
    held = Held(now=now, lease_token=OTHER_TOKEN, longest_lease=longest)
    assert holds(after, held) is (now < LATEST)


def test_a_lease_is_live_up_to_its_end_and_not_at_it() -> None:
    """The end of a lease is the first instant that no longer belongs to it."""
    assert lease_is_live(RUNNING, Instant(seconds_after(30) - 1), LONGEST)
    assert not lease_is_live(RUNNING, seconds_after(30), LONGEST)


def test_a_lease_from_the_future_is_dead() -> None:
    """After the clock jumped back, a lease that seems to run longer than any may is dead: the job can be claimed."""
    at_most = replace(RUNNING, lease_until=seconds_after(LONGEST.total_seconds()))
    beyond = replace(RUNNING, lease_until=seconds_after(LONGEST.total_seconds() + 0.001))
    assert refusal_of(at_most, CLAIM).rule == "not: lease is dead"
    assert type(refusal_of(beyond, COMPLETE)) is NotHolding
    assert advance(beyond, CLAIM).after.lease_until == seconds_after(LEASE.total_seconds())


@pytest.mark.parametrize("event", HELD, ids=lambda event: event.name)
def test_a_stale_token_is_refused_once_the_job_was_claimed_again(event: Complete | Fail | Release) -> None:
    """The old holder can write nothing although the new lease is live, and the new holder can."""
    claimed = advance(LOST, CLAIM).after
    assert type(refusal_of(claimed, event)) is NotHolding
    advance(claimed, replace(event, lease_token=OTHER_TOKEN))


@pytest.mark.parametrize("event", HELD, ids=lambda event: event.name)
def test_a_cancelled_attempt_can_write_nothing(event: Complete | Fail | Release) -> None:
    """Cancelling takes the token away from the running attempt in the same step."""
    cancelled = advance(RUNNING, CANCEL).after
    assert type(refusal_of(cancelled, event)) is NoSuchTransition
    with pytest.raises(NotHolding):
        require_holding(cancelled, event)


@pytest.mark.parametrize("status", JobStatus)
def test_only_a_running_job_can_be_held(status: JobStatus) -> None:
    """Staging asks the same fence: the holder of a running job passes, and nobody passes for any other status."""
    held = Held(now=NOW, lease_token=TOKEN, longest_lease=LONGEST)
    if status is JobStatus.RUNNING:
        require_holding(JOBS[status], held)
        held = replace(held, lease_token=OTHER_TOKEN)
    with pytest.raises(NotHolding) as caught:
        require_holding(JOBS[status], held)
    assert caught.value.status == status.value


# ── Budget ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_that_kills_its_workers_ends_after_its_attempts() -> None:
    """Claims alone use the budget up: after the last one was lost, the job can only expire as exhausted."""
    job = enqueue(replace(ENQUEUE, max_attempts=3)).after
    for attempt in range(1, 4):
        job = advance(job, replace(CLAIM, now=seconds_after(attempt * 60))).after
        assert job.attempt_count == attempt
    later = seconds_after(240)
    assert refusal_of(job, replace(CLAIM, now=later)).rule == "not: has budget"
    ended = advance(job, replace(EXPIRE, now=later)).after
    assert (ended.status, ended.last_error_code) == (JobStatus.FAILED, ErrorCode.ATTEMPTS_EXHAUSTED)


def test_excused_attempts_do_not_use_the_budget() -> None:
    """A job can be released or meet a broken environment far more often than it may fail."""
    job = enqueue(replace(ENQUEUE, max_attempts=1)).after
    for _ in range(20):
        job = advance(advance(job, CLAIM).after, replace(RELEASE, lease_token=OTHER_TOKEN)).after
        claimed = advance(job, CLAIM).after
        job = advance(claimed, replace(FAIL_ENVIRONMENT, lease_token=OTHER_TOKEN, retry_at=NOW)).after
    assert (job.attempt_count, job.excused_count, used_attempts(job)) == (40, 40, 0)


def test_requeue_grants_attempts_on_top_of_those_used() -> None:
    """After a requeue exactly the granted number of attempts can be claimed, and the count goes on."""
    job = advance(JOBS[JobStatus.FAILED], REQUEUE).after
    for attempt in range(5, 7):
        job = advance(job, replace(CLAIM, now=seconds_after((attempt - 5) * 60))).after
        assert job.attempt_count == attempt
    assert refusal_of(job, replace(CLAIM, now=seconds_after(180))).rule == "not: has budget"


def test_a_requeue_may_grant_a_single_attempt() -> None:
    """One more try is enough of a policy, and is exactly what is granted."""
    job = advance(JOBS[JobStatus.FAILED], replace(REQUEUE, attempts=1)).after
    assert job.max_attempts - used_attempts(job) == 1


# ── History ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_retried_failure_leaves_its_code_in_the_history_only() -> None:
    """While the job is tried again it shows no error, and its history does, with the kind of the failure."""
    step = advance(RUNNING, FAIL)
    assert step.after.last_error_code is None
    assert (step.entry.code, step.entry.detail) == (ErrorCode.INTERNAL_ERROR, "transient")
    assert step.entry.worker_id == "worker-1"


def test_a_failure_that_came_too_late_keeps_its_cause_in_the_detail() -> None:
    """The code says that the deadline ended the job, the detail what its last attempt met."""
    entry = advance(RUNNING, replace(FAIL_ENVIRONMENT, retry_ends_at=DEADLINE)).entry
    assert (entry.code, entry.detail) == (ErrorCode.DEADLINE_EXCEEDED, "environment")
    assert entry.error_class == "StoreBusy"


def test_a_failure_leaves_its_evidence_in_the_history_and_nowhere_else() -> None:
    """Class, fingerprint and sentence of what went wrong stand in the line of its attempt; the job holds none of it."""
    failure = Failure(FailureKind.ENVIRONMENT, None, "StoreFull", "0123456789ab", "the disk is full")
    step = advance(RUNNING, replace(FAIL, failure=failure))
    assert (step.entry.error_class, step.entry.fingerprint) == ("StoreFull", "0123456789ab")
    assert step.entry.detail == "environment: the disk is full"
    assert "disk" not in str(asdict(step.after))


@pytest.mark.parametrize("event", [CLAIM, RELEASE, CANCEL, COMPLETE])
def test_only_a_failure_has_evidence(event: Event) -> None:
    """No other line of the history names an exception."""
    job = JOBS[JobStatus.QUEUED] if event is CLAIM else RUNNING
    entry = advance(job, event).entry
    assert (entry.error_class, entry.fingerprint) == (None, None)


def test_a_permanent_failure_without_a_code_ends_as_an_internal_error() -> None:
    """A dead letter always has a code."""
    fail = replace(FAIL, failure=Failure(FailureKind.PERMANENT, None, "Unheard"))
    assert advance(RUNNING, fail).after.last_error_code is ErrorCode.INTERNAL_ERROR


def test_a_second_claim_records_the_lost_attempt() -> None:
    """The history names the attempt that was lost and its worker; a first claim names none."""
    assert advance(LOST, CLAIM).entry.detail == "attempt 2 of worker worker-1 was lost"
    assert advance(QUEUED, CLAIM).entry.detail is None


def test_acts_of_people_are_recorded_with_their_reason() -> None:
    """Who cancelled, removed or requeued, and why, stands in the history."""
    cancelled = advance(RUNNING, CANCEL).entry
    removed = advance(SUCCEEDED, REMOVE_RESULT).entry
    requeued = advance(JOBS[JobStatus.FAILED], REQUEUE).entry
    assert (cancelled.actor, cancelled.reason, cancelled.worker_id) == ("owner", "not needed", "worker-1")
    assert (removed.actor, removed.reason) == ("owner", "deleted")
    assert (requeued.actor, requeued.reason) == ("operator", "disk replaced")


def test_a_job_starts_once() -> None:
    """`started_at` is the first claim's instant, whatever comes after it."""
    first = advance(QUEUED, CLAIM).after
    released = advance(first, replace(RELEASE, lease_token=OTHER_TOKEN)).after
    again = advance(released, replace(CLAIM, now=RETRY_AT)).after
    assert (first.started_at, again.started_at) == (NOW, NOW)


# ── The secret ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_lease_token_is_printed_nowhere() -> None:
    """No text of a job, step, line of history, event, holder or refusal holds a token, pretty printers' included."""
    steps = [advance(witness.job, witness.event) for witness in WITNESSES]
    refusals = [refusal_of(example.job, example.event) for example in FALSIFIED if isinstance(example.follows, Refused)]
    said: list[object] = [
        *(value for step in steps for value in (step, step.before, step.after, step.entry, step.entry.detail)),
        *(witness.event for witness in WITNESSES),
        *(value for refusal in refusals for value in (refusal, vars(refusal), refusal.args)),
        holder_of(RUNNING),
    ]
    for value in said:
        for text in (str(value), repr(value), f"{value}", pretty_repr(value)):
            assert "lease-token" not in text


def test_a_holder_is_the_attempt_of_the_claim() -> None:
    """Only a job under a lease has a holder; it names the attempt and presents the claim's token."""
    holder = holder_of(RUNNING)
    assert (holder.job_id, holder.attempt, holder.lease_token) == (RUNNING.id, 2, TOKEN)
    with pytest.raises(NotHolding):
        holder_of(QUEUED)


def test_printing_still_tells_jobs_apart() -> None:
    """What is shown of a job is enough to find it."""
    assert repr(RUNNING) == (
        f"ExportJob(id={RUNNING.id!r}, status=<JobStatus.RUNNING: 'running'>, version=4, attempt_count=2)"
    )
    assert repr(CLAIM) == f"Claim(now={NOW})"
