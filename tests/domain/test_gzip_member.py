"""Raw-deflate segments that make one gzip member, held against the readers of the standard library."""

import gzip
import zlib

from hypothesis import given, strategies as st

from domain.gzip_member import GZIP_HEADER, deflated, gzip_byte_count, gzip_trailer, inflated

segments = st.lists(st.binary(max_size=2000), max_size=6)


@given(segments)
def test_header_pieces_and_trailer_are_one_gzip_member(plain: list[bytes]) -> None:
    """What is sent is one member: a reader that stops after the first one misses nothing."""
    whole, payloads = b"".join(plain), [deflated(segment) for segment in plain]
    file = GZIP_HEADER + b"".join(payloads) + gzip_trailer(crc32=zlib.crc32(whole), byte_count=len(whole))
    assert gzip.decompress(file) == whole
    reader = zlib.decompressobj(wbits=31)
    assert reader.decompress(file) == whole
    assert (reader.eof, reader.unused_data) == (True, b"")
    assert len(file) == gzip_byte_count(sum(map(len, payloads)))


@given(segments)
def test_each_piece_inflates_on_its_own(plain: list[bytes]) -> None:
    """A plain download inflates segment by segment, from any segment on."""
    payloads = [deflated(segment) for segment in plain]
    assert [zlib.decompressobj(wbits=-15).decompress(payload) for payload in payloads] == plain
    assert [
        inflated(payload, byte_count=len(segment)) for payload, segment in zip(payloads, plain, strict=True)
    ] == plain


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**40))
def test_the_trailer_ends_with_checksum_and_length(crc32: int, byte_count: int) -> None:
    """Both are little-endian, and the length is taken modulo two to the 32, as RFC 1952 has it."""
    trailer = gzip_trailer(crc32=crc32, byte_count=byte_count)
    assert trailer[-8:-4] == crc32.to_bytes(4, "little")
    assert int.from_bytes(trailer[-4:], "little") == byte_count % 2**32
    assert len(trailer) == gzip_byte_count(0) - len(GZIP_HEADER)


def test_equal_files_are_equal_bytes() -> None:
    """The header holds no time and no name, so nothing but the content decides the digest."""
    assert bytes([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255]) == GZIP_HEADER
