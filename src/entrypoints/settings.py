"""How one deployment is configured: one row a setting, each with its default, its bounds and what it means.

The environment variable is the row's name in upper case behind `FENCEPOST_`. This is the only module that reads the
environment; a variable with that prefix that names no row is refused, since a misspelt limit is no limit.
"""

from collections.abc import Mapping
from datetime import timedelta
from enum import Enum, StrEnum
from os import environ
from pathlib import Path
from typing import Annotated, Final, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct

from domain.admission import AdmissionPolicy
from domain.policies import (
    BreakerPolicy,
    DeadlinePolicy,
    LeasePolicy,
    MaintenancePolicy,
    Policies,
    ResultPolicy,
    RetryPolicy,
)
from domain.rate import RatePolicy

PREFIX: Final = "FENCEPOST_"

_YEAR: Final = 31_536_000  # seconds

# What must not exceed what. An attempt is expected to end within its lease, and a lease by the longest one.
_IN_ORDER: Final = (
    ("lease_seconds", "longest_lease_seconds"),
    ("maintenance_lease_seconds", "longest_lease_seconds"),
    ("attempt_seconds", "lease_seconds"),
    ("retry_floor_seconds", "retry_cap_seconds"),
    ("breaker_pause_seconds", "breaker_longest_pause_seconds"),
    ("active_per_owner", "max_pending"),
    ("deadline_shortest_seconds", "deadline_seconds"),
    ("deadline_seconds", "deadline_longest_seconds"),
)


class LogFormat(StrEnum):
    """How a log line is written."""

    JSON = "json"
    TEXT = "text"


