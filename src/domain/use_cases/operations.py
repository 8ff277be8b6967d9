"""What operators do: look at any owner's exports, and act on those that need a person.

They see what happened to a job, never what is in it: a request holds no task text, and no view here has a lease token.
Each act goes through the protocol, is refused in its words, and leaves who, when and why in the history.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from re import compile as pattern
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from domain.account import OwnerId
from domain.admission import QueueLoad, admit
from domain.errors import AdmissionRefused, InputError, InvalidInput, NotFound, ProtocolRefusal
from domain.events import Cancel, Requeue
from domain.export import ExportJob, ExportResult, HistoryEntry, JobId, JobStatus, Progress
from domain.instants import Instant, later
from domain.lifecycle import Transition, advance
from domain.pages import Page, Position, page_of
from domain.policies import Policies
from domain.ports import Attempt, Happened, JobFilter, RunningJob, UnitOfWork
from domain.use_cases.admission import queue_load

OPERATOR: Final = "operator"
# Shown on terminals: a control character could move what stands around it, and a blank start tells nothing.
TEXT_PATTERN: Final = r"^[^\u0000-\u0020\u007f-\u00a0][^\u0000-\u001f\u007f-\u009f]*$"
_TEXT: Final = pattern(TEXT_PATTERN)
_LONE_SURROGATE: Final = pattern(r"[\ud800-\udfff]")
LONGEST_REASON: Final = 500
LONGEST_NAME: Final = 200
MOST_ATTEMPTS: Final = 100

# Counting ends here: more of them is the same news, and reading on would only take longer.
COUNTED_UP_TO: Final = 100_000
WINDOWS: Final = (timedelta(minutes=1), timedelta(minutes=15), timedelta(hours=1))
# Jobs under lease are as many as workers.
_MOST_RUNNING: Final = 1_000


class JobView(Struct, frozen=True):
    """A job as operators see it, all of one instant."""

    job: ExportJob
    owner: str
    result: ExportResult | None = None
    progress: Progress | None = None


class JobRecord(Struct, frozen=True):
    """A job with everything that has happened to it, oldest first."""

    view: JobView
    history: list[HistoryEntry]


class RequeueOrder(Struct, frozen=True, kw_only=True):
    """A person's decision to try dead letters again: who, why, and under which attempt policy.

    None leaves the number of attempts and the time to the deadline to the service's own policy.
    """

    actor: str
    reason: str
    attempts: int | None = None
    deadline_seconds: int | None = None


class Requeued(Struct, frozen=True):
    """What became of one job of a batch: queued again, or refused for the reason given."""

    job_id: str
    refusal: str | None = None


class RequeuedBatch(Struct, frozen=True):
    """What became of a batch. `halt` is why what comes after the last outcome was not tried: no more are admitted."""

    outcomes: list[Requeued]
    halt: AdmissionRefused | None = None


class Rate(Struct, frozen=True):
    """What happened in the window that ends now."""

    window: timedelta
    happened: Happened


class LimitUse(Struct, frozen=True):
    """How near a limit of admission is: `share` is 1 once it is reached. Units are in the name."""

    name: str
    used: float
    limit: float
    share: float


class WorkerSeen(Struct, frozen=True):
    """A worker that changed a job of late, or holds some. One that finds nothing to do leaves no trace."""

    worker_id: str
    last_seen_at: Instant
    running_count: int


class QueueStatus(Struct, frozen=True, kw_only=True):
    """The queue at the instant `at`. A count of `COUNTED_UP_TO` means that many or more."""

    at: Instant
    counts: dict[JobStatus, int]
    oldest_available_at: Instant | None
    oldest_claim_at: Instant | None
    rates: list[Rate]
    limits: list[LimitUse]
    workers: list[WorkerSeen]


def operator_named(name: str) -> str:
    """Return how history names an operator: told apart from every owner, whatever the name.

    Raises:
        InvalidInput: the name cannot be shown.
    """
    _require(_text_faults("actor", name, longest=LONGEST_NAME))
    return OPERATOR if name == OPERATOR else f"{OPERATOR} {name}"


# ── Looking ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def list_jobs(
    uow: UnitOfWork, chosen: JobFilter, *, owner: str | None = None, before: Position | None = None, limit: int
) -> Page[JobView]:
    """Return one page of the jobs that the filter selects, newest first; of one owner when one is named.

    An owner who does not exist has no jobs.
    """
    narrowed = _narrowed(uow, chosen, owner)
    if narrowed is None:
        return Page([], None)
    page = page_of(uow.directory.page(narrowed, before=before, limit=limit + 1), limit=limit)
    return Page([_view(uow, job) for job in page.items], page.following)


def show_job(uow: UnitOfWork, job_id: str) -> JobRecord:
    """Return the job of that id with its history, whoever owns it.

    Raises:
        NotFound: there is none.
    """
    job = _job(uow, job_id)
    return JobRecord(_view(uow, job), uow.exports.history(job.id))


def queue_status(uow: UnitOfWork, *, policies: Policies) -> QueueStatus:
    """Return how the queue does, at a cost that limits and the last hour bound, and not what is stored."""
    running = uow.directory.running(limit=_MOST_RUNNING)
    return QueueStatus(
        at=uow.now,
        counts={status: uow.directory.count(status, most=COUNTED_UP_TO) for status in JobStatus},
        oldest_available_at=uow.load.oldest_available_at(),
        oldest_claim_at=min((job.claimed_at for job in running), default=None),
        rates=[Rate(window, uow.directory.happened(since=later(uow.now, -window))) for window in WINDOWS],
        limits=_limits(uow, policies),
        workers=_workers(uow, running),
    )


def _limits(uow: UnitOfWork, policies: Policies) -> list[LimitUse]:
    policy = policies.admission
    load = queue_load(uow, policy)
    ceilings = {
        "max_pending": (load.pending_count, policy.max_pending),
        "oldest_age_seconds": (load.oldest_age.total_seconds(), policy.oldest_age.total_seconds()),
        "max_database_bytes": (load.database_bytes, policy.max_database_bytes),
    }
    uses = [LimitUse(name, used, limit, _share(used, limit)) for name, (used, limit) in ceilings.items()]
    # A floor: the nearer, the less is left.
    floor, left = policy.min_free_bytes, load.free_bytes
    return [*uses, LimitUse("min_free_bytes", left, floor, _share(floor, left))]


def _share(part: float, whole: float) -> float:
    return (part / whole) if whole > 0 else float(part > 0)


def _workers(uow: UnitOfWork, running: Sequence[RunningJob]) -> list[WorkerSeen]:
    seen = uow.directory.workers(since=later(uow.now, -WINDOWS[1]))
    held: dict[str, int] = {}
    for job in running:
        held[job.worker_id] = held.get(job.worker_id, 0) + 1
        seen[job.worker_id] = max(seen.get(job.worker_id, job.claimed_at), job.claimed_at)
    return [WorkerSeen(worker_id, at, held.get(worker_id, 0)) for worker_id, at in sorted(seen.items())]


# ── Acting ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def dead_letters(uow: UnitOfWork, chosen: JobFilter, *, owner: str | None = None, limit: int) -> list[JobId]:
    """Return up to `limit` failed jobs of those that the filter selects, newest first: what a batch is made of.

    For a read transaction, so that nobody waits for the search. The requeue looks at each of them again.
    """
    narrowed = _narrowed(uow, chosen, owner)
    if narrowed is None:
        return []
    failed = replace(narrowed, status=frozenset({JobStatus.FAILED}))
    return [job.id for job in uow.directory.page(failed, before=None, limit=limit)]


def requeue_job(uow: UnitOfWork, job_id: str, order: RequeueOrder, *, policies: Policies) -> JobView:
    """Send a dead letter back, with a new budget and deadline; its history and its count of attempts go on.

    Raises:
        NotFound: there is no such job.
        InvalidInput: the order cannot be meant.
        NoSuchTransition: the job is not a dead letter.
        AdmissionRefused: no more jobs are admitted now.
    """
    step = advance(_job(uow, job_id), _requeue(uow, order, policies))
    _require_room(queue_load(uow, policies.admission), policies)
    uow.exports.save(step)
    return _view(uow, step.after)


def requeue_jobs(uow: UnitOfWork, job_ids: Iterable[str], order: RequeueOrder, *, policies: Policies) -> RequeuedBatch:
    """Send back what the protocol and admission allow of a batch, in one transaction; tell why of each other one.

    Raises:
        InvalidInput: the order cannot be meant.
    """
    steps, batch = _planned(uow, job_ids, order, policies)
    for step in steps:
        uow.exports.save(step)
    return batch


def try_requeue(uow: UnitOfWork, job_ids: Iterable[str], order: RequeueOrder, *, policies: Policies) -> RequeuedBatch:
    """Return what `requeue_jobs` would do, and do nothing. For a read transaction.

    Raises:
        InvalidInput: the order cannot be meant.
    """
    _, batch = _planned(uow, job_ids, order, policies)
    return batch


def cancel_job(uow: UnitOfWork, job_id: str, *, actor: str, reason: str) -> JobView:
    """End any owner's job without a file; a running attempt is fenced off by the same commit.

    Raises:
        NotFound: there is no such job.
        InvalidInput: the reason cannot be meant.
        NoSuchTransition: the job has ended already.
    """
    _require(_text_faults("/reason", reason, longest=LONGEST_REASON))
    step = advance(_job(uow, job_id), Cancel(now=uow.now, actor=actor, reason=reason))
    uow.exports.save(step)
    return _view(uow, step.after)


def _planned(
    uow: UnitOfWork, job_ids: Iterable[str], order: RequeueOrder, policies: Policies
) -> tuple[list[Transition], RequeuedBatch]:
    event, load = _requeue(uow, order, policies), queue_load(uow, policies.admission)
    steps: list[Transition] = []
    outcomes: list[Requeued] = []
    # Named twice, a job is one job: its second step would start from what the first one changed.
    for job_id in dict.fromkeys(job_ids):
        try:
            step = advance(_job(uow, job_id), event)
            _require_room(replace(load, pending_count=load.pending_count + len(steps)), policies)
        except AdmissionRefused as halt:
            return steps, RequeuedBatch(outcomes, halt)
        except (NotFound, ProtocolRefusal) as refusal:
            outcomes.append(Requeued(job_id, str(refusal)))
        else:
            steps.append(step)
            outcomes.append(Requeued(job_id))
    return steps, RequeuedBatch(outcomes)


def _require_room(load: QueueLoad, policies: Policies) -> None:
    refusal = admit(load, policies.admission)
    if refusal is not None:
        raise refusal


def _requeue(uow: UnitOfWork, order: RequeueOrder, policies: Policies) -> Requeue:
    attempts = policies.retry.max_attempts if order.attempts is None else order.attempts
    shortest, longest = policies.deadline.shortest.total_seconds(), policies.deadline.longest.total_seconds()
    seconds = policies.deadline.default.total_seconds() if order.deadline_seconds is None else order.deadline_seconds
    faults = _text_faults("/reason", order.reason, longest=LONGEST_REASON)
    if not 1 <= attempts <= MOST_ATTEMPTS:
        faults.append(InputError("/attempts", f"must be 1 to {MOST_ATTEMPTS}"))
    # Compared as numbers: `timedelta` cannot hold every integer that a request can state.
    if not shortest <= seconds <= longest:
        faults.append(InputError("/deadline_seconds", f"must be {shortest:.0f} to {longest:.0f}"))
    _require(faults)
    return Requeue(
        now=uow.now,
        actor=order.actor,
        reason=order.reason,
        attempts=attempts,
        deadline_at=later(uow.now, timedelta(seconds=seconds)),
    )


def _text_faults(where: str, text: str, *, longest: int) -> list[InputError]:
    if len(text) <= longest and _TEXT.fullmatch(text) and not _LONE_SURROGATE.search(text):
        return []
    return [InputError(where, f"must be 1 to {longest} characters that can be shown, and not begin with a blank")]


def _require(faults: Sequence[InputError]) -> None:
    if faults:
        raise InvalidInput(*faults)


def _narrowed(uow: UnitOfWork, chosen: JobFilter, owner: str | None) -> JobFilter | None:
    if owner is None:
        return chosen
    user = uow.users.find(owner)
    return None if user is None else replace(chosen, owner_id=user.id)


def _job(uow: UnitOfWork, job_id: str) -> ExportJob:
    job = uow.exports.get(JobId(job_id))
    if job is None:
        raise NotFound(f"there is no export {job_id!r}")
    return job


def _view(uow: UnitOfWork, job: ExportJob) -> JobView:
    return JobView(
        job,
        _name_of(uow, job.owner_id),
        uow.results.find(job.id) if job.status is JobStatus.SUCCEEDED else None,
        uow.result_store.progress(Attempt(job.id, job.attempt_count)) if job.status is JobStatus.RUNNING else None,
    )


def _name_of(uow: UnitOfWork, owner_id: OwnerId) -> str:
    user = uow.users.get(owner_id)
    if user is None:
        raise NotFound("the owner of the export was removed")
    return user.name
