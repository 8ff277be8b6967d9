"""THE PROTOCOL: every way in which an export changes its status.

Rule 1: everything that changes a status stands in this file, in the table `PROTOCOL`. Read it top to bottom: the first
row for the event and the current status whose conditions all hold is taken.
Rule 2: this file does not know clocks, workers or storage. Instants, tokens and lengths arrive in the events
(`domain.events`).

A claim grants a *lease*: a token that no one can guess, valid until `lease_until` in database time. Every later write
of that attempt presents the token, and *holds* only while the lease is live. Whoever does not hold can write nothing:
that is the fence. `attempt_count` goes up by one with each claim, so a reader of the history can tell the attempts
apart, and a job that kills its worker still uses up its budget. An attempt that ended for a reason outside the job is
*excused*: it does not count against the budget.

The lease decides only when another worker may try. Safety rests on the token, since a clock may jump: a lease that
seems to end later than any lease could (`now + longest_lease`) is dead too, or a clock that went back would freeze it.

There is no renewal. A lease is longer than any legitimate attempt: the row and byte limits bound what one has to do.

The table is executed by `transitions`; `advance` is its only door.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from transitions import Machine, MachineError

from domain.errors import GuardRefused, NoSuchTransition, NotHolding
from domain.events import Cancel, Claim, Complete, Enqueue, Event, Expire, Fail, Held, Release, RemoveResult, Requeue
from domain.export import (
    ErrorCode,
    ExportJob,
    FailureKind,
    HistoryEntry,
    JobStatus,
)
from domain.instants import Instant, later

# ── Conditions: read after "only if" ──────────────────────────────────────────────────────────────────────────────────


def lease_is_live(job: ExportJob, now: Instant, longest_lease: timedelta) -> bool:
    """Tell whether a lease is in force: not over, and not longer than any lease may be."""
    return job.lease_until is not None and now < job.lease_until <= later(now, longest_lease)


def used_attempts(job: ExportJob) -> int:
    """Return how much of the budget is used: attempts that were not excused."""
    return job.attempt_count - job.excused_count


def holds(job: ExportJob, event: Held) -> bool:
    """Presents the current lease token while the lease is live."""
    return event.lease_token == job.lease_token and lease_is_live(job, event.now, event.longest_lease)


def is_available(job: ExportJob, event: Claim) -> bool:
    """Its backoff is over."""
    return job.available_at <= event.now


def lease_is_dead(job: ExportJob, event: Claim | Expire) -> bool:
    """Its lease is not live."""
    return not lease_is_live(job, event.now, event.longest_lease)


def before_deadline(job: ExportJob, event: Event) -> bool:
    """The deadline has not passed."""
    return event.now < job.deadline_at


def deadline_has_passed(job: ExportJob, event: Event) -> bool:
    """The deadline has passed."""
    return not before_deadline(job, event)


def has_budget(job: ExportJob, event: Event) -> bool:
    """Attempts are left."""
    return used_attempts(job) < job.max_attempts


def budget_is_spent(job: ExportJob, event: Event) -> bool:
    """No attempts are left."""
    return not has_budget(job, event)


def retry_fits(job: ExportJob, event: Fail) -> bool:
    """The next try could be done before the deadline."""
    return event.retry_ends_at < job.deadline_at


def is_transient(job: ExportJob, event: Fail) -> bool:
    """The failure may pass and uses the budget."""
    return event.failure.kind is FailureKind.TRANSIENT


def is_environment(job: ExportJob, event: Fail) -> bool:
    """The failure lies outside the job."""
    return event.failure.kind is FailureKind.ENVIRONMENT


def is_permanent(job: ExportJob, event: Fail) -> bool:
    """No retry mends the failure."""
    return event.failure.kind is FailureKind.PERMANENT


def staged_is_complete(job: ExportJob, event: Complete) -> bool:
    """The store holds every chunk that the worker staged, without a gap."""
    return event.found == event.expected


def new_deadline_is_ahead(job: ExportJob, event: Requeue) -> bool:
    """The new deadline has not passed."""
    return event.now < event.deadline_at


def grants_attempts(job: ExportJob, event: Requeue) -> bool:
    """The new attempt policy grants at least one attempt."""
    return event.attempts >= 1


# ── Effects: one `replace` each; the status itself is set by `advance` ────────────────────────────────────────────────


def create(event: Enqueue) -> ExportJob:
    """Make the durable job, available at once."""
    return ExportJob(
        id=event.job_id,
        owner_id=event.owner_id,
        request_key=event.request_key,
        parameters_json=event.parameters_json,
        parameters_digest=event.parameters_digest,
        status=JobStatus.QUEUED,
        version=0,
        created_at=event.now,
        available_at=event.now,
        deadline_at=event.deadline_at,
        max_attempts=event.max_attempts,
        request_id=event.request_id,
        traceparent=event.traceparent,
    )


def grant_lease(job: ExportJob, event: Claim) -> ExportJob:
    """Count the attempt and hand out a fresh token; whoever held the job before is stale from here on."""
    return replace(
        job,
        attempt_count=job.attempt_count + 1,
        lease_token=event.lease_token,
        lease_until=min(later(event.now, event.lease), job.deadline_at),
        worker_id=event.worker_id,
        started_at=job.started_at if job.started_at is not None else event.now,
    )


def publish(job: ExportJob, event: Complete) -> ExportJob:
    """End well; the result row is written in the same transaction."""
    return replace(_without_lease(job), finished_at=event.now, last_error_code=None)


def back_off(job: ExportJob, event: Fail) -> ExportJob:
    """Wait until the next try."""
    return replace(_without_lease(job), available_at=event.retry_at)


def back_off_excused(job: ExportJob, event: Fail) -> ExportJob:
    """Wait until the next try, and give the attempt back."""
    return replace(back_off(job, event), excused_count=job.excused_count + 1)


def hand_back(job: ExportJob, event: Release) -> ExportJob:
    """Be available at once, and give the attempt back."""
    return replace(_without_lease(job), available_at=event.now, excused_count=job.excused_count + 1)


def bury(job: ExportJob, event: Fail) -> ExportJob:
    """End with the failure's own code: the row is the dead letter."""
    return _ended(job, event, event.failure.code or ErrorCode.INTERNAL_ERROR)


