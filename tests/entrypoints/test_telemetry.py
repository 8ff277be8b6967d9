"""Log lines: one JSON object each, and no secret in any of them."""

import json
import logging
import warnings

import pytest
from hypothesis import given, strategies as st
from structlog.contextvars import bound_contextvars

from domain.account import token_from
from domain.errors import StoreFull
from domain.export import JobId, LeaseToken
from domain.use_cases.work import Holder
from entrypoints.settings import LogFormat, LogLevel, Settings
from entrypoints.telemetry import LogEvent, configure, evidence_of, logger

pytestmark = pytest.mark.usefixtures("json_logs")

SECRET = "c2VjcmV0-of-256-bits-c2VjcmV0-of-256-bits_0"


def lines(capfd: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    """Return what was written so far, each line an object."""
    written = capfd.readouterr()
    assert written.out == ""
    return [json.loads(line) for line in written.err.splitlines()]


def test_an_event_is_one_json_line_with_its_context(capfd: pytest.CaptureFixture[str]) -> None:
    """A line holds when, how severe, what, its members, and what was bound around it."""
    with bound_contextvars(job_id="job"):
        logger().info(LogEvent.ATTEMPT_STARTED, attempt=1, missing=None, text="two\nlines")
    (line,) = lines(capfd)
    assert line.pop("at")
    assert line == {
        "level": "info",
        "event": "attempt.started",
        "attempt": 1,
        "job_id": "job",
        "missing": None,
        "text": "two\nlines",
    }


@pytest.mark.parametrize(
    "name", ["lease_token", "token", "Authorization", "authorization", "Set-Cookie", "password", "client_secret"]
)
def test_what_names_a_secret_is_not_written(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The member is left out with its value, at the top and at any depth."""
    logger().error("event", **{name: SECRET}, headers={name: SECRET}, deep=[{"deeper": ({name: SECRET},)}])
    (line,) = lines(capfd)
    assert SECRET not in json.dumps(line)
    assert name not in line
    assert line["headers"] == {}


def test_the_id_of_a_token_is_not_a_secret(capfd: pytest.CaptureFixture[str]) -> None:
    """Operators revoke a token by its id, so its id is written."""
    logger().info("event", token_id="0198c0de")
    assert lines(capfd)[0]["token_id"] == "0198c0de"


def test_a_bearer_token_inside_a_text_is_cut(capfd: pytest.CaptureFixture[str]) -> None:
    """A token that a sentence, a list or a library's line quotes is cut to its prefix."""
    token = token_from(SECRET)
    logger().info(f"sent {token}", quoted=[f"Bearer {token}"])
    logging.getLogger("library").warning("header %s", token)
    for line in lines(capfd):
        assert SECRET not in json.dumps(line)
        assert "fp_…" in json.dumps(line, ensure_ascii=False)


def test_what_is_not_plain_data_is_named_by_its_type(capfd: pytest.CaptureFixture[str]) -> None:
    """An object could hold a secret in a member or in its text: neither is written."""
    logger().info("event", holder=Holder(JobId("job"), 1, LeaseToken(SECRET)))
    (line,) = lines(capfd)
    assert line["holder"] == "<Holder>"


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.sampled_from(LogLevel),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
)


@given(value=JSON_LIKE)
def test_any_value_makes_a_line(value: object) -> None:
    """Huge integers, half surrogates, bytes and odd floats are written as something: logging never fails."""
    configure(Settings())
    logger().info("event", value=value)


def test_libraries_write_the_same_lines(capfd: pytest.CaptureFixture[str]) -> None:
    """What comes through `logging` and `warnings` is JSON too, with the name of who wrote it and its traceback."""
    try:
        int("broken")
    except ValueError:
        logging.getLogger("some.library").exception("it %s", "failed")
    misplaced_arguments = {"msg": "misplaced %d", "args": ("text",), "levelno": logging.ERROR}
    ours, *_ = (handler for handler in logging.getLogger().handlers if type(handler).__module__ == configure.__module__)
    ours.handle(logging.makeLogRecord(misplaced_arguments))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn_explicit("mind this", UserWarning, "file.py", 1)
    failed, misplaced, warned = lines(capfd)
    assert (failed["event"], failed["level"], failed["logger"]) == ("it failed", "error", "some.library")
    assert "ValueError: invalid literal" in str(failed["exception"])
    assert misplaced["event"] == "misplaced %d"
    assert (warned["level"], warned["logger"]) == ("warning", "py.warnings")


@pytest.mark.parametrize("library", ["aiosqlite", "httpcore.http11", "httpx"])
def test_libraries_that_would_write_secrets_are_quiet(library: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Even at the level debug, statements with their parameters and headers are not written."""
    configure(Settings(log_level=LogLevel.DEBUG))
    logging.getLogger(library).debug("executing %s", SECRET)
    logging.getLogger(library).info("executing %s", SECRET)
    logger().debug("event")
    assert [line["event"] for line in lines(capfd)] == ["event"]


def test_less_than_the_configured_level_is_not_written(capfd: pytest.CaptureFixture[str]) -> None:
    """From the configured severity on, for the program and for libraries."""
    configure(Settings(log_level=LogLevel.WARNING))
    logger().info("event")
    logging.getLogger("library").info("event")
    logger().warning("told")
    assert [line["event"] for line in lines(capfd)] == ["told"]


def test_text_is_for_people(capfd: pytest.CaptureFixture[str]) -> None:
    """The text format is no JSON, and holds the event, its members, and no secret."""
    configure(Settings(log_format=LogFormat.TEXT))
    logger().info("attempt.started", attempt=1, lease_token=SECRET)
    text = capfd.readouterr().err
    assert "attempt.started" in text
    assert "attempt" in text
    assert SECRET not in text
    assert not text.startswith("{")


def test_evidence_tells_where_and_not_what() -> None:
    """Of a defect: class, place and fingerprint. Its message can quote someone's task, so it is left out."""

    def fail(text: str) -> None:
        raise ValueError(text)

    found = []
    for text in ("buy milk", "call Ann"):
        try:
            fail(text)
        except ValueError as error:
            found.append(evidence_of(error))
    assert found[0]["error"] == "ValueError"
    assert str(found[0]["where"]).count("fail") == 1
    assert "milk" not in str(found)
    assert found[0]["fingerprint"] == found[1]["fingerprint"]


def test_evidence_of_a_refusal_has_its_sentence() -> None:
    """Our own refusals say what the matter is, in words that quote no one."""
    assert evidence_of(StoreFull("the disk is full"))["reason"] == "the disk is full"


def test_evidence_of_a_group_is_that_of_its_gravest_member() -> None:
    """What the log names is what decided about the export, not the group around it."""
    group = ExceptionGroup("several", [StoreFull("the disk is full"), KeyError("buy milk")])
    evidence = evidence_of(group)
    assert evidence == evidence_of(group.exceptions[1])
    assert (evidence["error"], "reason" in evidence) == ("KeyError", False)
