"""The arithmetic of retries and retention, and the table that says what each failure means."""

from datetime import timedelta

import pytest
from hypothesis import example, given, strategies as st

from domain.errors import (
    ChunkDamaged,
    EnvironmentFailure,
    GuardRefused,
    InvalidParameters,
    NotHolding,
    OutcomeUnknown,
    OwnerDisabled,
    OwnershipViolation,
    PermanentFailure,
    PoolExhausted,
    ProtocolRefusal,
    Refusal,
    ResultTooLarge,
    StoreBusy,
    StoreFull,
    StoreUnavailable,
)
from domain.export import ErrorCode, Failure, FailureKind
from domain.instants import EARLIEST, LATEST, Instant, later
from domain.policies import Breaker, BreakerPolicy, ResultPolicy, RetryPolicy, classify, evidence_of, gravest

FLOOR = timedelta(seconds=2)
CAP = timedelta(seconds=120)
TRY = timedelta(seconds=2)
RETRY = RetryPolicy(max_attempts=5, floor=FLOOR, cap=CAP, attempt=TRY)

# As wide as the settings allow: a floor of up to an hour, a cap of up to a day.
policies = st.builds(
    lambda floor, factor: RetryPolicy(5, floor, min(floor * factor, timedelta(days=1)), TRY),
    st.timedeltas(timedelta(microseconds=1), timedelta(hours=1)),
    st.integers(1, 10**6),
)
attempts = st.integers(1, 10**9)
jitters = st.floats(0, 1, exclude_max=True)


# ── Backoff ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_jitter_the_delay_doubles_from_the_floor_to_the_cap() -> None:
    """The series as it is configured by default."""
    delays = [RETRY.delay(attempt, jitter=0) / timedelta(seconds=1) for attempt in range(1, 10)]
    assert delays == [2, 4, 8, 16, 32, 64, 120, 120, 120]


@given(policies, attempts, jitters)
@example(RetryPolicy(5, timedelta(hours=1), timedelta(days=1), TRY), 10**9, 0.999)
def test_the_delay_lies_between_the_floor_and_one_and_a_half_caps(
    policy: RetryPolicy, attempt: int, jitter: float
) -> None:
    """No attempt, however late, waits less than the floor or overflows."""
    assert policy.floor <= policy.delay(attempt, jitter=jitter) <= policy.cap * 1.5


@given(policies, attempts, jitters)
def test_jitter_only_adds(policy: RetryPolicy, attempt: int, jitter: float) -> None:
    """Jitter makes a delay longer by less than a half, and never shorter."""
    plain = policy.delay(attempt, jitter=0)
    # A microsecond for the rounding of what is added.
    assert plain <= policy.delay(attempt, jitter=jitter) <= plain * 1.5 + timedelta(microseconds=1)


@given(policies, attempts, jitters, jitters)
def test_more_jitter_is_more_delay(policy: RetryPolicy, attempt: int, first: float, second: float) -> None:
    """Jobs that failed together come back in the order of their draws."""
    delays = [policy.delay(attempt, jitter=jitter) for jitter in sorted([first, second])]
    assert delays == sorted(delays)


def test_jitter_spreads_a_delay_over_half_of_itself() -> None:
    """A draw of one half adds a quarter."""
    assert RETRY.delay(3, jitter=0.5) == timedelta(seconds=10)


@given(policies, st.integers(1, 100))
def test_later_attempts_never_wait_less(policy: RetryPolicy, attempt: int) -> None:
    """Each delay is at most twice the one before it, and at least as long."""
    this, following = (policy.delay(number, jitter=0) for number in (attempt, attempt + 1))
    assert this <= following <= this * 2


@pytest.mark.parametrize("attempt", [0, -1])
def test_an_attempt_that_never_was_waits_for_the_floor(attempt: int) -> None:
    """Attempts count from one; anything less is not a reason to wait less."""
    assert RETRY.delay(attempt, jitter=0) == FLOOR


# ── Retention ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.integers(EARLIEST, LATEST).map(Instant), st.timedeltas(timedelta(seconds=1), timedelta(days=10**6)))
def test_a_result_can_be_read_for_its_retention(now: Instant, retention: timedelta) -> None:
    """It expires its retention after it was committed, or at the end of time."""
    expires_at = ResultPolicy(max_rows=1, max_bytes=1, retention=retention).expires_at(now)
    assert expires_at == later(now, retention)
    assert now < expires_at or now == LATEST


# ── Failures ──────────────────────────────────────────────────────────────────────────────────────────────────────────

SECRET = "Buy flowers for Ann; =cmd|' /C calc'!A0"


