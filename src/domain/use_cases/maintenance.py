"""What maintenance does: each call one short transaction, fenced by the lease that its holder was granted.

Liveness and safety of exports never wait for it: a claim ends the dead jobs that it meets, and a result that expired
cannot be read whether or not anyone came by. What waits for maintenance is the record, and the place on the disk.
"""

from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import Final

from domain.events import Expire, RemoveResult
from domain.export import GoneReason, LeaseToken
from domain.instants import Instant, later
from domain.lifecycle import advance
from domain.maintenance import MaintenanceGrant, is_live, next_grant, require_maintaining
from domain.policies import MaintenancePolicy, Policies
from domain.ports import UnitOfWork

# Who made a change that nobody asked for, in the history.
MAINTENANCE: Final = "maintenance"
# An import whose process died is taken back after this long. The whole of a checked file is stored in minutes, and an
# import that is taken back too early is refused when it publishes: nothing is shown by half.
ABANDONED_AFTER: Final = timedelta(hours=1)

# What one transaction does at most. Each keeps the write lock for some milliseconds: a job is a few rows, a chunk is up
# to some hundreds of kilobytes, a free page may have to be filled from the end of the file.
_JOBS: Final = 32
_CHUNKS: Final = 16
_TASKS: Final = 500
_KEYS: Final = 500
_PAGES: Final = 512


class Chore(StrEnum):
    """One kind of maintenance, named by what its count counts."""

    EXPIRE_EXPORTS = "exports_expired"
    EXPIRE_RESULTS = "results_expired"
    SWEEP_CHUNKS = "chunk_batches_swept"
    SWEEP_IMPORTS = "import_batches_swept"
    FORGET_EXPORTS = "exports_forgotten"
    FORGET_KEYS = "keys_forgotten"
    GIVE_BACK_PAGES = "pages_given_back"


def maintenance_is_free(uow: UnitOfWork, *, policy: MaintenancePolicy) -> bool:
    """Tell whether `take_maintenance` would grant the lease. For a read transaction: asking takes no write lock."""
    last = uow.maintenance.last()
    return last is None or not is_live(last, uow.now, policy.longest_lease)


def take_maintenance(
    uow: UnitOfWork, *, worker_id: str, lease_token: LeaseToken, policy: MaintenancePolicy
) -> MaintenanceGrant | None:
    """Grant the worker the lease of maintenance, unless a grant is live; whoever had the one before is stale then."""
    made = next_grant(uow.maintenance.last(), uow.now, worker_id=worker_id, lease_token=lease_token, policy=policy)
    if made is not None:
        uow.maintenance.grant(made)
    return made


def maintain(uow: UnitOfWork, grant: MaintenanceGrant, chore: Chore, *, as_of: Instant, policies: Policies) -> int:
    """Do one bounded batch of a chore; return how much there was to do, and 0 when there is no more.

    `as_of` is a time that the holder has held against its monotonic clock: nothing counts as over that was not over by
    then, so that a clock which jumps between that check and this transaction deletes nothing.

    Raises:
        NotMaintaining: the holder may not write any more.
    """
    require_maintaining(uow.maintenance.last(), grant, uow.now, policies.maintenance.longest_lease)
    return _CHORES[chore](uow, min(as_of, uow.now), policies)


def _expire_exports(uow: UnitOfWork, as_of: Instant, policies: Policies) -> int:
    longest_lease = policies.lease.longest_lease
    found = uow.queue.hopeless(as_of=as_of, longest_lease_until=later(uow.now, longest_lease), limit=_JOBS)
    for job in found:
        uow.exports.save(advance(job, Expire(now=uow.now, longest_lease=longest_lease)))
    return len(found)


def _expire_results(uow: UnitOfWork, as_of: Instant, policies: Policies) -> int:
    found = uow.results.expired(as_of=as_of, limit=_JOBS)
    for result in found:
        job = uow.exports.get(result.job_id)
        if job is not None:
            event = RemoveResult(now=uow.now, actor=MAINTENANCE, reason=GoneReason.EXPIRED)
            uow.exports.save(advance(job, event))
        needed_until = later(result.expires_at, policies.maintenance.download)
        uow.results.mark_expired(result.job_id, needed_until=needed_until)
    return len(found)


def _sweep_chunks(uow: UnitOfWork, as_of: Instant, policies: Policies) -> int:
    del policies
    lost = uow.result_store.lost(as_of=as_of, limit=1)
    for attempt in lost:
        uow.result_store.delete(attempt, limit=_CHUNKS)
    return len(lost)


def _sweep_imports(uow: UnitOfWork, as_of: Instant, policies: Policies) -> int:
    del policies
    abandoned = uow.imports.abandoned(before=later(as_of, -ABANDONED_AFTER), limit=1)
    for import_id in abandoned:
        uow.imports.discard(import_id, limit=_TASKS)
    return len(abandoned)


def _forget_exports(uow: UnitOfWork, as_of: Instant, policies: Policies) -> int:
    ended = uow.retention.ended(before=later(as_of, -policies.maintenance.retention), limit=_JOBS)
    for job_id in ended:
        uow.retention.forget(job_id)
    return len(ended)


def _forget_keys(uow: UnitOfWork, as_of: Instant, policies: Policies) -> int:
    return uow.idempotency_keys.forget(before=later(as_of, -policies.maintenance.retention), limit=_KEYS)


def _give_back_pages(uow: UnitOfWork, as_of: Instant, policies: Policies) -> int:
    del as_of, policies
    return uow.retention.give_back(pages=_PAGES)


_CHORES: Final[dict[Chore, Callable[[UnitOfWork, Instant, Policies], int]]] = {
    Chore.EXPIRE_EXPORTS: _expire_exports,
    Chore.EXPIRE_RESULTS: _expire_results,
    Chore.SWEEP_CHUNKS: _sweep_chunks,
    Chore.SWEEP_IMPORTS: _sweep_imports,
    Chore.FORGET_EXPORTS: _forget_exports,
    Chore.FORGET_KEYS: _forget_keys,
    Chore.GIVE_BACK_PAGES: _give_back_pages,
}
