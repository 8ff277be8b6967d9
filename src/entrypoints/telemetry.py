"""Logs: how a process writes them, what happens by which name, and what is never written.

One line an event, to standard error: JSON for machines, text for people. The lines of libraries take the same way.
"""

import logging
import os
import re
from collections.abc import Mapping
from enum import Enum, StrEnum
from pathlib import PurePath
from typing import Final, cast

import msgspec
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from domain import policies
from domain.account import TOKEN_PREFIX
from entrypoints.settings import LogFormat, LogLevel, Settings


class LogEvent(StrEnum):
    """What processes tell about themselves. Dashboards and alerts are built on these words."""

    SERVICE_READY = "service.ready"
    SERVICE_STOPPING = "service.stopping"
    SERVICE_STOPPED = "service.stopped"
    SERVICE_RENEWING = "service.renewing"
    CHILD_STARTED = "child.started"
    CHILD_NOT_STARTED = "child.not_started"
    CHILD_EXITED = "child.exited"
    CHILD_GIVEN_UP = "child.given_up"
    CHILD_KILLED = "child.killed"

    API_READY = "api.ready"
    API_DRAINING = "api.draining"
    API_STOPPED = "api.stopped"
    REQUEST_FINISHED = "request.finished"
    REQUEST_FAILED = "request.failed"
    DOWNLOAD_CUT = "download.cut"
    RESULT_DAMAGED = "result.damaged"
    IMPORT_LEFT_BEHIND = "import.left_behind"

    WORKER_STARTED = "worker.started"
    WORKER_DRAINING = "worker.draining"
    WORKER_STOPPED = "worker.stopped"
    WORKER_STUCK = "worker.stuck"
    STORE_FAILED = "store.failed"
    BREAKER_OPENED = "breaker.opened"
    BREAKER_CLOSED = "breaker.closed"
    CLOCK_JUMPED = "clock.jumped"

    MAINTENANCE_TAKEN = "maintenance.taken"
    MAINTENANCE_DONE = "maintenance.done"
    MAINTENANCE_LOST = "maintenance.lost"

    ATTEMPT_STARTED = "attempt.started"
    ATTEMPT_SUCCEEDED = "attempt.succeeded"
    ATTEMPT_FAILED = "attempt.failed"
    ATTEMPT_LOST = "attempt.lost"
    ATTEMPT_RELEASED = "attempt.released"
    OWNERSHIP_VIOLATED = "ownership.violated"


def logger() -> FilteringBoundLogger:
    """Return the logger of this process; it may be asked for before `configure`."""
    return cast("FilteringBoundLogger", structlog.get_logger())


def configure(settings: Settings) -> None:
    """Send every log line of this process, those of libraries included, to standard error as configured."""
    level = _LEVELS[settings.log_level]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            # Plain tracebacks: the ones for people would show the local variables, and secrets among them.
            structlog.processors.format_exc_info,
            scrub,
            _renderer(settings.log_format),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_StandardError,
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(handlers=[_Forwarding()], level=level, force=True)
    logging.captureWarnings(capture=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


_LEVELS: Final = {
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.INFO: logging.INFO,
    LogLevel.WARNING: logging.WARNING,
    LogLevel.ERROR: logging.ERROR,
}

# They write every statement with its parameters, every request header, or every step of the protocol: with secrets
# among them, or far too much.
_QUIET: Final = ("aiosqlite", "asyncio", "httpcore", "httpx", "transitions")

_STANDARD_ERROR: Final = 2


class _StandardError:
    """Writes a line in one go, so that the lines of several processes do not mix."""

    def __init__(self, *_: object) -> None:
        pass

    def msg(self, line: bytes) -> None:
        try:
            os.write(_STANDARD_ERROR, line + b"\n")
        except OSError:
            # The terminal is gone, or the reader of the pipe: the work goes on without its log.
            return

    log = debug = info = warning = error = critical = msg


class _Forwarding(logging.Handler):
    """Hands what libraries write through `logging` over to the same processors."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            text = str(record.msg)
        severity = min(max(record.levelno // 10 * 10, logging.DEBUG), logging.CRITICAL)
        logger().log(severity, text, logger=record.name, exc_info=record.exc_info)


def _renderer(log_format: LogFormat) -> Processor:
    if log_format is LogFormat.JSON:
        return _json_line
    console = structlog.dev.ConsoleRenderer(
        colors=os.isatty(_STANDARD_ERROR), exception_formatter=structlog.dev.plain_traceback, timestamp_key="at"
    )

    def text_line(wrapped: WrappedLogger, method: str, event: EventDict) -> bytes:
        return str(console(wrapped, method, event)).encode()

    return text_line


def _json_line(_: WrappedLogger, __: str, event: EventDict) -> bytes:
    leading = {name: event.pop(name) for name in ("at", "level", "event") if name in event}
    return msgspec.json.encode({**leading, **event})


# ── What is never written ─────────────────────────────────────────────────────────────────────────────────────────────

_SECRET: Final = re.compile(r"(^|_)(token|secret|password|authorization|cookie)$")
_BEARER: Final = re.compile(rf"{TOKEN_PREFIX}[A-Za-z0-9_-]{{16,}}")
_LARGEST_INTEGER: Final = 2**63 - 1


def scrub(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Take out what names a secret, at any depth, and bearer tokens inside any text.

    A value that is not plain data is named by its type only: its text, or its members, could hold a secret.
    """
    return cast("EventDict", _scrubbed(event))


def _scrubbed(value: object) -> object:
    match value:
        case Mapping():
            return {str(name): _scrubbed(member) for name, member in value.items() if not _names_a_secret(str(name))}
        case list() | tuple() | set() | frozenset():
            return [_scrubbed(member) for member in value]
        case Enum():
            return _scrubbed(value.value)
        case str() | PurePath():
            # Half of a surrogate pair can come in by a request, and cannot be written.
            return _BEARER.sub(TOKEN_PREFIX + "…", str(value)).encode(errors="backslashreplace").decode()
        case None | bool() | int() | float():
            return str(value) if isinstance(value, int) and abs(value) > _LARGEST_INTEGER else value
        case _:
            return f"<{type(value).__name__}>"


def _names_a_secret(name: str) -> bool:
    return _SECRET.search(name.lower().replace("-", "_")) is not None


# ── What is told of a failure ─────────────────────────────────────────────────────────────────────────────────────────


def evidence_of(error: BaseException) -> dict[str, object]:
    """Return an exception's evidence as members of a log line; of a group, that of its gravest member."""
    evidence = policies.evidence_of(policies.gravest(error))
    told: dict[str, object] = {
        "error": evidence.error_class,
        "fingerprint": evidence.fingerprint,
        "where": evidence.where,
    }
    if evidence.message is not None:
        told["reason"] = evidence.message
    return told
