"""What a group demands of its resources: in the model, in a group, and of a version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.model.constraints import GroupRules, merge_constraints
from catalog.model.errors import ModelError
from catalog.model.modelsource import load_model
from catalog.model.schema import Constraint, GroupType

TEXT = {"type": "string"}
VERSION = {
    "cover": {**TEXT, "enum": ["hard", "soft", "none"]},
    "paper": {**TEXT, "enum": ["white"], "strict": False, "required": True, "default": "white"},
    "pages": {"type": "uinteger"},
    "shown": {"type": "timestamp"},
    "seen": {**TEXT, "readonly": True},
    "print": {
        "type": "object",
        "namecharset": "extended",
        "attributes": {"run.no": {"type": "uinteger"}, "shop": TEXT, "*": {"type": "any"}},
    },
    "kind": {**TEXT, "ifvalues": {"x": {"siblingattributes": {"sibling": TEXT}}}},
    "tags": {"type": "map", "item": TEXT},
    "*": TEXT,
}
GROUP = {
    "genre": TEXT,
    "length": {"type": "uinteger"},
    "shop": {"type": "object", "attributes": {"name": TEXT}},
    "names": {"type": "array", "item": TEXT},
    "*": TEXT,
}


def shelf(constraints: Any = None) -> GroupType:
    book = {"singular": "book", "attributes": VERSION}
    group = {
        "singular": "shelf",
        "attributes": GROUP,
        "resources": {"books": book, "cups": {"singular": "cup"}},
        "constraints": constraints,
    }
    return load_model({"groups": {"shelves": group}}).groups["shelves"]


def violations(
    version: Mapping[str, Any], constraints: Mapping[str, Constraint], group: Mapping[str, Any]
) -> list[tuple[str, str]]:
    return GroupRules(constraints=constraints, attributes=group).broken_by(version, "books")


def completed(version: Mapping[str, Any], constraints: Mapping[str, Constraint]) -> dict[str, Any]:
    return GroupRules(constraints=constraints, attributes={}).complete(version, "books")


def broken(
    constraints: Any, version: Mapping[str, Any], group: Mapping[str, Any] | None = None
) -> list[tuple[str, str]]:
    """What a version breaks, first of the model's constraints and then of the group's."""
    by_model = violations(version, shelf(constraints).constraints, group or {})
    by_group = violations(version, merge_constraints(shelf(), constraints), group or {})
    assert by_model == by_group
    return by_model


def test_a_value_has_to_be_in_the_enum_even_if_that_of_the_attribute_is_open() -> None:
    constraints = {"books.paper": {"enum": ["white", "grey"]}}
    assert broken(constraints, {"paper": "red"}) == [("paper", "enum")]
    assert broken(constraints, {"paper": "grey"}) == []
    assert broken(constraints, {}) == []


def test_an_empty_enum_demands_nothing() -> None:
    constraints = {"books.cover": {"enum": [], "equals": ""}}
    assert broken(constraints, {"cover": "hard"}) == []


def test_a_value_has_to_equal_that_of_the_group_and_to_be_there() -> None:
    constraints = {"books.print.shop": {"equals": "shop.name"}}
    group = {"shop": {"name": "Ada"}}
    assert broken(constraints, {"print": {"shop": "Ada"}}, group) == []
    assert broken(constraints, {"print": {"shop": "Bob"}}, group) == [("print.shop", "equals")]
    assert broken(constraints, {"print": {}}, group) == [("print.shop", "equals")]
    assert broken(constraints, {}, group) == [("print.shop", "equals")]


def test_nothing_has_to_equal_what_the_group_does_not_have() -> None:
    constraints = {"books.print.shop": {"equals": "shop.name"}}
    for group in ({}, {"shop": {}}, {"shop": {"name": None}}):
        assert broken(constraints, {"print": {"shop": "Bob"}}, group) == []


def test_ids_are_comparable() -> None:
    constraints = {"books.bookid": {"equals": "shelfid"}, "books.versionid": {"enum": ["1", "2"]}}
    version = {"bookid": "b", "versionid": "3"}
    assert broken(constraints, version, {"shelfid": "s"}) == [
        ("bookid", "equals"),
        ("versionid", "enum"),
    ]
    assert broken(constraints, {"bookid": "s", "versionid": "1"}, {"shelfid": "s"}) == []


def test_formats_are_the_same_in_any_case() -> None:
    constraints = {"books.format": {"enum": ["avro/1.9"], "equals": "genre"}}
    group = {"genre": "AVRO/1.9"}
    assert broken(constraints, {"format": "Avro/1.9"}, group) == []
    assert broken(constraints, {"format": "Avro/1.8"}, group) == [
        ("format", "enum"),
        ("format", "equals"),
    ]


def test_constraints_of_another_type_do_not_matter() -> None:
    assert broken({"cups.name": {"enum": ["x"]}}, {"name": "y"}) == []


def test_names_with_dots_are_quoted() -> None:
    for key in ("books.print['run.no']", 'books["print"]["run.no"]'):
        assert broken({key: {"enum": [1]}}, {"print": {"run.no": 2}}) == [
            ("print['run.no']", "enum")
        ]


def test_defaults_fill_what_is_absent_or_null_and_leave_the_rest() -> None:
    kind = shelf(
        {
            "books.cover": {"default": "soft"},
            "books.pages": {"default": 0},
            "books.print.shop": {"default": "Ada"},
            "cups.name": {"default": "mug"},
        }
    )
    client = {"cover": None, "pages": 7, "print": {"run.no": 1}}
    filled = completed(client, kind.constraints)
    assert filled == {"cover": "soft", "pages": 7, "print": {"run.no": 1, "shop": "Ada"}}
    assert client == {"cover": None, "pages": 7, "print": {"run.no": 1}}
    assert "print" not in completed({}, kind.constraints)


def test_defaults_and_enums_are_kept_in_their_stored_form() -> None:
    kind = shelf({"books.shown": {"default": "2030-01-01T01:00:00+01:00"}})
    assert kind.constraints["books.shown"].default == "2030-01-01T00:00:00Z"


REFUSED = [
    pytest.param({"books": {}}, id="no path"),
    pytest.param({"walls.cover": {}}, id="unknown type"),
    pytest.param({"books.unknown": {}}, id="admitted by a wildcard only"),
    pytest.param({"books.*": {}}, id="a wildcard"),
    pytest.param({"books['*']": {}}, id="the wildcard attribute"),
    pytest.param({"books.sibling": {}}, id="conditional"),
    pytest.param({"books.print": {}}, id="an object"),
    pytest.param({"books.print.other": {}}, id="admitted in an object"),
    pytest.param({"books.tags": {}}, id="a map"),
    pytest.param({"books.tags.a": {}}, id="an item of a map"),
    pytest.param({"books.cover[0]": {}}, id="an item of an array"),
    pytest.param({"books.cover.": {}}, id="malformed"),
    pytest.param({"": {}}, id="empty"),
    pytest.param({"books.seen": {}}, id="readonly"),
    pytest.param({"books.epoch": {"enum": [1]}}, id="kept by the server"),
    pytest.param({"books.bookid": {"default": "b"}}, id="default of an id"),
    pytest.param({"books.cover": {"color": 1}}, id="unknown aspect"),
    pytest.param({"books.cover": "hard"}, id="no object"),
    pytest.param({"books.cover": {"enum": "hard"}}, id="enum is no array"),
    pytest.param({"books.cover": {"enum": [1]}}, id="enum of another type"),
    pytest.param({"books.pages": {"enum": [-1]}}, id="enum of no such number"),
    pytest.param({"books.cover": {"enum": ["hard", "green"]}}, id="enum is wider"),
    pytest.param({"books.cover": {"default": 1}}, id="default of another type"),
    pytest.param({"books.cover": {"default": "green"}}, id="default is not in the attribute"),
    pytest.param({"books.cover": {"enum": ["hard"], "default": "soft"}}, id="default excluded"),
    pytest.param({"books.paper": {"enum": ["grey"]}}, id="default of the attribute excluded"),
    pytest.param({"books.cover": {"equals": 1}}, id="equals is no text"),
    pytest.param({"books.cover": {"equals": "length"}}, id="equals of another type"),
    pytest.param({"books.cover": {"equals": "unknown"}}, id="equals a wildcard"),
    pytest.param({"books.cover": {"equals": "names[0]"}}, id="equals an item"),
    pytest.param({"books.cover": {"equals": "shop"}}, id="equals an object"),
    pytest.param({"books.epoch": {"equals": "length"}}, id="equals what the server keeps"),
    pytest.param({"books.cover": {}, "books['cover']": {}}, id="twice"),
    pytest.param(["books.cover"], id="an array"),
]


@pytest.mark.parametrize("constraints", REFUSED)
def test_constraints_against_the_rules_are_refused_in_the_model(constraints: Any) -> None:
    with pytest.raises(ModelError) as refused:
        shelf(constraints)
    assert refused.value.subject == "/model"


@pytest.mark.parametrize("constraints", REFUSED)
def test_constraints_against_the_rules_are_refused_in_a_group(constraints: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        merge_constraints(shelf(), constraints)


def test_a_group_without_constraints_has_those_of_its_type() -> None:
    kind = shelf({"books.cover": {"enum": ["hard"]}})
    assert merge_constraints(kind, None) == kind.constraints
    assert merge_constraints(kind, {"books.cover": {"enum": None, "equals": None}}) == (
        kind.constraints
    )


def test_a_group_adds_to_the_constraints_of_its_type() -> None:
    kind = shelf({"books.cover": {"enum": ["hard", "soft"], "default": "hard"}})
    own = {
        "books.cover": {"enum": ["soft"], "default": "soft", "equals": "genre"},
        "books.pages": {"enum": [1]},
    }
    merged = merge_constraints(kind, own)
    assert {key: one.expanded() for key, one in merged.items()} == own


@pytest.mark.parametrize(
    ("by_type", "own"),
    [
        ({"enum": ["hard"]}, {"enum": ["hard", "soft"]}),
        ({"enum": ["hard"]}, {"default": "soft"}),
        ({"enum": ["hard", "soft"], "default": "hard"}, {"enum": ["soft"]}),
        ({"equals": "genre"}, {"equals": "shop.name"}),
    ],
)
def test_a_group_cannot_contradict_its_type(by_type: Any, own: Any) -> None:
    with pytest.raises(ValueError, match=r"books\.cover"):
        merge_constraints(shelf({"books.cover": by_type}), {"books.cover": own})


covers = st.sampled_from(["hard", "soft", "none"])
aspects = st.fixed_dictionaries(
    {},
    optional={
        "default": covers,
        "enum": st.lists(covers, max_size=3),
        "equals": st.sampled_from(["genre", "shop.name", ""]),
    },
)
groups = st.fixed_dictionaries({}, optional={"genre": covers, "shop": st.builds(dict, name=covers)})


@given(aspects, aspects, groups, st.none() | covers)
def test_a_group_never_allows_what_its_type_does_not(
    by_type: Any, own: Any, group: Any, cover: str | None
) -> None:
    try:
        kind = shelf({"books.cover": by_type})
        merged = merge_constraints(kind, {"books.cover": own})
    except (ModelError, ValueError):
        return
    version = {"cover": cover}
    by_kind = violations(version, kind.constraints, group)
    in_group = violations(version, merged, group)
    assert set(by_kind) <= set(in_group)
    if own.get("enum") and cover is not None and cover not in own["enum"]:
        assert ("cover", "enum") in in_group


@given(aspects, aspects)
def test_a_default_value_never_breaks_its_own_enum(by_type: Any, own: Any) -> None:
    try:
        merged = merge_constraints(shelf({"books.cover": by_type}), {"books.cover": own})
    except (ModelError, ValueError):
        return
    filled = completed({}, merged)
    assert ("cover", "enum") not in violations(filled, merged, {})
