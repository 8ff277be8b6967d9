"""`Store`: a function is a transaction, whole or not at all, whoever waits for it or stops waiting."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Final

import pytest
from msgspec.structs import replace

from domain.account import User
from domain.errors import NameTaken, PoolExhausted, Refusal, StoreBusy
from domain.instants import Instant
from domain.ports import Bulkhead, Store, UnitOfWork
from tests.adapters.conformance.conftest import Adapter
from tests.adapters.conformance.pauses import DEADLINE_SECONDS, Pause, pause_in
from tests.adapters.conformance.steps import add_users, keep_tasks
from tests.builders import a_task, an_id
from tests.fakes import START, ManualClock

SHORT: Final = 0.05


@pytest.fixture
async def other(adapter: Adapter) -> AsyncIterator[Store]:
    """The store of another process on the same database, which waits for a lock only for a moment."""
    async with adapter.open_store(write_wait_seconds=SHORT) as opened:
        yield opened


async def names(store: Store) -> list[str]:
    """Return the names of all users."""
    return [user.name for user in await store.read(Bulkhead.OPERATIONS, lambda uow: uow.users.all())]


def add_after(uow: UnitOfWork, pause: Pause, name: str) -> None:
    """Add a user, and stand still before the commit."""
    uow.users.add(name)
    pause.here()


# ── Commit and rollback ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_a_function_wrote_is_committed_when_it_returns(store: Store, other: Store) -> None:
    """Its value comes back, and another process sees what it did."""
    users = await store.write(add_users, "Ann", "Bob")
    assert [user.name for user in users] == ["Ann", "Bob"]
    assert await names(other) == ["Ann", "Bob"]


@pytest.mark.parametrize("error", [NameTaken("refused"), ValueError("a defect"), KeyError("another")])
async def test_what_a_function_wrote_is_rolled_back_when_it_raises(store: Store, error: Exception) -> None:
    """The error itself comes out, nothing was written, and the store goes on."""

    def add_and_fail(uow: UnitOfWork) -> None:
        uow.users.add("Ann")
        raise error

    with pytest.raises(type(error)) as raised:
        await store.write(add_and_fail)
    assert raised.value is error
    assert await names(store) == []
    await store.write(add_users, "Bob")
    assert await names(store) == ["Bob"]


async def test_a_caught_refusal_leaves_the_rest_of_the_transaction(store: Store) -> None:
    """A function that goes on after a refusal commits what it did before and after."""

    def add_thrice(uow: UnitOfWork) -> None:
        uow.users.add("Ann")
        with pytest.raises(NameTaken):
            uow.users.add("Ann")
        uow.users.add("Bob")

    await store.write(add_thrice)
    assert await names(store) == ["Ann", "Bob"]


async def test_arguments_reach_the_function_as_they_were_given(store: Store) -> None:
    """By place and by name, in writing and in reading."""

    def echo(uow: UnitOfWork, first: int, *rest: int, named: str) -> tuple[Instant, int, tuple[int, ...], str]:
        return uow.now, first, rest, named

    assert await store.write(echo, 1, 2, 3, named="x") == (START, 1, (2, 3), "x")
    assert await store.read(Bulkhead.TASKS, echo, 1, named="y") == (START, 1, (), "y")


async def test_nothing_is_visible_before_the_commit(store: Store, other: Store) -> None:
    """Neither to readers of the same process nor to those of another."""
    pause = Pause()
    adding = asyncio.ensure_future(store.write(add_after, pause, "Ann"))
    await pause.reached()
    assert await names(store) == await names(other) == []
    pause.go_on()
    await adding
    assert await names(store) == await names(other) == ["Ann"]


async def test_changes_of_many_writers_are_all_kept(store: Store, adapter: Adapter, owner: User) -> None:
    """Two processes that each count the same task up, again and again, lose no step."""
    await store.write(keep_tasks, a_task(owner.id, priority=1, description="0"))

    def count_up(uow: UnitOfWork) -> None:
        task = uow.tasks.find(owner.id, an_id(1))
        assert task is not None
        after = replace(task, description=str(int(task.description) + 1), version=task.version + 1)
        assert uow.tasks.save(task, after)

    async with adapter.open_store() as second:
        await asyncio.gather(*(someone.write(count_up) for _ in range(25) for someone in (store, second)))
    task = await store.read(Bulkhead.TASKS, lambda uow: uow.tasks.find(owner.id, an_id(1)))
    assert task is not None
    assert (task.description, task.version) == ("50", 51)


# ── Whoever stops waiting ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_cancelled_caller_leaves_no_transaction_open(store: Store, other: Store) -> None:
    """The function runs to its end unobserved, what it did is committed, and the lock is free for another process."""
    pause = Pause()
    adding = asyncio.ensure_future(store.write(add_after, pause, "Ann"))
    await pause.reached()
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    pause.go_on()
    await store.write(add_users, "Bob")
    await other.write(add_users, "Eve")
    assert await names(store) == ["Ann", "Bob", "Eve"]


async def test_a_cancelled_caller_whose_function_then_fails_leaves_nothing(store: Store, other: Store) -> None:
    """The rollback happens without anyone to tell."""
    pause = Pause()

    def add_and_fail(uow: UnitOfWork) -> None:
        add_after(uow, pause, "Ann")
        raise ValueError

    adding = asyncio.ensure_future(store.write(add_and_fail))
    await pause.reached()
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    pause.go_on()
    await store.write(add_users, "Bob")
    await other.write(add_users, "Eve")
    assert await names(store) == ["Bob", "Eve"]


async def test_a_caller_that_is_cancelled_while_waiting_in_line_does_no_harm(store: Store) -> None:
    """Functions of the same process wait for each other; one that nobody waits for is whole or absent."""
    pause = Pause()
    first = asyncio.ensure_future(store.write(add_after, pause, "Ann"))
    await pause.reached()
    second = asyncio.ensure_future(store.write(add_users, "Bob", "Bill"))
    await asyncio.sleep(0)
    second.cancel()
    third = asyncio.ensure_future(store.write(add_users, "Eve"))
    pause.go_on()
    await asyncio.gather(first, third)
    assert await names(store) in (["Ann", "Eve"], ["Ann", "Bill", "Bob", "Eve"])


async def test_a_timeout_around_a_write_leaves_no_transaction_open(store: Store, other: Store) -> None:
    """A limit of the caller's own is a cancellation like any other."""
    pause = Pause()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(SHORT):
            await store.write(add_after, pause, "Ann")
    pause.go_on()
    await store.write(add_users, "Bob")
    await other.write(add_users, "Eve")
    assert await names(store) == ["Ann", "Bob", "Eve"]


