"""Several calls of one port in one transaction, for tests that are about what follows."""

from collections.abc import Sequence

from domain.account import ApiToken, User
from domain.events import Event
from domain.export import Chunk, ExportJob, JobId
from domain.lifecycle import Transition, advance
from domain.ports import Attempt, KeyedOutcome, UnitOfWork
from domain.task import Task


def add_users(uow: UnitOfWork, *names: str) -> list[User]:
    """Add users of these names."""
    return [uow.users.add(name) for name in names]


def keep_tokens(uow: UnitOfWork, *tokens: ApiToken) -> None:
    """Keep tokens."""
    for token in tokens:
        uow.api_tokens.add(token)


def keep_outcomes(uow: UnitOfWork, *outcomes: KeyedOutcome) -> None:
    """Keep outcomes of requests with keys."""
    for outcome in outcomes:
        uow.idempotency_keys.add(outcome)


def keep_tasks(uow: UnitOfWork, *tasks: Task) -> None:
    """Keep new tasks."""
    for task in tasks:
        uow.tasks.add(task)


def save_all(uow: UnitOfWork, *steps: Transition) -> None:
    """Save steps of the protocol, in order."""
    for step in steps:
        uow.exports.save(step)


def live(uow: UnitOfWork, made: Transition, *events: Event) -> ExportJob:
    """Save the step that makes a job and all that happens to it then; return the job at the end."""
    uow.exports.save(made)
    return live_on(uow, made.after.id, *events)


def live_on(uow: UnitOfWork, job_id: JobId, *events: Event) -> ExportJob:
    """Save all that happens to a job; return the job at the end."""
    job = uow.exports.get(job_id)
    assert job is not None
    for event in events:
        step = advance(job, event)
        uow.exports.save(step)
        job = step.after
    return job


def stage_all(uow: UnitOfWork, attempt: Attempt, chunks: Sequence[Chunk], *, rows_total: int = 100) -> None:
    """Stage chunks of one attempt, in order."""
    for chunk in chunks:
        uow.result_store.stage(attempt, chunk, rows_total=rows_total)
