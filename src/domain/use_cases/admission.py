"""What a transaction that would accept an export asks first."""

from datetime import timedelta
from typing import Final

from domain.account import OwnerId
from domain.admission import (
    DRAIN_WINDOW,
    AdmissionPolicy,
    Drained,
    QueueLoad,
    admit,
    most_ahead,
    over_quota,
)
from domain.export import ExportJob, JobStatus
from domain.instants import between, later
from domain.ports import UnitOfWork

# Enough to know a rate to a tenth or so; more would be looked at under the write lock for nothing.
_MOST_ENDED: Final = 100


def require_quota(uow: UnitOfWork, owner_id: OwnerId, policy: AdmissionPolicy) -> None:
    """Let the owner have one more active export.

    Raises:
        QuotaExceeded: they have as many as one owner may have.
    """
    if active_count(uow, owner_id, policy) >= policy.active_per_owner:
        raise over_quota(queue_load(uow, policy), policy)


def require_room(uow: UnitOfWork, policy: AdmissionPolicy) -> None:
    """Let one more export in. Holds for this transaction alone: whoever adds several asks before each of them.

    Raises:
        AdmissionRefused: as much waits, for as long, or fills as much, as the policy allows.
    """
    refusal = admit(queue_load(uow, policy), policy)
    if refusal is not None:
        raise refusal


def queue_load(uow: UnitOfWork, policy: AdmissionPolicy) -> QueueLoad:
    """Return what admission is decided by, at a cost that the limits bound and not what there is."""
    oldest_at = uow.load.oldest_available_at()
    usage = uow.storage.usage()
    return QueueLoad(
        pending_count=uow.load.pending(most=policy.max_pending + 1),
        oldest_age=timedelta() if oldest_at is None else between(oldest_at, uow.now),
        drained=_drained(uow),
        database_bytes=usage.database_bytes,
        free_bytes=usage.free_bytes,
    )


def load_ahead(uow: UnitOfWork, job: ExportJob, policy: AdmissionPolicy) -> tuple[int, Drained]:
    """Return how many others wait beside a queued job, as far as that matters to its owner, and how fast they are done.

    Its place among them is not known: owners take turns. In front of a running job there is nobody.
    """
    drained = _drained(uow)
    if job.status is not JobStatus.QUEUED:
        return 0, drained
    return max(uow.load.pending(most=most_ahead(drained, policy) + 1) - 1, 0), drained


def active_count(uow: UnitOfWork, owner_id: OwnerId, policy: AdmissionPolicy) -> int:
    """Return how many exports of the owner have not ended, counted up to their limit."""
    return uow.load.active(owner_id, most=policy.active_per_owner)


def _drained(uow: UnitOfWork) -> Drained:
    return uow.load.ended(since=later(uow.now, -DRAIN_WINDOW), most=_MOST_ENDED)