ENVIRONMENT = (FailureKind.ENVIRONMENT, None)
UNKNOWN = (FailureKind.TRANSIENT, ErrorCode.INTERNAL_ERROR)
MEANINGS: dict[type[BaseException], tuple[FailureKind, ErrorCode | None]] = {
    EnvironmentFailure: ENVIRONMENT,
    StoreBusy: ENVIRONMENT,
    PoolExhausted: ENVIRONMENT,
    StoreFull: ENVIRONMENT,
    StoreUnavailable: ENVIRONMENT,
    OutcomeUnknown: ENVIRONMENT,
    InvalidParameters: (FailureKind.PERMANENT, ErrorCode.INVALID_PARAMETERS),
    OwnerDisabled: (FailureKind.PERMANENT, ErrorCode.OWNER_DISABLED),
    OwnershipViolation: (FailureKind.PERMANENT, ErrorCode.OWNERSHIP_VIOLATION),
    ResultTooLarge: (FailureKind.PERMANENT, ErrorCode.RESULT_TOO_LARGE),
    ChunkDamaged: UNKNOWN,
    Refusal: UNKNOWN,
    Exception: UNKNOWN,
    BaseException: UNKNOWN,
    KeyError: UNKNOWN,
    MemoryError: UNKNOWN,
    RecursionError: UNKNOWN,
    OSError: UNKNOWN,
    TimeoutError: UNKNOWN,
    KeyboardInterrupt: UNKNOWN,
    AssertionError: UNKNOWN,
}


def leaves(kind: type[BaseException]) -> set[type[BaseException]]:
    """Return the kinds of refusal that the domain defines below this one, without further kinds of their own."""
    below = {leaf for child in kind.__subclasses__() if child.__module__ == "domain.errors" for leaf in leaves(child)}
    return below or {kind}


def test_every_failure_that_the_domain_names_has_its_meaning_stated() -> None:
    """A new kind of permanent or environment failure needs a row of the table and a line above."""
    assert (leaves(PermanentFailure) | leaves(EnvironmentFailure)) - set(MEANINGS) == set()