class LogLevel(StrEnum):
    """From which severity on a line is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class SettingsError(ValueError):
    """The configuration cannot be meant; the message names the variable and what is accepted."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of one process. Durations are in seconds, sizes in bytes."""

    database: Annotated[str, Meta(min_length=1, description="path of the SQLite database file")] = "fencepost.db"
    host: Annotated[str, Meta(min_length=1, description="address on which the API listens")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="port on which the API listens; 0 takes a free one")] = 8080
    public_base_url: Annotated[
        str,
        Meta(
            title="an http or https URL without query and fragment, or nothing",
            pattern="^(https?://[^/?#]+[^?#]*)?$",
            description="prefix of links in answers; empty makes them relative",
        ),
    ] = ""
    log_format: Annotated[LogFormat, Meta(description="json, or text for people")] = LogFormat.JSON
    log_level: Annotated[LogLevel, Meta(description="debug, info, warning or error")] = LogLevel.INFO

    lease_seconds: Annotated[
        float, Meta(ge=1, le=3600, description="how long a claim holds; longer than any legitimate attempt")
    ] = 180
    longest_lease_seconds: Annotated[
        float, Meta(ge=1, le=7200, description="a lease that seems to end later than this from now is dead")
    ] = 600
    running_per_owner: Annotated[
        int, Meta(ge=1, le=1000, description="exports of one owner that are processed at a time")
    ] = 2
    max_attempts: Annotated[int, Meta(ge=1, le=100, description="tries that count before an export fails")] = 5
    attempt_seconds: Annotated[
        float, Meta(ge=0, le=3600, description="how long a try takes; none begins that could not end by the deadline")
    ] = 2
    retry_floor_seconds: Annotated[float, Meta(gt=0, le=3600, description="delay before the second try")] = 2
    retry_cap_seconds: Annotated[
        float, Meta(gt=0, le=86400, description="longest delay before a try, jitter aside")
    ] = 120
    breaker_failures: Annotated[
        int, Meta(ge=1, le=100, description="failures in a row of disk or database after which a worker pauses")
    ] = 3
    breaker_pause_seconds: Annotated[
        float, Meta(gt=0, le=3600, description="pause before the first trial after that; doubled while trials fail")
    ] = 1
    breaker_longest_pause_seconds: Annotated[
        float, Meta(gt=0, le=3600, description="longest pause between two trials, jitter aside")
    ] = 30
    deadline_seconds: Annotated[
        int, Meta(ge=1, le=_YEAR, description="how long an export is worth doing, if not asked for")
    ] = 3600
    deadline_shortest_seconds: Annotated[
        int, Meta(ge=1, le=_YEAR, description="shortest deadline that may be asked for")
    ] = 10
    deadline_longest_seconds: Annotated[
        int, Meta(ge=1, le=_YEAR, description="longest deadline that may be asked for")
    ] = 86400
    result_max_rows: Annotated[int, Meta(ge=1, description="rows of the largest result")] = 2_000_000
    result_max_bytes: Annotated[int, Meta(ge=1024, description="bytes of the largest result, uncompressed")] = 1 << 30
    result_retention_seconds: Annotated[
        int, Meta(ge=1, le=100 * _YEAR, description="how long a result can be read")
    ] = 604_800
    download_seconds: Annotated[
        int, Meta(ge=0, le=_YEAR, description="how long a download that began before its result expired may take")
    ] = 3600
    job_retention_seconds: Annotated[
        int, Meta(ge=1, le=200 * _YEAR, description="how long an ended export and an idempotency key are kept")
    ] = 2_592_000

    max_pending: Annotated[
        int, Meta(ge=1, le=1_000_000, description="exports that may wait; more are refused until some are done")
    ] = 1000
    oldest_age_seconds: Annotated[
        float,
        Meta(ge=1, le=_YEAR, description="how long the oldest export may have waited for new ones to be accepted"),
    ] = 900
    active_per_owner: Annotated[
        int, Meta(ge=1, le=100_000, description="exports of one owner that have not ended; more are refused")
    ] = 100
    max_database_bytes: Annotated[
        int, Meta(ge=1 << 20, description="bytes in use in the database from which on new exports are refused")
    ] = 8 << 30
    min_free_bytes: Annotated[
        int, Meta(ge=0, description="bytes free on the database's volume below which new exports are refused")
    ] = 256 << 20
    requests_per_owner: Annotated[
        int, Meta(ge=1, description="requests of one owner in `requests_window_seconds`, and at once")
    ] = 6000
    requests_window_seconds: Annotated[
        int, Meta(ge=1, le=86400, description="the time that `requests_per_owner` is about")
    ] = 60
    api_processes: Annotated[
        int, Meta(ge=1, le=64, description="API processes on this database; each grants its part of the request rate")
    ] = 1

    write_wait_seconds: Annotated[
        float, Meta(gt=0, le=60, description="how long a write waits for the write lock; well under the lease")
    ] = 5
    read_wait_seconds: Annotated[float, Meta(gt=0, le=60, description="how long a read waits for a connection")] = 2
    read_connections: Annotated[int, Meta(ge=1, le=64, description="read connections of each bulkhead")] = 2

    max_body_bytes: Annotated[int, Meta(ge=1024, description="largest JSON request body")] = 1 << 20
    import_max_bytes: Annotated[int, Meta(ge=1024, description="largest file that can be imported")] = 256 << 20
    receive_seconds: Annotated[float, Meta(gt=0, le=3600, description="how long a JSON body may take to arrive")] = 10
    import_receive_seconds: Annotated[
        float, Meta(gt=0, le=86400, description="how long an imported file may take to arrive")
    ] = 600

    worker_poll_seconds: Annotated[float, Meta(gt=0, le=60, description="how often an idle worker looks for work")] = (
        0.2
    )
    holding_check_seconds: Annotated[
        float, Meta(gt=0, le=60, description="how often a working worker checks that the job is still its own")
    ] = 0.5
    maintenance_seconds: Annotated[
        float, Meta(gt=0, le=86400, description="how often a worker looks for what is over, and removes it")
    ] = 30
    maintenance_lease_seconds: Annotated[
        float, Meta(ge=1, le=3600, description="how long one worker maintains before another may")
    ] = 120
    maintenance_budget_seconds: Annotated[
        float, Meta(gt=0, le=3600, description="how long one look may work before it leaves the rest to the next")
    ] = 10
    drain_seconds: Annotated[
        float, Meta(gt=0, le=3600, description="how long a stopping process may finish what it began")
    ] = 20

    @classmethod
    def from_environment(cls, variables: Mapping[str, str] = environ) -> "Settings":
        """Return the settings that the variables state, with defaults for the others.

        Raises:
            SettingsError: a variable is unknown or its value is not accepted.
        """
        stated = {
            name.removeprefix(PREFIX).lower(): text for name, text in variables.items() if name.startswith(PREFIX)
        }
        # The client's own two variables share the prefix: they say where a server is, not how one behaves.
        for name in CLIENT_VARIABLES:
            stated.pop(name.removeprefix(PREFIX).lower(), None)
        for name in stated.keys() - get_type_hints(cls).keys():
            raise SettingsError(f"{PREFIX}{name.upper()} is not a setting; `fencepost settings` lists them all")
        for name, text in stated.items():
            try:
                msgspec.convert(text, get_type_hints(cls, include_extras=True)[name], strict=False)
            except msgspec.ValidationError as error:
                raise SettingsError(f"{PREFIX}{name.upper()}={text!r} must be {accepted(name)}") from error
        try:
            return msgspec.convert(stated, cls, strict=False)
        except msgspec.ValidationError as error:
            # The refusal of `__post_init__`, which msgspec has wrapped.
            raise SettingsError(str(error)) from error

    def to_environment(self, variables: Mapping[str, str] = environ) -> dict[str, str]:
        """Return the environment of a process that is to have these settings: `variables`, and each setting stated."""
        stated = msgspec.to_builtins(self)
        return {**variables, **{PREFIX + name.upper(): str(value) for name, value in stated.items()}}

    def __post_init__(self) -> None:
        """Check what no single row can say."""
        for shorter, longer in _IN_ORDER:
            if getattr(self, shorter) > getattr(self, longer):
                raise SettingsError(f"{PREFIX}{shorter.upper()} must not exceed {PREFIX}{longer.upper()}")
        if self.write_wait_seconds * 2 > self.lease_seconds and self.write_wait_seconds > 1:
            raise SettingsError(f"{PREFIX}WRITE_WAIT_SECONDS must be at most half of {PREFIX}LEASE_SECONDS")
        if self.job_retention_seconds < self.result_retention_seconds + self.download_seconds:
            raise SettingsError(
                f"{PREFIX}JOB_RETENTION_SECONDS must be at least the sum of {PREFIX}RESULT_RETENTION_SECONDS and "
                f"{PREFIX}DOWNLOAD_SECONDS: a result is not kept longer than its export"
            )

    @property
    def database_path(self) -> Path:
        """The database file."""
        return Path(self.database)

    @property
    def policies(self) -> Policies:
        """The rules of the domain, as configured."""
        return Policies(
            lease=LeasePolicy(
                timedelta(seconds=self.lease_seconds),
                timedelta(seconds=self.longest_lease_seconds),
                self.running_per_owner,
            ),
            retry=RetryPolicy(
                self.max_attempts,
                timedelta(seconds=self.retry_floor_seconds),
                timedelta(seconds=self.retry_cap_seconds),
                timedelta(seconds=self.attempt_seconds),
            ),
            breaker=BreakerPolicy(
                self.breaker_failures,
                timedelta(seconds=self.breaker_pause_seconds),
                timedelta(seconds=self.breaker_longest_pause_seconds),
            ),
            deadline=DeadlinePolicy(
                timedelta(seconds=self.deadline_seconds),
                timedelta(seconds=self.deadline_shortest_seconds),
                timedelta(seconds=self.deadline_longest_seconds),
            ),
            result=ResultPolicy(
                self.result_max_rows, self.result_max_bytes, timedelta(seconds=self.result_retention_seconds)
            ),
            admission=AdmissionPolicy(
                max_pending=self.max_pending,
                oldest_age=timedelta(seconds=self.oldest_age_seconds),
                max_database_bytes=self.max_database_bytes,
                min_free_bytes=self.min_free_bytes,
                active_per_owner=self.active_per_owner,
                assumed=timedelta(seconds=self.attempt_seconds),
            ),
            requests=RatePolicy(self.requests_per_owner, self.requests_window_seconds),
            maintenance=MaintenancePolicy(
                lease=timedelta(seconds=self.maintenance_lease_seconds),
                longest_lease=timedelta(seconds=self.longest_lease_seconds),
                download=timedelta(seconds=self.download_seconds),
                retention=timedelta(seconds=self.job_retention_seconds),
            ),
        )


def accepted(name: str) -> str:
    """Return in words which values a setting takes."""
    hint = get_type_hints(Settings, include_extras=True)[name]
    kind, meta = get_args(hint)
    if meta.title is not None:
        return str(meta.title)
    if issubclass(kind, Enum):
        *words, last = (member.value for member in kind)
        return f"{', '.join(words)} or {last}"
    bounds = [
        f"{word} {bound:,}"
        for word, bound in (("from", meta.ge), ("above", meta.gt), ("up to", meta.le), ("below", meta.lt))
        if bound is not None
    ]
    noun = {int: "a whole number", float: "a number", str: "text that is not empty"}[kind]
    return " ".join([noun, *bounds])


CLIENT_VARIABLES: Final = (PREFIX + "URL", PREFIX + "TOKEN")


class ClientSettings(Struct, frozen=True):
    """Where a client of the service finds it."""

    url: str
    token: str | None

    @classmethod
    def from_environment(cls, variables: Mapping[str, str] = environ) -> "ClientSettings":
        """Return what `FENCEPOST_URL` and `FENCEPOST_TOKEN` state."""
        url, token = (variables.get(name) for name in CLIENT_VARIABLES)
        return cls(url or "http://127.0.0.1:8080", token)