def bury_late(job: ExportJob, event: Event) -> ExportJob:
    """End because no try fits before the deadline."""
    return _ended(job, event, ErrorCode.DEADLINE_EXCEEDED)


def bury_exhausted(job: ExportJob, event: Event) -> ExportJob:
    """End because every attempt was used: lost workers among them."""
    return _ended(job, event, ErrorCode.ATTEMPTS_EXHAUSTED)


def revoke(job: ExportJob, event: Cancel) -> ExportJob:
    """End at once; a running holder is fenced off because its token is gone."""
    return _ended(job, event, ErrorCode.CANCELLED)


def keep(job: ExportJob, event: RemoveResult) -> ExportJob:
    """Stay as it is: only the version goes up, since what its owner sees of it changes."""
    return job


def start_over(job: ExportJob, event: Requeue) -> ExportJob:
    """Grant a new budget on top of what was used; the history, and the fencing number, go on."""
    return replace(
        job,
        available_at=event.now,
        deadline_at=event.deadline_at,
        max_attempts=used_attempts(job) + event.attempts,
        finished_at=None,
        last_error_code=None,
    )


def _without_lease(job: ExportJob) -> ExportJob:
    return replace(job, lease_token=None, lease_until=None, worker_id=None)


def _ended(job: ExportJob, event: Event, code: ErrorCode) -> ExportJob:
    return replace(_without_lease(job), finished_at=event.now, last_error_code=code)


# ── The table ─────────────────────────────────────────────────────────────────────────────────────────────────────────

E = TypeVar("E", bound=Event)


class Rule(Struct, Generic[E], frozen=True):
    """One row: by `event`, from `source` to `target`, only if all of `when` hold, then `then`.

    Conditions and effect must accept this very event: the type checker refuses a row that mixes them.
    """

    event: type[E]
    source: JobStatus
    target: JobStatus
    when: tuple[Callable[[ExportJob, E], bool], ...]
    then: Callable[[ExportJob, E], ExportJob]


QUEUED, RUNNING, SUCCEEDED = JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.SUCCEEDED
FAILED, CANCELLED = JobStatus.FAILED, JobStatus.CANCELLED

# Enqueue is the one event without a source: it makes the job (`enqueue`, below).
PROTOCOL: Final[tuple[Rule[Any], ...]] = (
    #    event     from       to         only if                                       effect
    Rule(Claim,    QUEUED,    RUNNING,   (is_available, before_deadline, has_budget),  grant_lease),
    Rule(Claim,    RUNNING,   RUNNING,   (lease_is_dead, before_deadline, has_budget), grant_lease),
    Rule(Complete, RUNNING,   SUCCEEDED, (holds, staged_is_complete),                  publish),
    Rule(Fail,     RUNNING,   QUEUED,    (holds, is_transient, has_budget, retry_fits), back_off),
    Rule(Fail,     RUNNING,   QUEUED,    (holds, is_environment, retry_fits),          back_off_excused),
    Rule(Fail,     RUNNING,   FAILED,    (holds, is_permanent),                        bury),
    Rule(Fail,     RUNNING,   FAILED,    (holds, is_transient, budget_is_spent),       bury),
    Rule(Fail,     RUNNING,   FAILED,    (holds,),                                     bury_late),
    Rule(Release,  RUNNING,   QUEUED,    (holds,),                                     hand_back),
    Rule(Expire,   QUEUED,    FAILED,    (deadline_has_passed,),                       bury_late),
    Rule(Expire,   QUEUED,    FAILED,    (budget_is_spent,),                           bury_exhausted),
    Rule(Expire,   RUNNING,   FAILED,    (lease_is_dead, deadline_has_passed),         bury_late),
    Rule(Expire,   RUNNING,   FAILED,    (lease_is_dead, budget_is_spent),             bury_exhausted),
    Rule(Cancel,   QUEUED,    CANCELLED, (),                                           revoke),
    Rule(Cancel,   RUNNING,   CANCELLED, (),                                           revoke),
    Rule(RemoveResult, SUCCEEDED, SUCCEEDED, (),                                       keep),
    Rule(Requeue,  FAILED,    QUEUED,    (new_deadline_is_ahead, grants_attempts),     start_over),
)  # fmt: skip


