"""Settings: whatever the environment says, they can be used as they are, or one line says what is accepted."""

from typing import Final

import pytest
from msgspec.structs import fields

from domain.instants import Instant
from entrypoints.settings import PREFIX, Settings, SettingsError, accepted

VARIABLES: Final = {PREFIX + field.name.upper(): field for field in fields(Settings)}
NUMBERS: Final = [variable for variable, field in VARIABLES.items() if isinstance(field.default, int | float)]
EXTREMES: Final = ("", "x", "-1", "0", "1", "1e-300", "1e15", "1e300", "inf", "nan", "9" * 18, "9" * 30)


@pytest.mark.parametrize("text", EXTREMES)
@pytest.mark.parametrize("variable", NUMBERS)
def test_a_number_can_be_used_or_is_refused_by_name(variable: str, text: str) -> None:
    """However large or small: no number is taken that the rules cannot be made of."""
    try:
        settings = Settings.from_environment({variable: text})
    except SettingsError as refusal:
        assert variable in str(refusal)  # noqa: PT017 - both ways are right
    else:
        assert settings.policies.result.expires_at(Instant(0)) > 0


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("FENCEPOST_PORT", "x", "FENCEPOST_PORT='x' must be a whole number from 0 up to 65,535"),
        ("FENCEPOST_LOG_LEVEL", "loud", "must be debug, info, warning or error"),
        ("FENCEPOST_RETRY_CAP_SECONDS", "0", "must be a number above 0 up to 86,400"),
        ("FENCEPOST_DATABASE", "", "must be text that is not empty"),
        ("FENCEPOST_PUBLIC_BASE_URL", "tasks.example", "must be an http or https URL without query and fragment"),
        ("FENCEPOST_LEASE_SECONDS", "700", "must not exceed FENCEPOST_LONGEST_LEASE_SECONDS"),
        ("FENCEPOST_ATTEMPT_SECONDS", "181", "must not exceed FENCEPOST_LEASE_SECONDS"),
        ("FENCEPOST_BREAKER_PAUSE_SECONDS", "31", "must not exceed FENCEPOST_BREAKER_LONGEST_PAUSE_SECONDS"),
        ("FENCEPOST_RUNNING_PER_OWNER", "0", "must be a whole number from 1"),
        ("FENCEPOST_RETRY_FLOOR_SECONDS", "3000", "must not exceed FENCEPOST_RETRY_CAP_SECONDS"),
        ("FENCEPOST_MAINTENANCE_LEASE_SECONDS", "700", "must not exceed FENCEPOST_LONGEST_LEASE_SECONDS"),
        ("FENCEPOST_JOB_RETENTION_SECONDS", "608399", "must be at least the sum of"),
        ("FENCEPOST_RESULT_RETENTION_SECONDS", "2588401", "FENCEPOST_JOB_RETENTION_SECONDS must be at least"),
        ("FENCEPOST_DEADLINE_SECONDS", "5", "FENCEPOST_DEADLINE_SHORTEST_SECONDS must not exceed"),
    ],
)
def test_a_refusal_says_what_is_accepted(variable: str, text: str, said: str) -> None:
    """In one line, beside the variable; a value that only another setting excludes names that one."""
    with pytest.raises(SettingsError) as refusal:
        Settings.from_environment({variable: text})
    assert variable in str(refusal.value)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_every_setting_says_what_it_accepts() -> None:
    """The page of all settings and the refusals have it from one place."""
    assert all(accepted(field.name) for field in fields(Settings))
