"""Laws of every model: it is complete or refused, however damaged its source is."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from catalog.model.errors import XRegistryError
from catalog.model.modelsource import load_model

TEXT = {"type": "string"}
SOURCE: dict[str, Any] = {
    "labels": {"a": "b"},
    "attributes": {
        "a": {"type": "map", "item": {"type": "array", "item": TEXT}},
        "*": {"type": "any"},
    },
    "groups": {
        "shelves": {
            "singular": "shelf",
            "icon": "/x",
            "attributes": {
                "genre": TEXT,
                "floor": {
                    "type": "integer",
                    "enum": [1, 2],
                    "required": True,
                    "default": 1,
                    "ifvalues": {"1": {"siblingattributes": {"door": TEXT}}},
                },
                "deprecated": {"attributes": {"removal": {"required": True}}},
            },
            "constraints": {"books.format": {"enum": ["a"], "default": "a", "equals": "genre"}},
            "resources": {
                "books": {
                    "singular": "book",
                    "maxversions": 2,
                    "typemap": {"a/*": "json"},
                    "attributes": {
                        "format": {"enum": ["a", "b"], "matchversions": True},
                        "o": {
                            "type": "object",
                            "namecharset": "extended",
                            "attributes": {"a-b": {"type": "xid", "target": "/shelves/books"}},
                        },
                    },
                    "metaattributes": {"defaultversionsticky": {"enum": [False]}},
                }
            },
        },
        "boxes": {"singular": "box", "ximportresources": ["/shelves/books"]},
    },
}
_NAMES = (
    "type name target enum default item attributes ifvalues required strict readonly immutable "
    "matchversions namecharset siblingattributes plural singular resources groups labels equals "
    "constraints ximportresources xid epoch versionid createdat books bookid book * meta"
)
NAMES = st.sampled_from(_NAMES.split())
VALUES = st.sampled_from(["", "string", "xid", "object", "*", "/shelves/books", 2**60, 1.5, "\0"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | VALUES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """`SOURCE` with a few members that are other ones."""
    source = copy.deepcopy(SOURCE)
    for _ in range(draw(st.integers(1, 3))):
        place: dict[str, Any] = source
        while place:
            name = draw(st.sampled_from(sorted(place)))
            if not isinstance(place[name], dict) or draw(st.integers(0, 3)) == 0:
                place[draw(st.just(name) | NAMES)] = draw(JSON)
                break
            place = place[name]
    return source


@given(damaged())
def test_a_model_is_refused_or_its_expansion_defines_it_again(source: dict[str, Any]) -> None:
    try:
        model = load_model(source)
    except XRegistryError:
        return
    assert load_model(model.expanded()).expanded() == model.expanded()
