"""What an owner may state about a task: bounds, each fault named where it is, and text kept as it came."""

import pytest
from hypothesis import given, strategies as st
from msgspec import UNSET

from domain.errors import InputError
from domain.task import DESCRIPTION_LENGTH, PRIORITIES, TITLE_LENGTH, NewTask, TaskChange, TaskStatus, faults_of

# Everything but NUL and the surrogates: Hypothesis leaves the latter out by itself.
sound_texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))

TOO_SHORT_TITLE = "must have 1 to 500 characters and has 0"


def places(task: NewTask | TaskChange) -> list[str]:
    """Return where the faults of a task are."""
    return [fault.where for fault in faults_of(task)]


@given(sound_texts.filter(bool), sound_texts, st.sampled_from(PRIORITIES), st.sampled_from(TaskStatus))
def test_any_unicode_text_may_be_stated(title: str, description: str, priority: int, status: TaskStatus) -> None:
    """Within the lengths, control characters, white space, emoji and formulas are an owner's own business."""
    stated = NewTask(title=title[:TITLE_LENGTH], description=description, priority=priority, status=status)
    assert faults_of(stated) == ()
    assert faults_of(TaskChange(title=stated.title, description=description, priority=priority)) == ()


def test_lengths_are_counted_in_characters_up_to_and_with_the_limit() -> None:
    """A character outside the basic plane counts once, and the limit itself is allowed."""
    assert faults_of(NewTask(title="\U0001f600" * TITLE_LENGTH, description="\u00e9" * DESCRIPTION_LENGTH)) == ()
    assert places(NewTask(title="a" * (TITLE_LENGTH + 1))) == ["/title"]
    assert places(NewTask(title="a", description="a" * (DESCRIPTION_LENGTH + 1))) == ["/description"]


def test_a_cell_of_the_longest_description_fits_into_python_s_own_reader() -> None:
    """With the apostrophe of formula protection it stays below the reader's limit of 131,072 characters."""
    assert DESCRIPTION_LENGTH + 1 < 131_072


@pytest.mark.parametrize(
    ("task", "fault"),
    [
        (NewTask(title=""), InputError("/title", TOO_SHORT_TITLE)),
        (TaskChange(title=""), InputError("/title", TOO_SHORT_TITLE)),
        (NewTask(title="a" * 1234), InputError("/title", "must have 1 to 500 characters and has 1,234")),
        (NewTask(title="a\0b"), InputError("/title", "must not contain the NUL character")),
        (NewTask(title="a", description="\0"), InputError("/description", "must not contain the NUL character")),
        (NewTask(title="a\ud83d"), InputError("/title", "must be Unicode text without lone surrogates")),
        (
            TaskChange(description="\udfff\u00e9"),
            InputError("/description", "must be Unicode text without lone surrogates"),
        ),
        (NewTask(title="a", priority=0), InputError("/priority", "must be 1, 2, 3 or 4")),
        (NewTask(title="a", priority=5), InputError("/priority", "must be 1, 2, 3 or 4")),
        (TaskChange(priority=-1), InputError("/priority", "must be 1, 2, 3 or 4")),
    ],
    ids=[
        "empty title",
        "change to an empty title",
        "long title",
        "NUL in the title",
        "NUL in the description",
        "half a pair",
        "change to half a pair",
        "priority below",
        "priority above",
        "change to a priority below",
    ],
)
def test_a_fault_is_named_by_its_place_and_its_reason(task: NewTask | TaskChange, fault: InputError) -> None:
    """Each fault points at its member and says what would be right."""
    assert faults_of(task) == (fault,)


def test_all_faults_are_named_at_once() -> None:
    """Nobody has to mend a task one refusal after the other."""
    assert places(NewTask(title="", description="\0", priority=9)) == ["/title", "/description", "/priority"]


def test_every_lone_surrogate_is_refused_and_its_neighbours_are_not() -> None:
    """All 2,048 of them, and nothing beside them."""
    refused = {code for code in range(0xD7F0, 0xE010) if faults_of(NewTask(title=f"a{chr(code)}"))}
    assert refused == set(range(0xD800, 0xE000))


@pytest.mark.parametrize("length", [0, 501])
def test_a_surrogate_pair_that_was_joined_is_one_sound_character(length: int) -> None:
    """Characters from beyond the surrogates are not mistaken for half of a pair, in long texts either."""
    assert faults_of(NewTask(title="a", description="\ue000\U0001f600\ud7ff" + "\u00e9" * length)) == ()


def test_a_change_of_nothing_is_sound_and_touches_nothing() -> None:
    """Members that are left out stay unset, so that they cannot be confused with an empty value."""
    change = TaskChange()
    assert faults_of(change) == ()
    assert {change.title, change.description, change.status, change.priority, change.due_at} == {UNSET}
    assert TaskChange(due_at=None).due_at is None


def test_a_task_is_open_and_of_middling_priority_unless_stated() -> None:
    """The defaults are part of the contract."""
    stated = NewTask(title="a")
    assert (stated.status, stated.priority, stated.description) == (TaskStatus.OPEN, 3, "")


def test_the_words_and_numbers_of_a_task_are_those_of_its_contract() -> None:
    """Clients and files hold these values, so they do not change by accident."""
    assert [status.value for status in TaskStatus] == ["open", "in_progress", "done"]
    assert (PRIORITIES, TITLE_LENGTH, DESCRIPTION_LENGTH) == ((1, 2, 3, 4), 500, 100_000)
