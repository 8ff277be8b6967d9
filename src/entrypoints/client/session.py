"""The client: create an export, wait for it, download it, prove it; import a file."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum
from io import SEEK_END
from re import compile as pattern
from typing import BinaryIO, Final, Self, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec

from domain.ports import Clock, Randomness
from entrypoints.client.answers import Export, Imported, Problem, ResultFile
from entrypoints.client.failures import (
    BadConnection,
    BadKey,
    ClientFailure,
    OutOfReach,
    Refused,
    TimedOut,
    Unproven,
    WithoutResult,
)
from entrypoints.client.proving import Arriving, Proof
from entrypoints.settings import ClientSettings

T = TypeVar("T")

# Answers that say "not now" of the service or of a proxy before it; the same request, by its key, can be sent again.
_LATER: Final = frozenset({429, 502, 503, 504})
_FIRST_PAUSE_SECONDS: Final = 0.2
_LONGEST_PAUSE_SECONDS: Final = 10.0
_TIMES_TO_DOWNLOAD: Final = 4
_BARE_KEY: Final = pattern(r"[A-Za-z0-9._~-]+")
# What the system says, without the number that it has for it.
_NUMBERED: Final = pattern(r"^\[Errno -?\d+\] ")
_PIECE: Final = 1 << 16

# A large import is answered when it is committed; an upload or a download only has to keep moving.
_LIMITS: Final = httpx.Timeout(connect=5, read=300, write=60, pool=5)

_ADVICE: Final = {
    401: "Set FENCEPOST_TOKEN to a token in force (`fencepost tokens issue NAME` makes one).",
    403: "Issue a token with the scope that is missing (`fencepost tokens issue NAME --scope …`).",
    409: "Take a fresh key, or send what was sent under this one.",
}


class ImportMedia(StrEnum):
    """The kinds of file that can be imported, by media type."""

    CSV = "text/csv"
    JSON_LINES = "application/jsonl"


class Client:
    """A session with one service on behalf of one owner.

    `patience` is how long it keeps trying while the service is out of reach or busy; `on_trouble` hears of each such
    moment. Requests that change something carry a key, so trying again never does a thing twice.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        clock: Clock,
        randomness: Randomness,
        patience: timedelta = timedelta(seconds=30),
        on_trouble: Callable[[str], None] = lambda _: None,
    ) -> None:
        host = _host_of(settings.url)
        token = settings.token or ""
        if not (token.isascii() and token.isprintable() and token and " " not in token):
            raise BadConnection(f"there is no token, or what is given is none. {_ADVICE[401]}")
        self._url = settings.url.rstrip("/")
        self._clock = clock
        self._randomness = randomness
        self._patience_seconds = patience.total_seconds()
        self._on_trouble = on_trouble
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {token}", "User-Agent": "fencepost-client"},
            timeout=_LIMITS,
            # What a proxy for the outside is set up for is not on this machine.
            trust_env=host not in {"127.0.0.1", "::1", "localhost"},
        )

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self._http.close()

    def new_key(self) -> str:
        """Return an idempotency key that no one used before."""
        return self._randomness.new_id()

    def create_export(self, parameters: Mapping[str, object], *, key: str) -> Export:
        """Ask for an export, or find the one that was asked for under this key.

        Raises:
            Refused: the parameters are not accepted, or the key was used with others.
            OutOfReach: no answer in time. Whether there is an export now, the same key tells.
        """
        headers = {"Idempotency-Key": _key_field(key)}
        return self._answer(
            lambda: self._http.post(f"{self._url}/v1/exports", json=dict(parameters), headers=headers), Export
        )

    def get_export(self, export_id: str) -> Export:
        """Return the export as it is now."""
        return self._answer(lambda: self._http.get(f"{self._url}/v1/exports/{export_id}"), Export)

    def wait(
        self, export: Export, *, timeout: timedelta, on_progress: Callable[[Export], None] = lambda _: None
    ) -> Export:
        """Return the export once it has ended; ask as often as the service suggests, and tell of every answer.

        Raises:
            TimedOut: it has not ended in that time. It goes on.
        """
        url = f"{self._url}/v1/exports/{export.id}"
        give_up_at = self._clock.monotonic() + timeout.total_seconds()
        while True:
            response = self._settled(lambda: self._http.get(url))
            export = _decoded(response, Export)
            on_progress(export)
            if export.has_ended:
                return export
            pause = min(_retry_after(response) or 1.0, _LONGEST_PAUSE_SECONDS)
            if self._clock.monotonic() + pause > give_up_at:
                waited = f"{timeout.total_seconds():g}"
                raise TimedOut(f"the export is {export.status} after {waited} seconds; it goes on")
            time.sleep(pause)

    def download(
        self, export: Export, file: BinaryIO, *, on_bytes: Callable[[int, int], None] = lambda _, __: None
    ) -> Proof:
        """Write the export's file, and prove it: length, digest of the bytes sent, digest and length of the plain file.

        A download that is cut is begun again from its start, a few times; `on_bytes` hears how many bytes of how many
        are there. Only after a return is the content of `file` worth anything.

        Raises:
            WithoutResult: the export has none, or it is gone.
            Unproven: what arrived is not what was promised, or was cut each time.
        """
        result = result_of(export)
        cut: httpx.TransportError | None = None
        for _ in range(_TIMES_TO_DOWNLOAD):
            file.seek(0)
            file.truncate()
            try:
                return self._download_once(result, file, on_bytes)
            except httpx.TransportError as error:
                cut = error
                self._on_trouble(f"the download was cut ({_said(error)}); it begins again")
        raise Unproven(f"the download was cut {_TIMES_TO_DOWNLOAD} times; the stored file may be damaged") from cut

    def import_file(self, file: BinaryIO, media: ImportMedia, *, key: str, options: Mapping[str, str]) -> Imported:
        """Import every task of a file, all at once or not at all; `options` are the query parameters of the route.

        Raises:
            Refused: the file is not accepted; `problem.errors` names each line.
            OutOfReach: no answer in time. Whether it was imported, the same key tells.
        """
        length = file.seek(0, SEEK_END)
        headers = {"Idempotency-Key": _key_field(key), "Content-Type": media.value, "Content-Length": str(length)}

        def send() -> httpx.Response:
            file.seek(0)
            return self._http.post(
                f"{self._url}/v1/tasks/import", params=dict(options), headers=headers, content=_pieces(file)
            )

        return self._answer(send, Imported)

    # ── One request ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _answer(self, send: Callable[[], httpx.Response], kind: type[T]) -> T:
        return _decoded(self._settled(send), kind)

    def _settled(self, send: Callable[[], httpx.Response]) -> httpx.Response:
        """Return an answer that is not "later"; try until then, as long as patience lasts."""
        give_up_at = self._clock.monotonic() + self._patience_seconds
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                response = send()
            except httpx.TransportError as error:
                trouble, asked = self._unreachable(error), None
            else:
                if response.status_code not in _LATER:
                    return response
                trouble, asked = (
                    OutOfReach(f"the service says not now: {Refused(_problem(response))}"),
                    _retry_after(response),
                )
            wait = (asked or pause) * (1 + self._randomness.fraction() / 4)
            if self._clock.monotonic() + wait > give_up_at:
                raise trouble
            self._on_trouble(f"{str(trouble).removesuffix('.')}. Trying again.")
            time.sleep(wait)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def _unreachable(self, error: httpx.TransportError) -> ClientFailure:
        return OutOfReach(f"cannot reach {self._url} ({_said(error)}); start it, or set FENCEPOST_URL to where it is")

    def _download_once(self, result: ResultFile, file: BinaryIO, on_bytes: Callable[[int, int], None]) -> Proof:
        with self._streamed(result.url) as response:
            headers = response.headers
            arriving = Arriving(file, coding=headers.get("Content-Encoding", "identity"))
            for piece in response.iter_raw(_PIECE):
                arriving.take(piece)
                on_bytes(arriving.byte_count, result.bytes)
        return arriving.proven(
            result, content_length=headers.get("Content-Length"), repr_digest=headers.get("Repr-Digest", "")
        )

    @contextmanager
    def _streamed(self, path: str) -> Iterator[httpx.Response]:
        # Decoded here and not by the library: the digest is of the bytes that were sent.
        request = self._http.build_request("GET", self._absolute(path), headers={"Accept-Encoding": "gzip"})
        response = self._settled(lambda: self._http.send(request, stream=True))
        try:
            if not response.is_success:
                response.read()
                raise _refusal(response)
            yield response
        finally:
            response.close()

    def _absolute(self, path: str) -> str:
        # The token goes to the service it was given for, wherever a link may point.
        return self._url + path if path.startswith("/") else self._url + urlsplit(path).path