async def test_a_cancelled_readers_connection_comes_back(adapter: Adapter) -> None:
    """It is out of use while the function still runs, and in use again after that."""
    async with adapter.open_store(read_connections=1, read_wait_seconds=SHORT) as store:
        pause = Pause()
        reading = asyncio.ensure_future(store.read(Bulkhead.TASKS, pause_in, pause))
        await pause.reached()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        with pytest.raises(PoolExhausted):
            await store.read(Bulkhead.TASKS, lambda uow: uow.users.all())
        pause.go_on()
        async with asyncio.timeout(DEADLINE_SECONDS):
            assert await first_success(store) == []


async def first_success(store: Store) -> list[User]:
    """Return the users, as soon as a connection is free."""
    while True:
        try:
            return await store.read(Bulkhead.TASKS, lambda uow: uow.users.all())
        except PoolExhausted:
            continue


async def test_a_reader_that_is_cancelled_while_waiting_takes_no_connection_with_it(adapter: Adapter) -> None:
    """Whoever waited in vain leaves the pool as large as it was."""
    async with adapter.open_store(read_connections=1) as store:
        pause = Pause()
        reading = asyncio.ensure_future(store.read(Bulkhead.TASKS, pause_in, pause))
        await pause.reached()
        waiting = [asyncio.ensure_future(store.read(Bulkhead.TASKS, lambda uow: uow.now)) for _ in range(3)]
        await asyncio.sleep(0)
        for task in waiting[:2]:
            task.cancel()
        pause.go_on()
        await reading
        assert await waiting[2] == START
        assert await store.read(Bulkhead.TASKS, lambda uow: uow.now) == START
        assert all(task.cancelled() for task in waiting[:2])


# ── Locks and limits ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_write_that_gets_no_lock_is_busy_and_writes_nothing(store: Store, other: Store) -> None:
    """Within its limit `StoreBusy`, while another process is in the middle of a write; afterwards it succeeds."""
    pause = Pause()
    adding = asyncio.ensure_future(store.write(add_after, pause, "Ann"))
    await pause.reached()
    async with asyncio.timeout(DEADLINE_SECONDS):
        with pytest.raises(StoreBusy):
            await other.write(add_users, "Bob")
    pause.go_on()
    await adding
    assert await names(store) == ["Ann"]
    await other.write(add_users, "Bob")
    assert await names(store) == ["Ann", "Bob"]


