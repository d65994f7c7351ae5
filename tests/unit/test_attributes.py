"""Which attribute values are accepted, in which form they are stored, and what errors say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.model.attributes import check_attributes
from catalog.model.errors import (
    InvalidAttribute,
    MalformedXid,
    RequiredAttributeMissing,
    UnknownAttribute,
    XRegistryError,
)
from catalog.model.modelsource import load_model
from catalog.model.schema import SCALARS

STRING = {"type": "string"}
SUBJECT = "/shelves/s/books/b/versions/1"


def check(values: Any, attributes: Any) -> tuple[dict[str, Any], list[XRegistryError]]:
    book = {"singular": "book", "attributes": attributes}
    model = load_model({"groups": {"shelves": {"singular": "shelf", "resources": {"books": book}}}})
    definitions = model.groups["shelves"].resources["books"].version_attributes
    return check_attributes(values, definitions, subject=SUBJECT, model=model)


def accepted(values: Any, attributes: Any) -> dict[str, Any]:
    stored, errors = check(values, attributes)
    assert [error.title for error in errors] == []
    return stored


def refused(values: Any, attributes: Any) -> list[str]:
    """The names that the errors are about."""
    errors = check(values, attributes)[1]
    assert all(error.subject == SUBJECT for error in errors)
    return [_name(error) for error in errors]


def _name(error: XRegistryError) -> str:
    if isinstance(error, MalformedXid):
        return error.arguments["error_detail"].split('"')[1]
    return error.arguments.get("name", error.arguments.get("list", ""))


def test_an_xid_that_points_nowhere_has_an_error_of_its_own() -> None:
    [error] = check({"a": "/walls/w"}, {"a": {"type": "xid"}})[1]
    assert isinstance(error, MalformedXid)
    assert error.arguments["xid"] == "/walls/w"


ACCEPTED: list[tuple[str, Any]] = [
    ("boolean", False),
    ("decimal", 1.5),
    ("decimal", -3),
    ("integer", -(2**53 - 1)),
    ("uinteger", 0),
    ("string", ""),
    ("string", "smörgås 🎉"),
    ("uri", "https://example.com/a?b=c#d"),
    ("uri", "urn:isbn:0451450523"),
    ("uri", "../up/%20one"),
    ("uri", "#/schemagroups/g/schemas/s#/definitions/d"),
    ("uriabsolute", "mailto:a@example.com"),
    ("urirelative", "/a/b"),
    ("urirelative", "a/b:c"),
    ("uritemplate", "https://example.com/{+base,x:3}/{?q*,r}"),
    ("uritemplate", "räume/{raum.nr}"),
    ("url", "https://example.com:8080/[x]"),
    ("urlabsolute", "ftp://example.com"),
    ("urlrelative", "//example.com/x"),
    ("xid", "/"),
    ("xid", "/shelves/S@1"),
    ("xid", "/shelves/s/books/b"),
    ("xid", "/shelves/s/books/b/meta"),
    ("xid", "/shelves/s/books/b/versions/1"),
    ("xidtype", "/"),
    ("xidtype", "/shelves"),
    ("xidtype", "/shelves/books"),
    ("xidtype", "/shelves/books/versions"),
    ("timestamp", "2030-01-02T03:04:05Z"),
    ("timestamp", "2030-01-02T03:04:05.123456789Z"),
    ("any", {"Any Name": [None, {"": 1}]}),
]

REFUSED: list[tuple[str, Any]] = [
    ("boolean", "true"),
    ("boolean", 1),
    ("decimal", "1"),
    ("decimal", True),
    ("decimal", float("nan")),
    ("decimal", float("inf")),
    ("decimal", 2**53),
    ("integer", 1.5),
    ("integer", True),
    ("integer", "1"),
    ("integer", 2**53),
    ("integer", -(2**53)),
    ("integer", float("inf")),
    ("uinteger", -1),
    ("string", 5),
    ("string", "a\0b"),
    ("string", "\ud800"),
    ("string", "x" * 4097),
    ("timestamp", "2030-01-02"),
    ("timestamp", "2030-02-30T00:00:00Z"),
    ("timestamp", "2030-01-02T25:00:00Z"),
    ("timestamp", "2030-01-02T12:00:60Z"),
    ("timestamp", "0001-01-01T00:00:00+01:00"),
    ("timestamp", 5),
    ("uri", "https://example.com/a b"),
    ("uri", "https://example.com/%zz"),
    ("uri", "1a:b"),
    ("uri", "https://example.com/{x}"),
    ("uri", "http://example.com/\n"),
    ("uriabsolute", "/a"),
    ("uriabsolute", "https://example.com#a"),
    ("urirelative", "https://example.com"),
    ("uritemplate", "{"),
    ("uritemplate", "{a b}"),
    ("uritemplate", "a b"),
    ("url", "a:b:c d"),
    ("urlabsolute", "example.com/x"),
    ("urlrelative", "https://example.com"),
    ("xid", "shelves/s"),
    ("xid", "/walls/w"),
    ("xid", "/shelves"),
    ("xid", "/shelves/s/discs/d"),
    ("xid", "/shelves/s/meta"),
    ("xid", "/shelves/s/books/b/versions/1/meta"),
    ("xidtype", "/walls"),
    ("xidtype", "shelves"),
    ("xidtype", "/shelves/"),
    ("xidtype", "/shelves/books/meta"),
    ("any", float("inf")),
    ("any", {"a": [2**53]}),
    ("any", {"a\0": 1}),
    ("any", {"\ud800": 1}),
    ("any", {1: 1}),
    ("any", ["\ud800"]),
    ("any", object()),
]


@pytest.mark.parametrize(("kind", "value"), ACCEPTED)
def test_values_of_a_type_are_stored_as_they_are(kind: str, value: Any) -> None:
    assert accepted({"a": value}, {"a": {"type": kind}}) == {"a": value}


@pytest.mark.parametrize(("kind", "value"), REFUSED)
def test_values_of_another_type_are_refused(kind: str, value: Any) -> None:
    assert refused({"a": value}, {"a": {"type": kind}}) == ["a"]


def test_every_scalar_type_is_in_the_tables() -> None:
    assert {kind for kind, _ in ACCEPTED} >= SCALARS
    assert {kind for kind, _ in REFUSED} >= SCALARS


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        ("timestamp", "2030-01-02T03:04:05+02:00", "2030-01-02T01:04:05Z"),
        ("timestamp", "2030-01-02t03:04:05.500z", "2030-01-02T03:04:05.5Z"),
        ("timestamp", "2030-01-02T03:04:05.000", "2030-01-02T03:04:05Z"),
        ("timestamp", "2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
        ("timestamp", "2017-01-01T00:59:60+01:00", "2017-01-01T00:00:00Z"),
        ("integer", 5.0, 5),
        ("uinteger", 0.0, 0),
    ],
)
def test_values_are_brought_into_one_form(kind: str, value: Any, stored: Any) -> None:
    found = accepted({"a": value}, {"a": {"type": kind}})["a"]
    assert (found, type(found)) == (stored, type(stored))


@pytest.mark.parametrize(
    ("target", "values"),
    [
        ("/shelves", {"/shelves/s"}),
        ("/shelves/books", {"/shelves/s/books/b"}),
        ("/shelves/books/versions", {"/shelves/s/books/b/versions/1"}),
        (
            "/shelves/books[/versions]",
            {"/shelves/s/books/b", "/shelves/s/books/b/versions/1"},
        ),
    ],
)
@pytest.mark.parametrize("kind", ["xid", "uri", "url"])
def test_an_xid_points_to_its_target_only(target: str, values: set[str], kind: str) -> None:
    every = ("/shelves/s", "/shelves/s/books/b", "/shelves/s/books/b/versions/1")
    attributes = {"a": {"type": kind, "target": target}}
    assert {value for value in every if not refused({"a": value}, attributes)} == values
    assert refused({"a": "/shelves/s/books/b/meta"}, attributes) == ["a"]
    assert refused({"a": "/walls/w"}, attributes) == ["a"]


def test_a_target_does_not_bind_absolute_uris() -> None:
    attributes = {"a": {"type": "uri", "target": "/shelves"}}
    assert accepted({"a": "https://example.com/walls/w"}, attributes)
    assert accepted({"a": "#/walls/w"}, attributes)


def test_unknown_attributes_are_refused() -> None:
    errors = check({"a": 1, "Ä": 2, "*": 3}, {})[1]
    assert [type(error) for error in errors] == [UnknownAttribute] * 3


def test_a_wildcard_admits_attributes_of_its_type_with_valid_names() -> None:
    wild = {"*": {"type": "integer"}}
    assert accepted({"a": 1, "b_2": 2}, wild) == {"a": 1, "b_2": 2}
    assert refused({"a": "x", "b": 1}, wild) == ["a"]
    assert refused({"A": 1, "2a": 1, "a-b": 1, "a" * 64: 1, "": 1, "*": 1}, wild) == [
        "A",
        "2a",
        "a-b",
        "a" * 64,
        "",
        "*",
    ]


def test_names_that_are_not_text_are_refused() -> None:
    assert refused({5: 1}, {"*": {"type": "any"}}) == ["5"]
    assert refused({5: 1}, {}) == ["5"]


def test_an_extended_object_admits_more_names() -> None:
    attributes: Any = {"o": {"type": "object", "attributes": {"*": {"type": "any"}}}}
    values = {"o": {"a-b.c:d": 1, "1": 2}}
    assert refused(values, attributes) == ["o['a-b.c:d']", "o.1"]
    attributes["o"]["namecharset"] = "extended"
    assert accepted(values, attributes) == values
    assert refused({"o": {"A": 1, "-a": 1}}, attributes) == ["o.A", "o.-a"]


@pytest.mark.parametrize("key", ["", "A", "-a", "a b", "a" * 64, "ä"])
def test_map_keys_against_the_rules_are_refused(key: str) -> None:
    assert refused({"labels": {key: "x"}}, {}) == [f"labels.{key}"]


def test_map_keys_with_dots_dashes_and_colons_are_accepted() -> None:
    values = {"labels": {"a.b-c:d_e": "", "1": "x"}}
    assert accepted(values, {}) == values


def test_null_is_absence_but_not_in_arrays() -> None:
    attributes = {
        "a": STRING,
        "o": {"type": "object", "attributes": {"x": STRING}},
        "l": {"type": "array", "item": {"type": "any"}},
    }
    values = {"a": None, "o": {"x": None}, "labels": {"k": None}, "unknown": None}
    assert accepted(values, attributes) == {"o": {}, "labels": {}}
    assert refused({"l": [1, None]}, attributes) == ["l[1]"]


@pytest.mark.parametrize("kind", ["map", "array", "object"])
@pytest.mark.parametrize("value", [5, "x", True])
def test_containers_are_not_scalars(kind: str, value: Any) -> None:
    definition = {"type": kind, **({} if kind == "object" else {"item": STRING})}
    assert refused({"a": value}, {"a": definition}) == ["a"]


def test_nested_errors_are_named_in_dot_notation() -> None:
    inner: Any = {"type": "object", "attributes": {"n": {"type": "integer"}, "r": STRING}}
    inner["attributes"]["r"] = {"type": "string", "required": True}
    attributes = {
        "o": {"type": "object", "attributes": {"p": inner}},
        "l": {"type": "array", "item": {"type": "map", "item": inner}},
    }
    values = {"o": {"p": {"n": "x", "z": 1}}, "l": [{}, {"k.1": {"n": True, "r": ""}}]}
    assert refused(values, attributes) == [
        "o.p.n",
        "o.p.z",
        "l[1]['k.1'].n",
        "o.p.r",
    ]


def test_every_violation_is_reported() -> None:
    attributes = {"a": {"type": "integer"}, "r": {"type": "string", "required": True}}
    errors = check({"a": "x", "b": 1, "name": 5}, attributes)[1]
    assert [type(error) for error in errors] == [
        InvalidAttribute,
        UnknownAttribute,
        InvalidAttribute,
        RequiredAttributeMissing,
    ]


def test_all_missing_attributes_are_listed_in_one_error() -> None:
    needed = {"type": "string", "required": True}
    attributes = {"a": needed, "b": needed, "o": {"type": "object", "attributes": {"c": needed}}}
    errors = check({"b": None, "o": {}}, attributes)[1]
    assert [error.arguments for error in errors] == [{"list": "o.c,a,b"}]
    assert accepted({"a": "", "b": ""}, attributes) == {"a": "", "b": ""}


def test_defaults_fill_what_is_absent_where_their_object_is_present() -> None:
    default = {"type": "integer", "required": True, "default": 0}
    attributes = {"a": default, "o": {"type": "object", "attributes": {"b": default}}}
    assert accepted({}, attributes) == {"a": 0}
    assert accepted({"a": None, "o": {}}, attributes) == {"a": 0, "o": {"b": 0}}
    assert accepted({"a": 1, "o": {"b": 2}}, attributes) == {"a": 1, "o": {"b": 2}}


def test_a_wrong_value_is_not_also_missing() -> None:
    assert refused({"a": 5}, {"a": {"type": "string", "required": True}}) == ["a"]


def test_nested_readonly_values_are_ignored_even_if_wrong() -> None:
    members = {"r": {"type": "integer", "readonly": True, "required": True}, "w": STRING}
    attributes = {"o": {"type": "object", "attributes": members}}
    assert accepted({"o": {"r": "wrong", "w": "x"}}, attributes) == {"o": {"w": "x"}}
    assert accepted({"o": {"w": "x"}}, attributes) == {"o": {"w": "x"}}


def test_a_strict_enum_admits_its_values_only() -> None:
    strict = {"a": {"type": "integer", "enum": [0, 1]}}
    assert accepted({"a": 1}, strict)
    assert refused({"a": 2}, strict) == ["a"]
    assert refused({"a": True}, strict) == ["a"]
    assert accepted({"a": 2}, {"a": {"type": "integer", "enum": [0, 1], "strict": False}})


def test_an_enum_of_an_array_is_for_its_items() -> None:
    attributes = {"a": {"type": "array", "item": STRING, "enum": ["x", "y"]}}
    assert accepted({"a": ["y", "x"]}, attributes)
    assert refused({"a": ["x", "z"]}, attributes) == ["a[1]"]


def condition(kind: str, **siblings: Any) -> dict[str, Any]:
    found = {value: {"siblingattributes": one} for value, one in siblings.items()}
    return {"type": kind, "ifvalues": found}


def test_a_value_brings_its_siblings_without_regard_to_case() -> None:
    attributes = {"a": condition("string", Big={"size": {"type": "integer"}})}
    assert accepted({"size": 5, "a": "BIG"}, attributes)
    assert refused({"size": "x", "a": "big"}, attributes) == ["size"]
    assert refused({"size": 5, "a": "small"}, attributes) == ["size"]
    assert refused({"size": 5}, attributes) == ["size"]


def test_an_absent_value_is_not_the_text_none() -> None:
    attributes = {"a": condition("string", none={"size": {"type": "integer"}})}
    assert refused({"size": 5}, attributes) == ["size"]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("boolean", "true", True),
        ("integer", "5", 5),
        ("integer", "5", 5.0),
        ("decimal", "1.5", 1.5),
    ],
)
def test_conditions_compare_the_text_of_a_value(kind: str, text: str, value: Any) -> None:
    attributes = {"a": condition(kind, **{text: {"b": STRING}})}
    assert accepted({"a": value, "b": "x"}, attributes)


def test_siblings_are_required_and_have_defaults_and_conditions_too() -> None:
    deeper = {
        "b": {**condition("string", y={"c": STRING}), "required": True, "default": "y"},
        "d": {"type": "string", "required": True},
    }
    attributes = {"a": condition("string", x=deeper)}
    assert accepted({"a": "x", "c": "z", "d": "d"}, attributes) == {
        "a": "x",
        "b": "y",
        "c": "z",
        "d": "d",
    }
    assert refused({"a": "x", "b": "n", "c": "z"}, attributes) == ["c", "d"]
    assert accepted({"a": "n"}, attributes) == {"a": "n"}


def test_two_conditions_may_not_bring_the_same_sibling() -> None:
    attributes = {
        "a": condition("string", x={"c": STRING}),
        "b": condition("string", x={"c": STRING}),
    }
    assert accepted({"a": "x", "c": ""}, attributes)
    assert refused({"a": "x", "b": "x", "c": ""}, attributes) == ["c"]


def test_conditions_hold_inside_objects() -> None:
    attributes = {
        "o": {"type": "object", "attributes": {"a": condition("string", x={"b": STRING})}}
    }
    assert accepted({"o": {"a": "x", "b": ""}}, attributes)
    assert refused({"o": {"a": "y", "b": ""}}, attributes) == ["o.b"]


def test_a_scalar_and_its_name_take_4096_bytes_at_most() -> None:
    assert accepted({"a": "x" * 4095}, {"a": STRING})
    assert refused({"a": "x" * 4096}, {"a": STRING}) == ["a"]
    assert refused({"a": "ä" * 2048}, {"a": STRING}) == ["a"]
    assert accepted({"a": "x" * 5000}, {"a": {"type": "any"}})


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_nesting_ends_at_64_levels() -> None:
    attributes = {
        "a": {"type": "any"},
        "o": {"type": "object", "attributes": {"a": {"type": "any"}}},
    }
    assert accepted({"a": nested(63), "o": {"a": nested(62)}}, attributes)
    assert refused({"a": nested(64), "o": {"a": nested(63)}}, attributes) == ["a", "o.a"]
    assert refused({"a": nested(100_000)}, attributes) == ["a"]


@pytest.mark.parametrize("name", ["name", "documentation", "icon", "format"])
def test_standard_attributes_are_not_empty(name: str) -> None:
    assert refused({name: ""}, {}) == [name]


def test_nothing_is_removed_before_it_is_deprecated() -> None:
    book = {"singular": "book"}
    model = load_model({"groups": {"shelves": {"singular": "shelf", "resources": {"books": book}}}})
    definitions = model.groups["shelves"].own_attributes
    late = {"effective": "2030-01-01T00:00:00Z", "removal": "2030-01-01T00:30:00+01:00"}
    errors = check_attributes({"deprecated": late}, definitions, subject="/shelves/s", model=model)[
        1
    ]
    assert [error.arguments["name"] for error in errors] == ["deprecated.removal"]
    late["removal"] = "2030-01-01T01:00:00.5+01:00"
    assert not check_attributes(
        {"deprecated": late}, definitions, subject="/shelves/s", model=model
    )[1]


def test_the_values_of_the_client_are_left_alone() -> None:
    values = {"labels": {"a": None}, "t": "2030-01-01T00:00:00+01:00"}
    accepted(values, {"t": {"type": "timestamp"}})
    assert values == {"labels": {"a": None}, "t": "2030-01-01T00:00:00+01:00"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
DEFAULTED = {"type": "string", "required": True, "default": "x"}
LAW = {
    "when": {"type": "timestamp"},
    "count": {"type": "integer"},
    "ratio": {"type": "decimal"},
    "kind": condition("string", x={"extra": DEFAULTED}),
    "part": {"type": "object", "attributes": {"d": DEFAULTED, "*": {"type": "any"}}},
    "parts": {"type": "array", "item": {"type": "map", "item": {"type": "timestamp"}}},
    "*": {"type": "any"},
}
TIMES = st.datetimes().map(lambda time: f"{time.isoformat()}+02:30")
KEYS = st.sampled_from(["a", "a.b", "1", "A"])
LIKELY = st.fixed_dictionaries(
    {},
    optional={
        "when": TIMES | JSON,
        "count": st.integers() | st.floats().map(lambda number: number // 1) | JSON,
        "ratio": st.floats() | st.integers(),
        "kind": st.sampled_from(["x", "X", "y", None]),
        "part": st.dictionaries(st.sampled_from(["a", "b"]), JSON) | JSON,
        "parts": st.lists(st.dictionaries(KEYS, TIMES | st.none())),
        "labels": st.dictionaries(KEYS, st.text()),
        "free": JSON,
    },
)


@given(LIKELY)
def test_what_is_stored_is_accepted_again_and_not_changed(values: dict[str, Any]) -> None:
    stored = check(values, LAW)[0]
    again, errors = check(stored, LAW)
    assert (again, errors) == (stored, [])


def test_some_standard_values_are_the_same_in_any_case_and_stored_as_the_model_spells_them() -> (
    None
):
    assert accepted({"format": "AVRO/1.9"}, {"format": {"enum": ["Avro/1.9"]}}) == {
        "format": "Avro/1.9"
    }
    assert refused({"format": "Avro/1.8"}, {"format": {"enum": ["Avro/1.9"]}}) == ["format"]
    assert refused({"a": "X"}, {"a": {**STRING, "enum": ["x"]}}) == ["a"]


def test_the_compatibility_of_a_resource_is_one_of_the_standard_in_any_case() -> None:
    model = load_model(
        {"groups": {"shelves": {"singular": "shelf", "resources": {"books": {"singular": "book"}}}}}
    )
    definitions = model.groups["shelves"].resources["books"].meta_attributes
    for value, stored in (("Backward", "backward"), ("FULL_transitive", "full_transitive")):
        found = check_attributes(
            {"compatibility": value}, definitions, subject=SUBJECT, model=model
        )
        assert found == ({"compatibility": stored}, [])
    for value in ("sideways", ""):
        assert check_attributes(
            {"compatibility": value}, definitions, subject=SUBJECT, model=model
        )[1]


def test_what_the_server_decides_can_be_checked_against_a_narrowed_definition() -> None:
    fixed = {"enum": [True], "default": True}
    book = {"singular": "book", "metaattributes": {"defaultversionsticky": fixed}}
    model = load_model({"groups": {"shelves": {"singular": "shelf", "resources": {"books": book}}}})
    narrowed = model.groups["shelves"].resources["books"].meta_narrowed
    assert check_attributes({}, narrowed, subject=SUBJECT, model=model) == (
        {"defaultversionsticky": True},
        [],
    )
    assert check_attributes(
        {"defaultversionsticky": False}, narrowed, subject=SUBJECT, model=model
    )[1]


@pytest.mark.parametrize("readonly", [False, True])
def test_a_default_value_brings_its_siblings(readonly: bool) -> None:
    attributes = {
        "a": {
            "type": "boolean",
            "required": True,
            "default": True,
            "readonly": readonly,
            "ifvalues": {"TRUE": {"siblingattributes": {"b": STRING}}},
        }
    }
    assert accepted({"b": "x"}, attributes) == {"a": True, "b": "x"}
    if readonly:
        assert accepted({"a": False, "b": "x"}, attributes) == {"a": True, "b": "x"}
    else:
        assert refused({"a": False, "b": "x"}, attributes) == ["b"]


def test_a_condition_may_admit_undefined_attributes() -> None:
    attributes = {
        "a": {**STRING, "ifvalues": {"open": {"siblingattributes": {"*": {"type": "integer"}}}}}
    }
    assert accepted({"a": "open", "b": 1}, attributes) == {"a": "open", "b": 1}
    assert refused({"a": "open", "b": "x"}, attributes) == ["b"]
    assert refused({"a": "shut", "b": 1}, attributes) == ["b"]