def result_of(export: Export) -> ResultFile:
    """Return the export's file.

    Raises:
        WithoutResult: it has none, and the message says why and what to do.
    """
    if export.result is not None:
        return export.result
    if export.result_gone is not None:
        gone = export.result_gone
        raise WithoutResult(f"the file is gone ({gone.reason}, {gone.at}); export again with a fresh key")
    if export.error is not None:
        said = export.error.detail or export.error.title
        raise WithoutResult(f"the export {export.status}: {export.error.code}{f' - {said}' if said else ''}")
    raise WithoutResult(f"the export is {export.status} and has no file")


def _host_of(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in {"http", "https"} or not host:
        raise BadConnection(f"{url!r} is not the address of a service, such as http://127.0.0.1:8080")
    return host


def _key_field(key: str) -> str:
    """Return the key as a header field holds it: bare, or as a quoted string (RFC 9651) where it needs one."""
    if not key or not key.isascii() or not key.isprintable():
        raise BadKey(f"the key {key!r} is none: it must be printable ASCII characters, such as monthly-2026-01")
    if _BARE_KEY.fullmatch(key):
        return key
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _decoded(response: httpx.Response, kind: type[T]) -> T:
    if not response.is_success:
        raise _refusal(response)
    try:
        return msgspec.json.decode(response.content, type=kind)
    except msgspec.MsgspecError as error:
        said = f"answered {response.status_code} with something that is no {kind.__name__.lower()}"
        raise OutOfReach(f"{response.url} {said} ({error}); is that address a Fencepost?") from error


def _refusal(response: httpx.Response) -> Refused:
    return Refused(_problem(response), advice=_ADVICE.get(response.status_code, ""))


def _problem(response: httpx.Response) -> Problem:
    try:
        return msgspec.json.decode(response.read(), type=Problem)
    except msgspec.MsgspecError:
        return Problem(title=f"HTTP {response.status_code} {response.reason_phrase}", status=response.status_code)


def _retry_after(response: httpx.Response) -> float | None:
    stated = response.headers.get("Retry-After", "")
    return float(stated) if stated.isascii() and stated.isdigit() else None


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece


def _said(error: httpx.TransportError) -> str:
    return _NUMBERED.sub("", str(error)).removesuffix(".") or type(error).__name__