class WaitedFor(ManualClock):
    """A clock that is looked at by whoever waits for a lock, and knows when that has been going on for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting_goes_on = Pause()
        self._looks = 0

    def monotonic(self) -> float:
        """Return the seconds since the start."""
        self._looks += 1
        if self._looks == 20:
            self.waiting_goes_on.here()
        return super().monotonic()


async def test_a_write_waits_for_the_lock_as_long_as_its_limit_allows(store: Store, adapter: Adapter) -> None:
    """It begins once the other process is done, and its time is that of its beginning, not of the waiting."""
    pause, clock = Pause(), WaitedFor()
    adding = asyncio.ensure_future(store.write(add_after, pause, "Ann"))
    await pause.reached()
    async with adapter.open_store(clock=clock, write_wait_seconds=60) as patient:
        waiting = asyncio.ensure_future(patient.write(lambda uow: (uow.now, len(uow.users.all()))))
        await clock.waiting_goes_on.reached()
        clock.step(timedelta(seconds=7))
        pause.go_on()
        await adding
        clock.waiting_goes_on.go_on()
        assert await waiting == (START + 7000, 1)


async def test_writes_that_wait_in_line_give_up_together(store: Store, adapter: Adapter) -> None:
    """The limit runs from when a write was asked for: behind others that wait in vain, their limits do not add up."""
    pause, clock = Pause(), ManualClock()
    adding = asyncio.ensure_future(store.write(add_after, pause, "Ann"))
    await pause.reached()
    async with adapter.open_store(clock=clock, write_wait_seconds=SHORT) as busy:
        asked_at = clock.monotonic()
        writes = [busy.write(add_users, f"user {number}") for number in range(8)]
        refusals = await asyncio.gather(*writes, return_exceptions=True)
        assert clock.monotonic() - asked_at < 2 * SHORT
    assert [type(refusal) for refusal in refusals] == [StoreBusy] * 8
    pause.go_on()
    await adding


async def test_the_time_of_a_transaction_stands_still(store: Store, clock: ManualClock) -> None:
    """However often a function looks at it, in writing and in reading."""

    def look_twice(uow: UnitOfWork) -> tuple[Instant, Instant]:
        before = uow.now
        clock.advance(timedelta(seconds=1))
        return before, uow.now

    assert await store.write(look_twice) == (START, START)
    assert await store.read(Bulkhead.TASKS, look_twice) == (START + 1000, START + 1000)


async def test_a_read_that_gets_no_connection_is_refused_within_its_limit(adapter: Adapter) -> None:
    """`PoolExhausted`, only for that kind of reading, and only while all its connections are in use."""
    async with adapter.open_store(read_connections=2, read_wait_seconds=SHORT) as store:
        pauses = [Pause(), Pause()]
        reading = [asyncio.ensure_future(store.read(Bulkhead.DOWNLOADS, pause_in, pause)) for pause in pauses]
        for pause in pauses:
            await pause.reached()
        async with asyncio.timeout(DEADLINE_SECONDS):
            with pytest.raises(PoolExhausted):
                await store.read(Bulkhead.DOWNLOADS, lambda uow: uow.now)
            for bulkhead in set(Bulkhead) - {Bulkhead.DOWNLOADS}:
                assert await store.read(bulkhead, lambda uow: uow.now) == START
        pauses[0].go_on()
        await reading[0]
        assert await store.read(Bulkhead.DOWNLOADS, lambda uow: uow.now) == START
        pauses[1].go_on()
        await reading[1]


async def test_reads_wait_for_no_write(store: Store) -> None:
    """While one process is in the middle of a write, every kind of reading goes on."""
    pause = Pause()
    adding = asyncio.ensure_future(store.write(add_after, pause, "Ann"))
    await pause.reached()
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert [await store.read(bulkhead, lambda uow: uow.users.all()) for bulkhead in Bulkhead] == [[]] * 4
    pause.go_on()
    await adding


async def test_a_write_waits_for_no_read(store: Store, other: Store) -> None:
    """An open read transaction holds no lock."""
    pause = Pause()
    reading = asyncio.ensure_future(store.read(Bulkhead.EXPORTS, pause_in, pause))
    await pause.reached()
    await other.write(add_users, "Ann")
    pause.go_on()
    await reading


async def test_a_read_never_writes(store: Store) -> None:
    """A function that writes is refused, and what it did is not there."""
    with pytest.raises(Refusal):
        await store.read(Bulkhead.TASKS, add_users, "Ann")
    assert await names(store) == []
    await store.write(add_users, "Bob")
    assert await names(store) == ["Bob"]


async def test_a_read_is_of_one_snapshot(store: Store) -> None:
    """What others commit between two looks of one function is not seen by it, and is by the next."""
    pause = Pause()

    def look_twice(uow: UnitOfWork) -> tuple[int, int]:
        before = len(uow.users.all())
        pause.here()
        return before, len(uow.users.all())

    looking = asyncio.ensure_future(store.read(Bulkhead.TASKS, look_twice))
    await pause.reached()
    await store.write(add_users, "Ann")
    pause.go_on()
    assert await looking == (0, 0)
    assert await names(store) == ["Ann"]


async def test_a_checkpoint_waits_for_nobody_and_changes_nothing_that_is_read(store: Store, other: Store) -> None:
    """Beside an open snapshot and an open write it returns at once; both go on and see what they saw."""
    await store.write(add_users, "Ann")
    reading_pause, writing_pause = Pause(), Pause()

    def look_twice(uow: UnitOfWork) -> tuple[int, int]:
        before = len(uow.users.all())
        reading_pause.here()
        return before, len(uow.users.all())

    looking = asyncio.ensure_future(store.read(Bulkhead.TASKS, look_twice))
    await reading_pause.reached()
    await store.write(add_users, "Bob")
    adding = asyncio.ensure_future(other.write(add_after, writing_pause, "Cyd"))
    await writing_pause.reached()
    async with asyncio.timeout(DEADLINE_SECONDS):
        await store.checkpoint()
    reading_pause.go_on()
    writing_pause.go_on()
    assert await looking == (1, 1)
    await adding
    await store.checkpoint()
    assert await names(store) == ["Ann", "Bob", "Cyd"]


async def test_a_failed_read_gives_its_connection_back(adapter: Adapter) -> None:
    """The error comes out, and the one connection serves the next reader."""

    def fail(uow: UnitOfWork) -> None:
        raise LookupError(len(uow.users.all()))

    async with adapter.open_store(read_connections=1, read_wait_seconds=SHORT) as store:
        for _ in range(3):
            with pytest.raises(LookupError):
                await store.read(Bulkhead.TASKS, fail)
        assert await store.read(Bulkhead.TASKS, lambda uow: uow.now) == START


# ── Opening and closing ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_closing_ends_every_thread(adapter: Adapter) -> None:
    """After the context is left nothing of the store runs on."""
    before = set(threading.enumerate())
    async with adapter.open_store() as store:
        for bulkhead in Bulkhead:
            await asyncio.gather(*(store.read(bulkhead, lambda uow: uow.now) for _ in range(3)))
        mine = set(threading.enumerate()) - before
    assert mine
    for thread in mine:
        thread.join(DEADLINE_SECONDS)
    assert not [thread for thread in mine if thread.is_alive()]


async def test_closing_waits_for_what_still_runs(adapter: Adapter, store: Store) -> None:
    """A function whose caller was cancelled ends, commits, and then the store closes."""
    pause = Pause()
    async with AsyncExitStack() as stack:
        closing = await stack.enter_async_context(adapter.open_store())
        adding = asyncio.ensure_future(closing.write(add_after, pause, "Ann"))
        await pause.reached()
        adding.cancel()
        pause.go_on()
    assert await names(store) == ["Ann"]


async def test_closing_ends_a_thread_that_nobody_waits_for_any_more(adapter: Adapter) -> None:
    """A caller that was cancelled while its connection was being opened leaves no thread that keeps the process up."""
    before = set(threading.enumerate())
    async with adapter.open_store() as store:
        opened = set(threading.enumerate())
        reading = asyncio.ensure_future(store.read(Bulkhead.TASKS, lambda uow: uow.now))
        for _ in range(3):
            await asyncio.sleep(0)
        mine = set(threading.enumerate()) - before
        assert mine > opened - before
        reading.cancel()
    for thread in mine:
        await asyncio.to_thread(thread.join, DEADLINE_SECONDS)
    assert not [thread for thread in mine if thread.is_alive()]


async def test_what_was_committed_is_there_after_a_restart(adapter: Adapter) -> None:
    """The next store on the database begins where the last one ended."""
    async with adapter.open_store() as store:
        await store.write(add_users, "Ann")
    async with adapter.open_store() as store:
        assert await names(store) == ["Ann"]
