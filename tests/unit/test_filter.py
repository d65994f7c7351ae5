"""What the values of `?filter` and `?sort` mean, and which ones mean nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.model.attributereference import EntityKind
from catalog.model.dotpath import Every, Index, Key, read_path, write_path
from catalog.model.errors import BadFilter, BadSort
from catalog.model.filter import (
    LONGEST,
    MOST_EXPRESSIONS,
    MOST_FILTERS,
    MOST_WILDCARDS,
    Clause,
    FilterExpression,
    Filters,
    parse_filters,
    parse_sort,
)
from catalog.model.modelsource import load_model

_ATTRIBUTES = {
    "size": {"type": "integer"},
    "flag": {"type": "boolean"},
    "when": {"type": "timestamp"},
    "tags": {"type": "array", "item": {"type": "string"}},
    "kind": {
        "type": "string",
        "ifvalues": {"car": {"siblingattributes": {"wheels": {"type": "uinteger"}}}},
    },
    "info": {"type": "object", "attributes": {"owner": {"type": "string"}}},
}
MODEL = load_model(
    {
        "groups": {
            "dirs": {
                "singular": "dir",
                "attributes": _ATTRIBUTES,
                "resources": {"files": {"singular": "file", "attributes": {"*": {"type": "any"}}}},
            },
            "boxes": {"singular": "box"},
        }
    }
)


def clause(text: str, **aim: Any) -> Clause:
    [found] = parse_filters([text], EntityKind(model=MODEL, **aim)).clauses
    return found


def expression(text: str) -> FilterExpression:
    """The one expression about groups of a text."""
    [found] = clause(text, groups="dirs").expressions
    return found


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("name", (Key("name"),)),
        (".name", (Key("name"),)),
        ("['my.name']", (Key("my.name"),)),
        ('["birth.date"]', (Key("birth.date"),)),
        ('["2"]', (Key("2"),)),
        ("stack[3]", (Key("stack"), Index(3))),
        (
            "employee['joe'].addresses[0].state",
            (Key("employee"), Key("joe"), Key("addresses"), Index(0), Key("state")),
        ),
        ("addresses.*.state", (Key("addresses"), Every.KEY, Key("state"))),
        ("reviewers[*]", (Key("reviewers"), Every.ITEM)),
        ("a['*']", (Key("a"), Key("*"))),
    ],
)
def test_dot_notation_reads_as_the_specification_says(text: str, steps: tuple[object, ...]) -> None:
    """core/spec.md, "xRegistry Dot (`.`) Notation" and "Dot-Notation in Filters"."""
    assert read_path(text) == (steps, len(text))


names = st.text(st.characters(exclude_characters="'\0", exclude_categories=["Cs"]), max_size=5)
steps = st.lists(
    st.one_of(
        names.map(Key),
        names.map(lambda name: Key(name.replace('"', "") + "'")),
        st.integers(0, 10**9 - 1).map(Index),
        st.sampled_from(Every),
    ),
    min_size=1,
    max_size=8,
).map(tuple)


@given(steps)
def test_a_path_that_is_written_is_read_as_the_same_path(path: tuple[Key | Index | Every]) -> None:
    text = write_path(path)
    assert read_path(text) == (path, len(text))
    assert read_path(f"x={text}", 2) == (path, len(text) + 2)


@pytest.mark.parametrize(
    ("text", "operator", "pieces"),
    [
        ("name", "present", ("",)),
        ("name!=null", "present", ("",)),
        ("name<>null", "present", ("",)),
        ("name=*", "present", ("",)),
        ("name=null", "absent", ("",)),
        ("name!=*", "absent", ("",)),
        ("name=", "=", ("",)),
        ("name=x", "=", ("x",)),
        ("name==x", "=", ("=x",)),
        ("name=Null", "=", ("Null",)),
        ("name!=x", "!=", ("x",)),
        ("name<>x", "!=", ("x",)),
        ("name<x", "<", ("x",)),
        ("name<=x", "<=", ("x",)),
        ("name>x", ">", ("x",)),
        ("name>=", ">=", ("",)),
        ("name=*cool*", "=", ("", "cool", "")),
        (r"name=abc\*def", "=", ("abc*def",)),
        (r"name=a\,b", "=", ("a,b",)),
        (r"name=a\\*", "=", ("a\\", "")),
        (r"name=a\b", "=", (r"a\b",)),
        ("name= a ", "=", (" a ",)),
        ("name=ü", "=", ("ü",)),
    ],
)
def test_each_operator_is_read_with_its_value(
    text: str, operator: str, pieces: tuple[str, ...]
) -> None:
    found = expression(text)
    assert (found.operator, found.pieces) == (operator, pieces)


def test_commas_join_expressions_but_not_inside_names() -> None:
    found = clause(r"labels['a,b']=x\,y,name=z,size", groups="dirs")
    assert [e.reference.steps for e in found.expressions] == [
        (Key("labels"), Key("a,b")),
        (Key("name"),),
        (Key("size"),),
    ]
    assert found.expressions[0].pieces == ("x,y",)


@pytest.mark.parametrize(
    ("aim", "text", "chain", "type"),
    [
        ({}, "name=x", (), "string"),
        ({}, "dirs.name=x", ("dirs",), "string"),
        ({}, "dirs.files.name=x", ("dirs", "files"), "string"),
        ({}, "dirs.files.versions.versionid=x", ("dirs", "files", "versions"), "string"),
        ({}, "dirs.files.meta.readonly=true", ("dirs", "files"), "boolean"),
        ({}, "dirs.labels.env=x", ("dirs",), "string"),
        ({"groups": "dirs"}, "files.epoch=1", ("files",), "uinteger"),
        ({"groups": "dirs"}, "kind=car", (), "string"),
        ({"groups": "dirs"}, "wheels=4", (), "uinteger"),
        ({"groups": "dirs"}, "tags[*]=x", (), "string"),
        ({"groups": "dirs"}, "info.*=x", (), "any"),
        ({"groups": "dirs"}, "nosuch.thing=x", (), "absent"),
        ({"groups": "dirs"}, "NAME=x", (), "absent"),
        ({"groups": "dirs"}, "name.inner=x", (), "absent"),
        ({"groups": "dirs", "resources": "files"}, "extra.inner=x", (), "any"),
        ({"groups": "dirs", "resources": "files"}, "versions.name=x", ("versions",), "string"),
        ({"groups": "dirs", "resources": "files", "versions": True}, "meta.epoch=1", (), "any"),
    ],
)
def test_paths_are_followed_through_the_model(
    aim: dict[str, str], text: str, chain: tuple[str, ...], type: str
) -> None:
    [found] = clause(text, **aim).expressions
    assert (found.reference.chain, found.reference.type) == (chain, type)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "name=x,",
        "=x",
        "name x",
        "name!x",
        "a..b=x",
        "a[b]=x",
        "a['b=x",
        "a[-1]=x",
        "a.=x",
        "*=x",
        "dirs.*.name=x",
        "dirs",
        "dirs=x",
        "dirs.files.meta",
        "dirs.files.meta=x",
        "dirs.self=x",
        "dirs.filescount>1",
        "dirs.files.file=x",
        "dirs.labels=x",
        "dirs.tags=",
        "dirs.info!=x",
        "dirs.tags<x",
        "dirs.size<abc",
        "dirs.flag>TRUE",
        "dirs.when<today",
        "name<null",
        "name>=null",
        "name<a*",
        "name=\0",
        "name=\ud800",
        "a" + ".b" * 16,
        "name=" + "x*" * (MOST_WILDCARDS + 1),
        "name=" + "x" * LONGEST,
    ],
)
def test_an_invalid_expression_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadFilter) as refused:
        parse_filters(["name=fine", text], EntityKind(model=MODEL), subject="/here")
    assert refused.value.subject == "/here"
    told = refused.value.arguments["value"].rstrip("…")
    assert told in text.encode("utf-8", "replace").decode()


def test_the_expression_that_is_wrong_is_the_one_that_is_named() -> None:
    with pytest.raises(BadFilter) as refused:
        parse_filters([r"name=a\,b,dirs.labels=x,name=c"], EntityKind(model=MODEL))
    assert refused.value.arguments["value"] == "dirs.labels=x"


@pytest.mark.parametrize(
    "texts",
    [
        ["name"] * (MOST_FILTERS + 1),
        [",".join(["name"] * (MOST_EXPRESSIONS // 2))] * 3,
        ["excludeall", "name=x"],
        ["excludeall", "excludeall"],
        ["name=x,excludeall=y,dirs"],
    ],
)
def test_too_many_expressions_are_refused(texts: list[str]) -> None:
    with pytest.raises(BadFilter):
        parse_filters(texts, EntityKind(model=MODEL))


def test_excludeall_is_a_filter_without_clauses() -> None:
    assert parse_filters(["excludeall"], EntityKind(model=MODEL)) == Filters()


def test_collections_side_by_side_have_no_entities_in_common() -> None:
    assert clause("dirs.name=x,dirs.files.name=y").is_possible
    assert not clause("dirs.name=x,boxes.name=y").is_possible


@pytest.mark.parametrize(
    ("text", "path", "is_descending"),
    [
        ("name", "name", False),
        ("name=asc", "name", False),
        ("dirid=desc", "dirid", True),
        ("labels.stage", "labels.stage", False),
        ("tags[0]", "tags[0]", False),
    ],
)
def test_a_sort_names_an_attribute_and_a_direction(
    text: str, path: str, is_descending: bool
) -> None:
    sort = parse_sort(text, EntityKind(model=MODEL, groups="dirs"))
    assert (write_path(sort.reference.steps), sort.is_descending) == (path, is_descending)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name=",
        "name=up",
        "name=DESC",
        "name,size",
        "name[0]",
        "name=\0",
        "labels",
        "labels.*",
        "files.name",
        "filescount",
        "nosuch",
        "info.nosuch",
        "self",
        "a" * (LONGEST + 1),
    ],
)
def test_an_invalid_sort_is_refused(text: str) -> None:
    with pytest.raises(BadSort):
        parse_sort(text, EntityKind(model=MODEL, groups="dirs"))