@pytest.mark.parametrize("kind", MEANINGS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("derive", [False, True], ids=["itself", "a kind of it"])
def test_each_failure_means_what_the_protocol_says(kind: type[BaseException], *, derive: bool) -> None:
    """The kind of failure and the code that clients see follow from the exception's class, or its nearest base."""
    raised = type("Derived", (kind,), {}) if derive else kind
    found = classify(raised(SECRET))
    assert (found.kind, found.code) == MEANINGS[kind]
    assert found.error_class == raised.__name__
    assert found.message == (SECRET if issubclass(kind, Refusal) else None)


@pytest.mark.parametrize("refusal", [NotHolding, GuardRefused])
def test_a_refusal_of_the_protocol_is_a_defect_like_any_other(refusal: type[ProtocolRefusal]) -> None:
    """Should one reach the table, it is retried within the budget and ends as an internal error."""
    found = classify(refusal(job_id="job", event="complete", status="running", rule="not: holds"))
    assert (found.kind, found.code, found.error_class) == (*UNKNOWN, refusal.__name__)


@given(st.text(min_size=1))
def test_a_failure_never_quotes_what_is_not_a_sentence_of_ours(message: str) -> None:
    """A message can hold an owner's text, so nothing of a failure depends on it, and its causes add nothing."""
    error = ValueError(message)
    error.__cause__ = KeyError(message)
    error.add_note(message)
    assert classify(error) == Failure(*UNKNOWN, "ValueError", evidence_of(ValueError()).fingerprint)


@given(st.sampled_from(sorted(MEANINGS, key=lambda kind: kind.__name__)))
def test_only_permanent_failures_need_no_further_try(kind: type[BaseException]) -> None:
    """A permanent failure always has a code of its own, and an environment failure never shows one."""
    found = classify(kind(SECRET))
    assert (found.code is None) is (found.kind is FailureKind.ENVIRONMENT)
    assert (found.kind is FailureKind.PERMANENT) is issubclass(kind, PermanentFailure)


# ── Groups of exceptions ──────────────────────────────────────────────────────────────────────────────────────────────

GRAVEST_FIRST = (OwnershipViolation, InvalidParameters, OwnerDisabled, ResultTooLarge, KeyError, StoreBusy)


def nested(errors: list[BaseException], depth: int) -> BaseException:
    """Return the errors as the only content of that many groups within each other."""
    group: BaseException = BaseExceptionGroup("several", errors)
    for _ in range(depth):
        group = BaseExceptionGroup("one", [group])
    return group


@given(st.lists(st.sampled_from(GRAVEST_FIRST), min_size=1, max_size=6), st.integers(0, 3))
def test_a_group_is_its_gravest_member(kinds: list[type[BaseException]], depth: int) -> None:
    """However deep it lies, what ends the export outweighs what uses its budget, and that outweighs an excuse."""
    gravest_kind = min(kinds, key=GRAVEST_FIRST.index)
    group = nested([kind("x") for kind in kinds], depth)
    found, alone = classify(group), classify(gravest_kind("x"))
    assert (found.kind, found.code, found.error_class) == (alone.kind, alone.code, gravest_kind.__name__)


def test_of_equally_grave_members_the_first_is_told() -> None:
    """The evidence is of what went wrong first, at whichever depth it lies."""
    first, second, third = KeyError("first"), KeyError("second"), KeyError("third")
    assert gravest(ExceptionGroup("several", [ExceptionGroup("inner", [first, second]), third])) is first


def test_a_group_of_one_is_that_one() -> None:
    """The evidence is of what happened, and not of the group around it; a thousand groups are no reason to fail."""
    error = StoreFull("the disk is full")
    assert gravest(nested([error], 1000)) is error
    assert classify(nested([error], 1)) == classify(error)


# ── Evidence ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def fail_with(error: BaseException, variable: str = "") -> BaseException:
    """Raise and catch the error where a variable has such a value."""

    def fail(quoted: str) -> None:
        assert quoted == variable
        raise error

    with pytest.raises(type(error)) as raised:
        fail(variable)
    return raised.value


@given(st.text(min_size=8), st.text(min_size=8))
def test_evidence_holds_nothing_of_messages_and_variables(message: str, variable: str) -> None:
    """Whatever an exception says, and whatever lies in the frames it came through: the evidence is the same."""
    assert evidence_of(fail_with(ValueError(message), variable)) == evidence_of(fail_with(ValueError("other"), "other"))


def test_a_fingerprint_tells_defects_apart_by_class_and_place() -> None:
    """The same class from another place, and another class from the same place, have other fingerprints."""

    def elsewhere() -> BaseException:
        return fail_with(ValueError())

    def nowhere() -> BaseException:
        return ValueError()

    errors = [fail_with(ValueError()), fail_with(KeyError()), nowhere()]
    assert len({evidence_of(error).fingerprint for error in errors}) == len(errors)
    assert evidence_of(elsewhere()) == evidence_of(fail_with(ValueError()))


def test_evidence_names_the_innermost_places() -> None:
    """Of a deep stack the last eight places are told, the one that raised at the end."""

    def dig(depth: int) -> None:
        if depth == 0:
            raise LookupError
        dig(depth - 1)

    with pytest.raises(LookupError) as raised:
        dig(50)
    where = evidence_of(raised.value).where
    assert len(where) == 8
    assert all(place.startswith(f"{__name__}.dig:") for place in where)


def test_a_sentence_of_ours_is_cut_to_a_bounded_length() -> None:
    """However long a refusal's sentence is, a line of history stays small."""
    message = evidence_of(StoreUnavailable("x" * 10_000)).message
    assert message == "x" * 500


# ── Circuit breaker ───────────────────────────────────────────────────────────────────────────────────────────────────

CLOSED = Breaker(BreakerPolicy(failures=3, pause=timedelta(seconds=1), longest_pause=timedelta(seconds=30)))


def failed(breaker: Breaker, *, times: int, now: float = 0.0, jitter: float = 0.0) -> Breaker:
    """Return the breaker after that many failures in a row."""
    for _ in range(times):
        breaker = breaker.failed(now, jitter=jitter)
    return breaker


def test_a_few_failures_leave_the_breaker_closed() -> None:
    """Less than the stated number in a row stop nothing."""
    breaker = failed(CLOSED, times=2)
    assert not breaker.is_open
    assert breaker.lets_through(0)


def test_several_failures_in_a_row_open_it_for_one_pause() -> None:
    """The third one stops the claiming; after the pause one trial goes through."""
    breaker = failed(CLOSED, times=3, now=100)
    assert breaker.is_open
    assert not breaker.lets_through(100)
    assert not breaker.lets_through(100.999)
    assert breaker.lets_through(101)


def test_a_trial_that_fails_opens_it_for_twice_as_long() -> None:
    """There is one trial after each pause, and the pauses double."""
    breaker = failed(failed(CLOSED, times=3, now=100), times=1, now=101)
    assert not breaker.lets_through(102.999)
    assert breaker.lets_through(103)


def test_one_success_closes_it() -> None:
    """After a success it is as it was at first: it takes as many failures to open it again."""
    assert failed(CLOSED, times=9).succeeded() == CLOSED
    assert not failed(failed(CLOSED, times=2).succeeded(), times=2).is_open


@given(st.integers(3, 10**6), st.floats(0, 10**6), jitters)
def test_pauses_double_up_to_the_longest_and_jitter_only_adds(failures: int, now: float, jitter: float) -> None:
    """However many trials fail, a pause is between the plain one and one and a half of it."""
    breaker = Breaker(CLOSED.policy, failures - 1).failed(now, jitter=jitter)
    plain = min(30, 2 ** min(failures - 3, 10))
    # A microsecond for the rounding of sums.
    assert plain - 1e-6 <= breaker.next_trial_at - now <= plain * 1.5 + 1e-6
