"""The client: safe to repeat, and never content with a file that is not proven."""

import gzip
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import pytest

from adapters.system.clock import SystemClock
from entrypoints.client.answers import Export
from entrypoints.client.failures import BadKey, ClientFailure, OutOfReach, Refused, TimedOut, Unproven, WithoutResult
from entrypoints.client.session import Client, ImportMedia
from entrypoints.settings import ClientSettings
from tests.entrypoints.client.scripted import (
    EXPORT_ID,
    FILE,
    Scripted,
    Service,
    a_file,
    a_problem,
    an_export,
    scripted,
)
from tests.fakes import SequentialRandomness
from tests.processes import free_port

CREATE = "POST /v1/exports"
STATUS = f"GET /v1/exports/{EXPORT_ID}"
RESULT = f"GET /v1/exports/{EXPORT_ID}/result"
IMPORT = "POST /v1/tasks/import?on_error=skip"
BUSY = a_problem(503, "The service is busy")


def client_of(url: str, *, patience: timedelta = timedelta(seconds=10)) -> Client:
    """Return a client of the service at that address."""
    return Client(
        ClientSettings(url, "fp_x"), clock=SystemClock(), randomness=SequentialRandomness(), patience=patience
    )


@contextmanager
def session(**routes: Sequence[Scripted]) -> Iterator[tuple[Client, Service]]:
    """Run a service with these answers to create, status, result and import, and a client of it."""
    names = {"create": CREATE, "status": STATUS, "result": RESULT, "imports": IMPORT}
    with (
        scripted({names[name]: answers for name, answers in routes.items()}) as service,
        client_of(service.url) as client,
    ):
        yield client, service


def downloaded(*answers: Scripted, export: Scripted | None = None) -> bytes:
    """Return what a client makes of these answers to a download."""
    with session(status=[export or an_export()], result=answers) as (client, _):
        file = io.BytesIO()
        client.download(client.get_export(EXPORT_ID), file)
        return file.getvalue()


class TestRepeating:
    """Requests that are sent again."""

    @pytest.mark.parametrize("status", [429, 502, 503, 504])
    def test_a_request_is_sent_again_under_its_key_until_it_is_answered(self, status: int) -> None:
        """Whatever "later" looks like, the same key and body go out again, so that it is done once."""
        with session(create=[a_problem(status, "Later"), an_export("queued")]) as (client, service):
            export = client.create_export({"columns": ["title"]}, key="k")
        assert export.status == "queued"
        assert [request.headers["Idempotency-Key"] for request in service.received] == ["k", "k"]
        assert {request.body for request in service.received} == {b'{"columns":["title"]}'}

    def test_a_connection_that_breaks_is_tried_again(self) -> None:
        """An answer that is cut may have been the answer to a commit: the key tells."""
        cut = Scripted(202, an_export("queued").body, cut_after=3)
        with session(create=[cut, an_export("queued")]) as (client, service):
            assert client.create_export({}, key="k").status == "queued"
        assert service.routes() == [CREATE, CREATE]

    def test_a_file_is_sent_again_from_its_start(self) -> None:
        """Every import carries the whole file and its length."""
        done = Scripted(201, b'{"imported":1,"refused":0,"refused_rows":[]}')
        with session(imports=[BUSY, done]) as (client, service):
            outcome = client.import_file(io.BytesIO(FILE), ImportMedia.CSV, key="k", options={"on_error": "skip"})
        assert outcome.imported == 1
        assert [request.body for request in service.received] == [FILE, FILE]
        assert {request.headers["Content-Type"] for request in service.received} == {"text/csv"}

    def test_patience_ends(self) -> None:
        """A service that stays busy is given up on, with its own words."""
        with scripted({CREATE: [BUSY]}) as service, client_of(service.url, patience=timedelta(seconds=0.3)) as client:
            with pytest.raises(OutOfReach, match="the service says not now: The service is busy: what happened"):
                client.create_export({}, key="k")
            assert len(service.received) == 2

    def test_a_service_that_is_not_there_is_named(self) -> None:
        """The message has the address that was tried."""
        url = f"http://127.0.0.1:{free_port()}"
        with client_of(url, patience=timedelta()) as client, pytest.raises(OutOfReach, match=f"cannot reach {url}"):
            client.get_export(EXPORT_ID)

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 413, 415, 500])
    def test_a_refusal_is_not_asked_again(self, status: int) -> None:
        """What the service refuses once it refuses again; its title and detail are told."""
        with session(create=[a_problem(status, "No")]) as (client, service):
            with pytest.raises(Refused, match="No: what happened") as refusal:
                client.create_export({}, key="k")
            assert refusal.value.problem.status == status
            assert len(service.received) == 1


