"""Which representation of the registry a client gets (RFC 9110, 12.5.1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.api.documents import DOCUMENT_JSON, DOCUMENT_YAML, Representation, representation_for

DOCUMENT = Representation(media_type=DOCUMENT_JSON)


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", None),
        ("*/*", None),
        ("application/*", None),
        ("text/html", None),
        ("application/json", None),
        (DOCUMENT_JSON, DOCUMENT),
        (DOCUMENT_JSON.upper(), DOCUMENT),
        (f"{DOCUMENT_JSON}, {DOCUMENT_YAML}", DOCUMENT),
        (f"{DOCUMENT_JSON};q=0.5, {DOCUMENT_YAML};q=0.6", Representation(media_type=DOCUMENT_YAML)),
        (f"{DOCUMENT_JSON};q=0.5, application/json", None),
        (f"{DOCUMENT_JSON};q=0.5, application/json;q=0.4", DOCUMENT),
        (f"{DOCUMENT_JSON}, application/json", None),
        (f"{DOCUMENT_JSON}, */*;q=0.1", DOCUMENT),
        (f"*/*, {DOCUMENT_JSON};q=0", None),
        (f"{DOCUMENT_JSON};q=0", None),
        (f"{DOCUMENT_JSON};q=2", None),
        (f"{DOCUMENT_JSON};q=x", None),
        ('text/x;p="a,b", ' + DOCUMENT_JSON, DOCUMENT),
        (
            f"{DOCUMENT_JSON};specversion=0.4",
            Representation(media_type=DOCUMENT_JSON, edition="0.4"),
        ),
        (
            f'{DOCUMENT_JSON}; specversion="1.0-RC2"',
            Representation(media_type=DOCUMENT_JSON, edition="rc2"),
        ),
        (f"{DOCUMENT_JSON};specversion=7", None),
        (
            f"{DOCUMENT_JSON};specversion=0.4;q=0.3, {DOCUMENT_JSON};specversion=0.5",
            Representation(media_type=DOCUMENT_JSON, edition="0.5"),
        ),
    ],
)
def test_a_document_is_given_to_those_who_prefer_it(
    accept: str, wanted: Representation | None
) -> None:
    assert representation_for([accept]) == wanted


@given(st.lists(st.text(), max_size=3))
def test_whatever_is_accepted_there_is_an_answer(accept: list[str]) -> None:
    representation_for(accept)
