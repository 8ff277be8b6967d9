"""The worker's share of maintenance: a tick now and then, in small batches, while this process holds the lease.

Between two batches the worker looks for exports: maintenance waits for them, and they for no more than one batch.
"""

from collections import Counter, deque
from typing import Final

from domain.errors import NotMaintaining
from domain.export import LeaseToken
from domain.maintenance import ClockReading, MaintenanceGrant, clocks_agree, disagreement
from domain.ports import Bulkhead
from domain.use_cases.maintenance import Chore, maintain, maintenance_is_free, take_maintenance
from entrypoints.bootstrap import Application
from entrypoints.telemetry import LogEvent, logger

log = logger()

# How many batches one tick has at most, however fast they are: what is left waits for the next one.
_BATCHES: Final = 1000


class _Tick:
    """What one tick may do and has still to do, what it has done, and how much of its budget that took."""

    def __init__(self, grant: MaintenanceGrant) -> None:
        self.grant = grant
        self.chores = deque(Chore)
        self.counts: Counter[str] = Counter()
        self.batch_count = 0
        self.seconds = 0.0


class Maintenance:
    """Maintains in steps, when it is time and no other worker does."""

    def __init__(self, app: Application, *, worker_id: str) -> None:
        self._app = app
        self._worker_id = worker_id
        self._reading = self._read_clocks()
        self._due_at = self._reading.monotonic
        self._grant: MaintenanceGrant | None = None
        self._grant_ends = 0.0
        self._tick: _Tick | None = None

    async def step(self) -> bool:
        """Do the next batch if it is time; tell whether this tick has more to do.

        Raises:
            EnvironmentFailure: the store could not do it. The tick is over; the next one comes when it is due.
        """
        reading = self._read_clocks()
        if self._tick is None and reading.monotonic < self._due_at:
            return False
        tick, self._tick = self._tick, None
        if not clocks_agree(self._reading, reading):
            self._distrust(reading)
            return False
        if tick is None:
            # Set first: a tick that fails is tried again when the next one is due, and not before every claim.
            self._be_due_after(reading)
            self._reading = reading
            grant = await self._take(reading)
            if grant is None:
                return False
            tick = _Tick(grant)
        try:
            return await self._continue(tick, reading)
        except NotMaintaining as refusal:
            self._grant = None
            log.info(LogEvent.MAINTENANCE_LOST, reason=str(refusal), **tick.counts)
            return False

    async def _continue(self, tick: _Tick, reading: ClockReading) -> bool:
        """Do a batch of the chore whose turn it is; chores take turns until none has any more to do."""
        chore = tick.chores.popleft()
        count = await self._app.store.write(maintain, tick.grant, chore, as_of=reading.now, policies=self._app.policies)
        if count:
            tick.counts[chore.value] += count
            tick.chores.append(chore)
        tick.batch_count += 1
        tick.seconds += self._app.clock.monotonic() - reading.monotonic
        is_spent = tick.batch_count >= _BATCHES or tick.seconds >= self._app.settings.maintenance_budget_seconds
        if tick.chores and not is_spent:
            self._tick = tick
            return True
        await self._app.store.checkpoint()
        if tick.counts:
            log.info(LogEvent.MAINTENANCE_DONE, grant=tick.grant.number, is_all=not tick.chores, **tick.counts)
        return False

    async def _take(self, reading: ClockReading) -> MaintenanceGrant | None:
        """Return the grant under which this process maintains, after asking for one if the lease is free."""
        if self._grant is not None and reading.monotonic < self._grant_ends:
            return self._grant
        self._grant = None
        store, policy = self._app.store, self._app.policies.maintenance
        if await store.read(Bulkhead.OPERATIONS, maintenance_is_free, policy=policy):
            token = LeaseToken(self._app.randomness.new_secret())
            self._grant = await store.write(
                take_maintenance, worker_id=self._worker_id, lease_token=token, policy=policy
            )
        if self._grant is not None:
            # Measured from before the lease was asked for, so that it is never later than what the database holds.
            self._grant_ends = reading.monotonic + policy.lease.total_seconds()
            log.debug(LogEvent.MAINTENANCE_TAKEN, grant=self._grant.number)
        return self._grant

    def _distrust(self, reading: ClockReading) -> None:
        difference = disagreement(self._reading, reading).total_seconds()
        log.warning(LogEvent.CLOCK_JUMPED, seconds=round(difference, 3))
        self._reading = reading
        self._be_due_after(reading)

    def _be_due_after(self, reading: ClockReading) -> None:
        # Evenly spread around the setting, so that workers which started together do not ask together.
        pause = self._app.settings.maintenance_seconds * (0.75 + self._app.randomness.fraction() / 2)
        self._due_at = reading.monotonic + pause

    def _read_clocks(self) -> ClockReading:
        return ClockReading(self._app.clock.now(), self._app.clock.monotonic())
