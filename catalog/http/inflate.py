"""Inflates compressed bodies in bounded steps."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

CODINGS = ("gzip", "deflate")
"""The content codings of request bodies that are accepted (RFC 9110 8.4.1)."""

# A step takes less than a millisecond.
_STEP = 256 * 1024
# zlib copies what it has not consumed at each step.
_SLICE = 16 * 1024
_MOST_MEMBERS = 1024
_GZIP = 16 + zlib.MAX_WBITS


def inflate(sent: bytes, coding: str) -> Iterator[bytes]:
    """The content of a body, in pieces that bound what a step may take of time and memory.

    Args:
        coding: one of `CODINGS`.

    Raises:
        zlib.error: the body is damaged, or ends early, or has too many members.
    """
    decoder, members = zlib.decompressobj(_window(sent, coding)), 1
    for start in range(0, len(sent), _SLICE):
        piece = sent[start : start + _SLICE]
        while piece:
            if decoder.eof:
                members += 1
                if coding != "gzip" or members > _MOST_MEMBERS:
                    raise zlib.error("there is more after its end")
                decoder = zlib.decompressobj(_GZIP)
            yield decoder.decompress(piece, _STEP)
            piece = decoder.unused_data or decoder.unconsumed_tail
    yield decoder.flush()
    if not decoder.eof:
        raise zlib.error("it ends early")


def _window(sent: bytes, coding: str) -> int:
    if coding == "gzip":
        return _GZIP
    # Some clients leave out the header of zlib, which begins with the method, 8 (RFC 1950 2.2).
    return zlib.MAX_WBITS if sent[0] & 0xF == 8 else -zlib.MAX_WBITS