# ── The door ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Transition(Struct, frozen=True):
    """One step that the protocol allows: what to compare with, what to store, and the line of history it makes.

    Only this module makes one, and a job is stored only through one: a blind write cannot be expressed.
    """

    before: ExportJob | None
    after: ExportJob
    entry: HistoryEntry


def enqueue(event: Enqueue) -> Transition:
    """Return the step that makes a job."""
    return _transition(None, replace(create(event), version=1), event)


def advance(job: ExportJob, event: Event) -> Transition:
    """Return the step that the protocol takes from here. Pure: the job itself never changes.

    Raises:
        NoSuchTransition: no row leads from the job's status by this event.
        NotHolding: the presenter does not hold the job (any more).
        GuardRefused: a row exists, and the condition that is named does not hold.
    """
    step = _Step(job, event)
    moves = _MACHINE.events.get(event.name)
    if moves is None:
        raise _no_row(job, event)
    try:
        taken = moves.trigger(step, step)
    except MachineError as error:
        raise _no_row(job, event) from error
    if not taken or step.after is None:
        condition = step.refusing_condition()
        refusal = NotHolding if condition is holds else GuardRefused
        raise refusal(job_id=job.id, event=event.name, status=job.status.value, rule=words(condition))
    after = replace(step.after, status=JobStatus(step.state), version=job.version + 1)
    return _transition(job, after, event)


def _no_row(job: ExportJob, event: Event) -> NoSuchTransition:
    return NoSuchTransition(job_id=job.id, event=event.name, status=job.status.value, rule="no rule leads there")


def require_holding(job: ExportJob, event: Held) -> None:
    """Check the fence for a write that changes no status, such as staging a chunk.

    Raises:
        NotHolding: the presenter does not hold the job (any more).
    """
    if not holds(job, event):
        raise NotHolding(job_id=job.id, event=event.name, status=job.status.value, rule=words(holds))


def words(condition: Callable[..., bool]) -> str:
    """Return a condition in the words of its refusal: `is_available` reads "not: is available"."""
    return f"not: {condition.__name__.replace('_', ' ')}"


def _transition(before: ExportJob | None, after: ExportJob, event: Event) -> Transition:
    worker = after.worker_id or (before.worker_id if before else None)
    entry = HistoryEntry(
        job_id=after.id,
        version=after.version,
        event=event.name,
        status=after.status,
        attempt=after.attempt_count,
        at=event.now,
        worker_id=worker,
        code=after.last_error_code,
    )
    match event:
        case Fail(failure=failure):
            entry = replace(
                entry,
                code=after.last_error_code or failure.code,
                detail=failure.kind.value if failure.message is None else f"{failure.kind.value}: {failure.message}",
                error_class=failure.error_class,
                fingerprint=failure.fingerprint,
            )
        case Claim() if before is not None and before.status is RUNNING:
            entry = replace(entry, detail=f"attempt {before.attempt_count} of worker {before.worker_id} was lost")
        case Cancel(actor=actor, reason=reason):
            entry = replace(entry, actor=actor, reason=reason)
        case RemoveResult(actor=actor, reason=reason) | Requeue(actor=actor, reason=reason):
            entry = replace(entry, actor=actor, reason=reason)
    return Transition(before, after, entry)


class _Step:
    """The only mutable thing: the model that `transitions` moves, made for one call of `advance` and thrown away."""

    __slots__ = ("after", "event", "job", "refused", "state")

    def __init__(self, job: ExportJob, event: Event) -> None:
        self.state: str = job.status.value
        self.job = job
        self.event = event
        self.after: ExportJob | None = None
        self.refused: list[tuple[int, Callable[..., bool]]] = []

    def refusing_condition(self) -> Callable[..., bool]:
        """Return the condition that failed in the row that came nearest: with the most conditions held before it."""
        return max(self.refused, key=lambda found: found[0])[1]


def _allows(rule: Rule[Any], step: _Step) -> bool:
    for held, condition in enumerate(rule.when):
        if not condition(step.job, step.event):
            step.refused.append((held, condition))
            return False
    return True


def _apply(rule: Rule[Any], step: _Step) -> None:
    step.after = rule.then(step.job, step.event)


def _machine() -> Machine:
    # One machine for all jobs, driven on throw-away steps: `add_model` would keep every job, and the automatic
    # transitions would be a back door around the table.
    machine = Machine(
        model=None,
        states=[status.value for status in JobStatus],
        initial=JobStatus.QUEUED.value,
        auto_transitions=False,
        queued=False,
    )
    for rule in PROTOCOL:
        machine.add_transition(
            rule.event.name,
            rule.source.value,
            rule.target.value,
            conditions=[partial(_allows, rule)],
            before=[partial(_apply, rule)],
        )
    return machine


_MACHINE: Final = _machine()
