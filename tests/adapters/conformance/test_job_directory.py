"""`JobDirectory`: operators find any owner's jobs by what became of them, and see how the queue does."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

import pytest
from msgspec.structs import replace

from domain.account import User
from domain.events import Cancel, Claim, Event, Fail, Release, Requeue
from domain.export import ErrorCode, ExportJob, Failure, FailureKind, JobId, JobStatus, LeaseToken
from domain.instants import Instant, later
from domain.pages import Position
from domain.ports import Bulkhead, Happened, JobFilter, Store, UnitOfWork
from tests.adapters.conformance.steps import live
from tests.builders import HOUR, an_enqueue, an_id
from tests.fakes import START, ManualClock

LONGEST: Final = timedelta(minutes=2)
TOKEN: Final = LeaseToken("the-lease-token")
ALL: Final = JobFilter()


def claim(at: int, worker_id: str = "worker-1") -> Claim:
    """Return a claim so many milliseconds after the start."""
    return Claim(
        now=Instant(START + at),
        worker_id=worker_id,
        lease_token=TOKEN,
        lease=timedelta(minutes=1),
        longest_lease=LONGEST,
    )


def bury(at: int, code: ErrorCode = ErrorCode.RESULT_TOO_LARGE) -> Fail:
    """Return a failure that ends a job so many milliseconds after the start."""
    now = Instant(START + at)
    failure = Failure(FailureKind.PERMANENT, code, "ResultTooLarge")
    return Fail(now=now, lease_token=TOKEN, longest_lease=LONGEST, failure=failure, retry_at=now, retry_ends_at=now)


def cancel(at: int) -> Cancel:
    """Return a cancellation so many milliseconds after the start."""
    return Cancel(now=Instant(START + at), actor="owner")


def make(uow: UnitOfWork, owner: User, number: int, *events: Event, at: int | None = None) -> ExportJob:
    """Live the life of a job that was made `number` milliseconds after the start, unless another time is given."""
    made = Instant(START + (number if at is None else at))
    return live(uow, an_enqueue(owner.id, number, now=made), *events)


def numbers(jobs: list[ExportJob]) -> list[int]:
    """Return the numbers that the jobs were made with."""
    return [int(job.id[-12:], 16) for job in jobs]


async def page(store: Store, chosen: JobFilter = ALL, *, before: Position | None = None, limit: int = 50) -> list[int]:
    """Return the numbers of a page."""

    def ask(uow: UnitOfWork) -> list[ExportJob]:
        return uow.directory.page(chosen, before=before, limit=limit)

    return numbers(await store.read(Bulkhead.OPERATIONS, ask))


@pytest.fixture
async def jobs(store: Store, owner: User, neighbour: User) -> None:
    """Seven jobs of two owners, in every status but succeeded."""

    def fill(uow: UnitOfWork) -> None:
        make(uow, owner, 1, cancel(10))
        make(uow, owner, 2, claim(3), bury(20))
        make(uow, neighbour, 3, claim(3), bury(30, ErrorCode.INTERNAL_ERROR))
        make(uow, owner, 4, claim(5), bury(40))
        make(uow, neighbour, 5, claim(50))
        make(uow, owner, 6)
        make(uow, neighbour, 7, cancel(70))

    await store.write(fill)


@pytest.mark.usefixtures("jobs")
class TestPage:
    """A page of the jobs that are chosen."""

    async def test_everything_is_listed_newest_first(self, store: Store) -> None:
        """Whatever its status, whoever owns it."""
        assert await page(store) == [7, 6, 5, 4, 3, 2, 1]

    @pytest.mark.parametrize(
        ("chosen", "found"),
        [
            ({"status": frozenset({JobStatus.FAILED})}, [4, 3, 2]),
            ({"status": frozenset({JobStatus.CANCELLED, JobStatus.RUNNING})}, [7, 5, 1]),
            ({"owner_id": "neighbour"}, [7, 5, 3]),
            ({"owner_id": "neighbour", "status": frozenset({JobStatus.CANCELLED})}, [7]),
            ({"code": ErrorCode.RESULT_TOO_LARGE}, [4, 2]),
            ({"code": ErrorCode.CANCELLED, "owner_id": "neighbour"}, [7]),
            ({"created_before": Instant(START + 3)}, [2, 1]),
            ({"created_after": Instant(START + 5)}, [7, 6]),
            ({"created_after": Instant(START + 2), "created_before": Instant(START + 4)}, [3]),
            ({"finished_before": Instant(START + 30)}, [2, 1]),
            ({"finished_after": Instant(START + 30)}, [7, 4]),
            ({"finished_after": Instant(START + 10), "code": ErrorCode.INTERNAL_ERROR}, [3]),
        ],
    )
    async def test_every_member_of_the_filter_narrows(
        self, chosen: dict[str, object], found: list[int], store: Store, neighbour: User
    ) -> None:
        """Bounds are exclusive; what has not ended matches no bound of its end."""
        stated = {name: neighbour.id if value == "neighbour" else value for name, value in chosen.items()}
        assert await page(store, replace(JobFilter(), **stated)) == found

    async def test_a_page_goes_on_where_the_one_before_ended(self, store: Store) -> None:
        """Also when the bound of the filter lies before the place, or behind it."""
        assert await page(store, limit=3) == [7, 6, 5]
        place = Position(Instant(START + 5), an_id(5))
        assert await page(store, before=place, limit=3) == [4, 3, 2]
        assert await page(store, JobFilter(created_before=Instant(START + 3)), before=place) == [2, 1]
        assert await page(store, JobFilter(created_before=Instant(START + 7)), before=place) == [4, 3, 2, 1]


async def test_jobs_of_one_instant_are_told_apart_by_their_ids(store: Store, owner: User) -> None:
    """No page repeats or leaves out one, whatever their status."""

    def fill(uow: UnitOfWork) -> None:
        for number in range(1, 6):
            make(uow, owner, number, *([cancel(9)] if number % 2 else []), at=0)

    await store.write(fill)
    assert await page(store, limit=2) == [5, 4]
    assert await page(store, before=Position(START, an_id(4)), limit=2) == [3, 2]
    assert await page(store, before=Position(START, an_id(2)), limit=2) == [1]


@pytest.mark.usefixtures("jobs")
async def test_a_count_ends_where_it_was_told_to(store: Store) -> None:
    """Each status by itself."""

    def ask(uow: UnitOfWork) -> list[int]:
        return [uow.directory.count(JobStatus.FAILED, most=most) for most in (2, 3, 4)]

    assert await store.read(Bulkhead.OPERATIONS, ask) == [2, 3, 3]


async def test_running_jobs_are_told_with_their_latest_claim(store: Store, owner: User) -> None:
    """The one whose lease ends first comes first; the holder is the current one."""
    again = replace(claim(70_000, "worker-3"), lease_token=LeaseToken("next"))

    def fill(uow: UnitOfWork) -> None:
        make(uow, owner, 1, claim(10), again)
        make(uow, owner, 2, claim(20, "worker-2"))
        make(uow, owner, 3)

    await store.write(fill)

    def ask(uow: UnitOfWork) -> list[tuple[JobId, str, Instant]]:
        return [(job.job_id, job.worker_id, job.claimed_at) for job in uow.directory.running(limit=10)]

    assert await store.read(Bulkhead.OPERATIONS, ask) == [
        (an_id(2), "worker-2", START + 20),
        (an_id(1), "worker-3", START + 70_000),
    ]
    assert len(await store.read(Bulkhead.OPERATIONS, lambda uow: uow.directory.running(limit=1))) == 1


@pytest.fixture
async def lives(store: Store, owner: User, clock: ManualClock) -> None:
    """Jobs that came and ended in several ways, a millisecond after the other, and the clock an hour later."""
    requeue = Requeue(
        now=Instant(START + 50), actor="operator", reason="mended", attempts=1, deadline_at=Instant(START + HOUR)
    )
    release = Release(now=Instant(START + 60), lease_token=TOKEN, longest_lease=LONGEST)

    def fill(uow: UnitOfWork) -> None:
        make(uow, owner, 1, claim(10), bury(20), requeue, claim(55, "worker-2"), release)
        make(uow, owner, 2, cancel(30))

    await store.write(fill)
    clock.advance(timedelta(hours=1))


@pytest.mark.usefixtures("lives")
class TestWhatHappened:
    """What the history says of the last stretch of time."""

    @pytest.mark.parametrize(
        ("since", "counts"),
        [
            (0, (2, 1, 0, 1, 1)),
            (1, (1, 1, 0, 1, 1)),
            (20, (0, 1, 0, 0, 1)),
            (30, (0, 1, 0, 0, 0)),
            (50, (0, 0, 0, 0, 0)),
        ],
    )
    async def test_comings_and_ends_are_counted(self, since: int, counts: tuple[int, ...], store: Store) -> None:
        """After the instant; claims, releases and retries are neither."""
        happened = await store.read(
            Bulkhead.OPERATIONS, lambda uow: uow.directory.happened(since=Instant(START + since))
        )
        assert happened == Happened(*counts)

    async def test_workers_are_told_with_what_they_last_did(self, store: Store) -> None:
        """Those that did something after the instant, and no one who works for no worker."""

        def asking(since: int) -> Callable[[UnitOfWork], dict[str, Instant]]:
            return lambda uow: uow.directory.workers(since=Instant(START + since))

        assert await store.read(Bulkhead.OPERATIONS, asking(0)) == {"worker-1": START + 20, "worker-2": START + 60}
        assert await store.read(Bulkhead.OPERATIONS, asking(20)) == {"worker-2": START + 60}
        assert await store.read(Bulkhead.OPERATIONS, asking(60)) == {}


@pytest.mark.usefixtures("lives")
async def test_what_a_clock_that_was_set_back_recorded_ahead_is_not_counted(store: Store, clock: ManualClock) -> None:
    """The window ends now."""
    clock.step(-timedelta(hours=1) + timedelta(milliseconds=5))
    now = clock.now()
    happened = await store.read(
        Bulkhead.OPERATIONS, lambda uow: uow.directory.happened(since=later(now, -timedelta(minutes=1)))
    )
    assert happened == Happened(2, 0, 0, 0, 0)
