"""What goes back to a client: small ASGI applications, so that nothing between a handler and the wire adds to it."""

from asyncio import ensure_future
from collections.abc import AsyncGenerator, Mapping
from typing import Final

import msgspec
from litestar.types import Receive, Scope, Send
from msgspec import Struct

JSON: Final = "application/json"
PROBLEM_JSON: Final = "application/problem+json"

# RFC 9110, 15.3.5 and 15.4.5: these have no content, and must not state a length that their content does not have.
_WITHOUT_CONTENT: Final = frozenset({204, 304})


class Answer:
    """A whole answer in memory. A HEAD request gets the header section only, Content-Length included."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, body: bytes = b"", *, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.body = body
        self.headers = dict(headers or {})
        if status not in _WITHOUT_CONTENT:
            self.headers.setdefault("Content-Length", str(len(body)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - the shape of ASGI
        """Send it."""
        await self._begin(send)
        await send({"type": "http.response.body", "body": self._content(scope), "more_body": False})

    async def _begin(self, send: Send) -> None:
        headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in self.headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})

    def _content(self, scope: Scope) -> bytes:
        return b"" if scope.get("method") == "HEAD" or self.status in _WITHOUT_CONTENT else self.body


class FileAnswer(Answer):
    """A body that is made while it is sent, of a length that is known before.

    When `pieces` ends before that length the answer is left unfinished, so that the server closes the connection and
    the client sees a file that is too short, never one that looks whole. A client that leaves stops the making.
    """

    __slots__ = ("_length", "_pieces")

    def __init__(self, *, headers: Mapping[str, str], length: int, pieces: AsyncGenerator[bytes, None]) -> None:
        super().__init__(200, headers={**headers, "Content-Length": str(length)})
        self._length = length
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, piece by piece."""
        leaving = ensure_future(departure(receive))
        sent = 0
        try:
            await self._begin(send)
            if scope.get("method") == "HEAD":
                sent = self._length
            else:
                async for piece in self._pieces:
                    if leaving.done():
                        return
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                    sent += len(piece)
        finally:
            leaving.cancel()
            await self._pieces.aclose()
        if sent == self._length:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def departure(receive: Receive) -> None:
    """Return once the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


def json_answer(status: int, content: Struct, *, headers: Mapping[str, str] | None = None) -> Answer:
    """Return a struct as JSON."""
    return Answer(status, msgspec.json.encode(content), headers={"Content-Type": JSON, **(headers or {})})
