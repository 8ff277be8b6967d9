"""A service that answers as it is told to: what no sound service does, a client must still survive."""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import msgspec
from msgspec import Struct

EXPORT_ID = "0198c0de-0000-7000-8000-000000000001"
FILE = b"title\r\nWater the plants\r\n"


class Scripted(Struct, frozen=True):
    """One answer; with `cut_after` the connection is closed after so many bytes of the body."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}
    cut_after: int | None = None


class Received(Struct, frozen=True):
    """One request that came in."""

    route: str
    headers: Mapping[str, str]
    body: bytes


class Service:
    """Answers each route with its scripted answers in turn, the last one for ever."""

    def __init__(self, script: Mapping[str, Sequence[Scripted]]) -> None:
        self._script = {route: [*answers] for route, answers in script.items()}
        self.received: list[Received] = []
        self.url = ""

    def answer(self, request: Received) -> Scripted:
        """Return what is answered to the request, and note that it came."""
        self.received.append(request)
        answers = self._script.get(request.route, [Scripted(404)])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def routes(self) -> list[str]:
        """Return the routes that were asked for, in order."""
        return [request.route for request in self.received]


@contextmanager
def scripted(script: Mapping[str, Sequence[Scripted]]) -> Iterator[Service]:
    """Run a scripted service on a free port of this host while the block runs."""
    service = Service(script)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            answer = service.answer(Received(f"{self.command} {self.path}", dict(self.headers.items()), body))
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body if answer.cut_after is None else answer.body[: answer.cut_after])
            self.close_connection = answer.cut_after is not None

    for method in ("GET", "POST"):
        setattr(Handler, f"do_{method}", Handler.respond)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        service.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield service
        finally:
            server.shutdown()
            thread.join()


def an_export(status: str = "succeeded", **members: object) -> Scripted:
    """Return the body of an export; a succeeded one has `FILE` as its file."""
    result = {
        "url": f"/v1/exports/{EXPORT_ID}/result",
        "bytes": len(FILE),
        "rows": 1,
        "sha256": sha256(FILE).hexdigest(),
        "formula_escaped_cells": 0,
        "snapshot_at": "2026-01-31T08:30:00Z",
        "expires_at": "2026-02-07T08:30:00Z",
    }
    body = {
        "id": EXPORT_ID,
        "status": status,
        "created_at": "2026-01-31T08:30:00Z",
        "attempt_count": 1,
        "result": result if status == "succeeded" else None,
        **members,
    }
    return Scripted(202 if status == "queued" else 200, msgspec.json.encode(body), {"Content-Type": "application/json"})


def a_file(content: bytes = FILE, *, cut_after: int | None = None, **headers: str) -> Scripted:
    """Return the answer to a download, with the digest of its bytes."""
    digest = f"sha-256=:{b64encode(sha256(content).digest()).decode()}:"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Scripted(200, content, {"Repr-Digest": digest, **named}, cut_after)


def a_problem(status: int, title: str, *, headers: Mapping[str, str] | None = None, **members: object) -> Scripted:
    """Return an RFC 9457 problem."""
    body = {"type": "/problems/x", "title": title, "status": status, "detail": "what happened", **members}
    return Scripted(status, msgspec.json.encode(body), {"Content-Type": "application/problem+json", **(headers or {})})
