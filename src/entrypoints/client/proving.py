"""The proof of a download: every byte is counted and digested on the wire, and again as the plain file that it is."""

import base64
import binascii
import zlib
from hashlib import sha256
from typing import BinaryIO, Final

from msgspec import Struct

from entrypoints.client.answers import ResultFile
from entrypoints.client.failures import Unproven

_GZIP_WINDOW: Final = 31


class Proof(Struct, frozen=True):
    """What was downloaded and found to be what the service stored. `coding` is that of the bytes on the wire."""

    byte_count: int
    wire_byte_count: int
    coding: str
    sha256: str


class Arriving:
    """A file on its way: what comes in is digested as it was sent, and written as the plain file."""

    def __init__(self, file: BinaryIO, *, coding: str) -> None:
        self._plain = _Plain(file, coding)
        self._on_wire = sha256()
        self._wire_byte_count = 0

    @property
    def byte_count(self) -> int:
        """How many bytes of the plain file are there."""
        return self._plain.byte_count

    def take(self, piece: bytes) -> None:
        """Take what came next."""
        self._on_wire.update(piece)
        self._wire_byte_count += len(piece)
        self._plain.write(piece)

    def proven(self, result: ResultFile, *, content_length: str | None, repr_digest: str) -> Proof:
        """Return the proof that all is there, as the answer's two fields and the export promise it.

        Raises:
            Unproven: it is not.
        """
        _prove("length", content_length, str(self._wire_byte_count))
        _prove("digest (Repr-Digest)", _sha256_in(repr_digest), self._on_wire.hexdigest())
        self._plain.finish()
        _prove("length of the plain file", str(result.bytes), str(self._plain.byte_count))
        _prove("digest of the plain file", result.sha256, self._plain.sha256)
        return Proof(self._plain.byte_count, self._wire_byte_count, self._plain.coding, self._plain.sha256)


class _Plain:
    """The plain file behind the bytes of a content coding: written, counted and digested as it comes."""

    def __init__(self, file: BinaryIO, coding: str) -> None:
        if coding not in {"identity", "gzip"}:
            raise Unproven(f"the file was sent in the coding {coding!r}, which was not asked for")
        self.coding = coding
        self.byte_count = 0
        self._file = file
        self._inflater = zlib.decompressobj(_GZIP_WINDOW) if coding == "gzip" else None
        self._digest = sha256()

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def write(self, piece: bytes) -> None:
        if self._inflater is not None:
            try:
                piece = self._inflater.decompress(piece)
            except zlib.error as error:
                raise Unproven(f"the file's gzip form is damaged: {error}") from error
        self.byte_count += len(piece)
        self._digest.update(piece)
        self._file.write(piece)

    def finish(self) -> None:
        if self._inflater is not None and (not self._inflater.eof or self._inflater.unused_data):
            raise Unproven("the file's gzip form does not end where it should")


def _sha256_in(field: str) -> str | None:
    """Return the SHA-256 of a `Repr-Digest` field (RFC 9530), in hexadecimal; None when there is none."""
    for member in field.split(","):
        name, _, value = member.strip().partition("=")
        if name == "sha-256":
            try:
                return base64.b64decode(value.strip(":"), validate=True).hex()
            except binascii.Error:
                return value
    return None


def _prove(what: str, promised: str | None, found: str) -> None:
    if promised != found:
        raise Unproven(f"the {what} of the download is {found} and should be {promised}; nothing was kept")
