"""What headers can carry, whatever was stored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.api.metadataheaders import decode_header, encode_header, headers_of
from catalog.http.responses import encode_url
from catalog.model.modelsource import load_model

SOURCE = {"groups": {"dirs": {"singular": "dir", "resources": {"files": {"singular": "file"}}}}}


@given(st.text(st.characters(codec="utf-8")))
def test_what_is_encoded_is_decoded_to_the_same(value: str) -> None:
    encoded = encode_header(value)
    assert encoded.isascii()
    assert not {*encoded} & {" ", '"', "\r", "\n", "\x00"}
    assert decode_header(encoded) == value


@pytest.mark.parametrize(
    ("url", "encoded"),
    [
        ("http://example.com/a?b=c%20d#e", "http://example.com/a?b=c%20d#e"),
        ("http://example.com/ä b", "http://example.com/%C3%A4%20b"),
        ("http://example.com/\r\nX: y", "http://example.com/%0D%0AX:%20y"),
    ],
)
def test_urls_are_only_changed_where_no_header_could_hold_them(url: str, encoded: str) -> None:
    assert encode_url(url) == encoded


def test_a_media_type_cannot_break_out_of_its_header() -> None:
    [group] = load_model(SOURCE).groups.values()
    assert headers_of({"contenttype": 'a/b; c="d"\r\nX: y'}, group.resources["files"]) == {
        "Content-Type": 'a/b; c="d"%0D%0AX: y'
    }
