"""Cards are texts of strangers: whatever is told becomes bounded lines, or no card."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from catalog.operations.authoritycards import Card, KnownAuthority
from catalog.operations.followers import FollowerName

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=8,
)
MEMBERS = st.dictionaries(st.sampled_from(["name", "region", "contact", "url", "other"]), JSON)


@given(told=MEMBERS | JSON)
@example(told={"name": "\u202eevil\u2069 \x00\n\tname" + "x" * 1000, "url": "javascript:alert(1)"})
@example(told={"url": "https://user:secret@example.com", "contact": ["x"]})
@example(told={"url": "https://example.com/x?q=<script>"})
def test_whatever_is_told_is_bounded_lines_or_no_card(told: Any) -> None:
    card = KnownAuthority(authority="urn:a", card=told).card
    if card is None:
        return
    for text in (card.name, card.region, card.contact):
        assert len(text) <= 200
        assert text == text.strip()
        assert not set(text) & set("\n\r\t\x00\x7f\u202e\u2066\u200b\ufeff")
    assert card.url == "" or card.url.startswith(("http://", "https://"))
    assert not set(card.url) & set("<>\"' @\\")


@given(name=st.text(max_size=300), region=st.text(max_size=300))
def test_a_name_comes_through_a_header_of_ascii(name: str, region: str) -> None:
    card = Card(name=name, region=region)
    sent = FollowerName(authority="urn:uuid:1", card=card)
    header = sent.header()
    assert header.isascii()
    assert header.isprintable()
    read = FollowerName.read(header)
    assert read is not None
    assert read.authority == "urn:uuid:1"
    # A card that is too long for a header is left out.
    assert read.card in (sent.card, None)
    assert read.card == sent.card or len(header) < 100
