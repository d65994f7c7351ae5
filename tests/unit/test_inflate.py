"""Compressed bodies are inflated in pieces, to what they were before or not at all."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.http.body import inflate

MOST_OF_A_PIECE = 256 * 1024
CONTENTS = st.one_of(
    st.binary(max_size=200_000),
    st.builds(lambda unit, times: unit * times, st.binary(min_size=1, max_size=9), st.just(99_999)),
)


def _raw(content: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(content) + compressor.flush()


@given(content=CONTENTS, more=CONTENTS)
def test_content_comes_back_in_bounded_pieces(content: bytes, more: bytes) -> None:
    """RFC 9110 8.4.1: gzip, of one or several members, and deflate with its header or without."""
    for sent, coding, expected in (
        (gzip.compress(content), "gzip", content),
        (gzip.compress(content) + gzip.compress(more), "gzip", content + more),
        (zlib.compress(content), "deflate", content),
        (_raw(content), "deflate", content),
    ):
        pieces = list(inflate(sent, coding))
        assert b"".join(pieces) == expected
        assert max(map(len, pieces)) <= MOST_OF_A_PIECE


def test_a_bomb_is_inflated_only_as_far_as_it_is_asked_for() -> None:
    bomb = gzip.compress(bytes(2**28))
    pieces = inflate(bomb, "gzip")
    assert [len(next(pieces)) for _ in range(3)] == [MOST_OF_A_PIECE] * 3


@pytest.mark.parametrize(
    ("sent", "coding"),
    [
        pytest.param(gzip.compress(b"x" * 100)[:-1], "gzip", id="cut gzip"),
        pytest.param(gzip.compress(b"x" * 100) + b"y", "gzip", id="more after gzip"),
        pytest.param(gzip.compress(b"") * 1025, "gzip", id="too many members"),
        pytest.param(zlib.compress(b"x" * 100), "gzip", id="deflate named gzip"),
        pytest.param(zlib.compress(b"x" * 100)[:-1], "deflate", id="cut deflate"),
        pytest.param(zlib.compress(b"x" * 100) * 2, "deflate", id="more after deflate"),
        pytest.param(b"{}", "gzip", id="no gzip"),
        pytest.param(b"{}", "deflate", id="no deflate"),
    ],
)
def test_what_is_damaged_is_refused(sent: bytes, coding: str) -> None:
    with pytest.raises(zlib.error):
        list(inflate(sent, coding))