class TestKeys:
    """Idempotency keys on their way into a header."""

    @pytest.mark.parametrize(
        ("key", "field"), [("a.b-c_d~9", "a.b-c_d~9"), ("a b", '"a b"'), ("a,b;c", '"a,b;c"'), ('"\\', r'"\"\\"')]
    )
    def test_any_printable_key_arrives_as_it_is(self, key: str, field: str) -> None:
        """What a bare word cannot hold is quoted, as structured fields have it."""
        with session(create=[an_export("queued")]) as (client, service):
            client.create_export({}, key=key)
        assert service.received[0].headers["Idempotency-Key"] == field

    @pytest.mark.parametrize("key", ["", "\n", "ü"])
    def test_what_cannot_be_a_key_is_refused_before_it_is_sent(self, key: str) -> None:
        """The message shows it."""
        with session(create=[an_export("queued")]) as (client, service):
            with pytest.raises(BadKey, match="must be printable ASCII"):
                client.create_export({}, key=key)
            assert service.received == []


class TestWaiting:
    """Waiting for an export to end."""

    def test_it_ends_when_the_export_does(self) -> None:
        """Each answer is told, and the last one is returned."""
        heard: list[str] = []
        with session(status=[an_export("running"), an_export("succeeded")]) as (client, _):
            queued = Export(id=EXPORT_ID, status="queued", created_at="", attempt_count=0)
            ended = client.wait(
                queued, timeout=timedelta(seconds=30), on_progress=lambda export: heard.append(export.status)
            )
        assert ended.result is not None
        assert heard == ["running", "succeeded"]

    def test_it_gives_up_at_the_callers_limit(self) -> None:
        """The export goes on, and the message says so."""
        with session(status=[an_export("running")]) as (client, _):
            queued = Export(id=EXPORT_ID, status="queued", created_at="", attempt_count=0)
            with pytest.raises(TimedOut, match="running after 0 seconds; it goes on"):
                client.wait(queued, timeout=timedelta())


class TestDownloading:
    """Downloads, sound and not."""

    def test_a_plain_file_is_taken(self) -> None:
        """Length and both digests match."""
        assert downloaded(a_file()) == FILE

    def test_a_compressed_file_is_taken_plain(self) -> None:
        """The digest of the wire is of the gzip bytes, that of the export of the plain ones."""
        assert downloaded(a_file(gzip.compress(FILE), Content_Encoding="gzip")) == FILE

    def test_a_download_that_was_cut_begins_again(self) -> None:
        """What came before the cut is thrown away."""
        assert downloaded(a_file(cut_after=7), a_file()) == FILE

    @pytest.mark.parametrize(
        ("answer", "what"),
        [
            (a_file(cut_after=7), "the download was cut 4 times"),
            (a_file(FILE[:-1]), "length of the plain file"),
            (a_file(FILE.replace(b"W", b"w")), "digest of the plain file"),
            (Scripted(200, FILE), "Repr-Digest"),
            (a_file(Repr_Digest="sha-256=:AAAA:"), "Repr-Digest"),
            (a_file(Repr_Digest="sha-256=:not base64:"), "Repr-Digest"),
            (a_file(Content_Encoding="br"), "coding 'br'"),
            (a_file(FILE, Content_Encoding="gzip"), "gzip form is damaged"),
            (a_file(gzip.compress(FILE)[:-1], Content_Encoding="gzip"), "does not end where it should"),
            (a_file(gzip.compress(FILE) + b"more", Content_Encoding="gzip"), "does not end where it should"),
            (a_file(gzip.compress(FILE[:7]) + gzip.compress(FILE[7:]), Content_Encoding="gzip"), "does not end"),
        ],
    )
    def test_a_file_that_is_not_what_was_promised_is_refused(self, answer: Scripted, what: str) -> None:
        """Short, changed, without a digest, in another coding: each is named."""
        with pytest.raises(Unproven, match=what):
            downloaded(answer)

    @pytest.mark.parametrize(
        ("export", "why"),
        [
            (an_export("running"), "is running and has no file"),
            (an_export("failed", error={"code": "result_too_large", "detail": "too many rows"}), "result_too_large"),
            (an_export("cancelled", error={"code": "cancelled"}), "the export cancelled: cancelled"),
            (an_export(result=None, result_gone={"reason": "expired", "at": "then"}), "fresh key"),
        ],
    )
    def test_an_export_without_a_file_says_why(self, export: Scripted, why: str) -> None:
        """Nothing is asked for that is not there."""
        with pytest.raises(WithoutResult, match=why):
            downloaded(export=export)


class TestMistakes:
    """What a person can get wrong."""

    @pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://host", "http://", "http://[::1", "http://h:99999", ""])
    def test_what_is_no_address_is_refused(self, url: str) -> None:
        """The message shows what an address looks like."""
        with pytest.raises(ClientFailure, match="is not the address of a service"):
            client_of(url)

    @pytest.mark.parametrize("token", [None, "", "two words", "fp_\n", "fp_ü"])
    def test_what_is_no_token_is_refused(self, token: str | None) -> None:
        """The message says how to get one, and does not repeat what may be a secret."""
        with pytest.raises(ClientFailure, match="fencepost tokens issue"):
            Client(ClientSettings("http://127.0.0.1:1", token), clock=SystemClock(), randomness=SequentialRandomness())

    def test_a_page_that_is_no_fencepost_is_recognised(self) -> None:
        """Whatever else answers there is not taken for the service."""
        with (
            session(create=[Scripted(200, b"<html>hello")]) as (client, _),
            pytest.raises(OutOfReach, match="a Fencepost"),
        ):
            client.create_export({}, key="k")
