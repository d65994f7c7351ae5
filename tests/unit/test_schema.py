"""What a modelsource document becomes, and which ones are refused."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.model.attributes import check_attributes
from catalog.model.errors import ModelError, ModelRequiredTrue, ModelScalarDefault, XRegistryError
from catalog.model.modelsource import load_model
from catalog.model.schema import RESERVED_GROUP_NAMES, Model
from catalog.model.xid import Xid
from tests.openapidocument import ROUTES

SHELVES = {
    "groups": {"shelves": {"singular": "shelf", "resources": {"books": {"singular": "book"}}}}
}


def model_of(
    *,
    version: Any = None,
    group: Any = None,
    meta: Any = None,
    settings: dict[str, Any] | None = None,
    **shelf: Any,
) -> Model:
    book = {"singular": "book", "attributes": version, "metaattributes": meta, **(settings or {})}
    return load_model(
        {
            "groups": {
                "shelves": {
                    "singular": "shelf",
                    "attributes": group,
                    "resources": {"books": book},
                    **shelf,
                }
            }
        }
    )


def full() -> Any:
    return load_model(SHELVES).expanded()


def test_the_expansion_of_a_registry_has_the_standard_attributes_in_their_order() -> None:
    names = (
        "specversion registryid self shortself xid epoch name description documentation icon "
        "labels createdat modifiedat capabilities model modelsource "
        "shelvesurl shelvescount shelves"
    )
    assert " ".join(full()["attributes"]) == names


def test_the_expansion_of_a_group_type_has_the_standard_attributes_in_their_order() -> None:
    shelf = full()["groups"]["shelves"]
    assert list(shelf) == ["plural", "singular", "attributes", "resources"]
    names = (
        "shelfid self shortself xid epoch name description documentation icon labels createdat "
        "modifiedat deprecated constraints booksurl bookscount books"
    )
    assert " ".join(shelf["attributes"]) == names


def test_the_expansion_of_a_resource_type_shows_every_setting_with_its_default() -> None:
    book = full()["groups"]["shelves"]["resources"]["books"]
    levels = ("attributes", "resourceattributes", "metaattributes")
    assert {aspect: value for aspect, value in book.items() if aspect not in levels} == {
        "plural": "books",
        "singular": "book",
        "maxversions": 0,
        "setversionid": True,
        "hasdocument": True,
        "versionmode": "manual",
        "singleversionroot": False,
        "validateformat": False,
        "validatecompatibility": False,
        "strictvalidation": False,
    }


@pytest.mark.parametrize(
    ("level", "names"),
    [
        (
            "attributes",
            "bookid versionid self shortself xid epoch name isdefault description documentation "
            "icon labels createdat modifiedat ancestorid contenttype format formatvalidated "
            "formatvalidatedreason compatibilityvalidated compatibilityvalidatedreason bookurl "
            "book bookbase64",
        ),
        (
            "resourceattributes",
            "bookid self shortself xid metaurl meta versionsurl versionscount versions",
        ),
        (
            "metaattributes",
            "bookid self shortself xid xref epoch labels createdat modifiedat readonly "
            "compatibility deprecated defaultversionid defaultversionurl defaultversionsticky",
        ),
    ],
)
def test_the_expansion_of_a_resource_type_has_the_standard_attributes(
    level: str, names: str
) -> None:
    assert list(full()["groups"]["shelves"]["resources"]["books"][level]) == names.split()


@pytest.mark.parametrize(
    ("path", "definition"),
    [
        (
            ["attributes", "specversion"],
            {
                "name": "specversion",
                "type": "string",
                "readonly": True,
                "required": True,
                "default": "1.0-rc4",
            },
        ),
        (
            ["attributes", "shelvesurl"],
            {
                "name": "shelvesurl",
                "type": "url",
                "readonly": True,
                "immutable": True,
                "required": True,
            },
        ),
        (
            ["attributes", "shelves"],
            {
                "name": "shelves",
                "type": "map",
                "item": {"type": "object", "attributes": {"*": {"name": "*", "type": "any"}}},
            },
        ),
        (
            ["groups", "shelves", "attributes", "labels"],
            {"name": "labels", "type": "map", "item": {"type": "string"}},
        ),
        (
            ["groups", "shelves", "resources", "books", "attributes", "isdefault"],
            {
                "name": "isdefault",
                "type": "boolean",
                "readonly": True,
                "required": True,
                "default": False,
            },
        ),
        (
            ["groups", "shelves", "resources", "books", "metaattributes", "compatibility"],
            {
                "name": "compatibility",
                "type": "string",
                "enum": [
                    "backward",
                    "backward_transitive",
                    "forward",
                    "forward_transitive",
                    "full",
                    "full_transitive",
                ],
                "strict": True,
            },
        ),
    ],
)
def test_the_expansion_of_an_attribute_leaves_out_what_is_not_said(
    path: list[str], definition: dict[str, Any]
) -> None:
    found = full()
    for step in path:
        found = found[step]
    assert found == definition


EVERY_ASPECT: dict[str, Any] = {
    "name": "when",
    "type": "string",
    "description": "When it was printed",
    "enum": ["now", "then"],
    "strict": False,
    "matchversions": True,
    "required": True,
    "default": "now",
    "ifvalues": {
        "now": {
            "siblingattributes": {
                "where": {
                    "name": "where",
                    "type": "object",
                    "namecharset": "extended",
                    "attributes": {
                        "by-land": {"name": "by-land", "type": "boolean", "readonly": True},
                        "*": {"name": "*", "type": "any"},
                    },
                }
            }
        }
    },
}
NESTED: dict[str, Any] = {
    "name": "shelves",
    "type": "array",
    "item": {
        "type": "map",
        "item": {
            "type": "object",
            "namecharset": "extended",
            "attributes": {
                "at-x": {"name": "at-x", "type": "xid", "target": "/shelves/books[/versions]"},
                "urls": {
                    "name": "urls",
                    "type": "array",
                    "item": {"type": "url", "target": "/shelves"},
                },
            },
        },
    },
}


def test_the_expansion_shows_every_aspect_of_an_attribute() -> None:
    book = model_of(version={"when": EVERY_ASPECT, "shelves": NESTED}).expanded()
    attributes = book["groups"]["shelves"]["resources"]["books"]["attributes"]
    assert attributes["when"] == EVERY_ASPECT
    assert attributes["shelves"] == NESTED


def test_the_expansion_shows_what_types_say_of_themselves() -> None:
    about = {
        "description": "",
        "documentation": "https://example.com/docs",
        "icon": "/icon.svg",
        "labels": {"owner": "", "a.b:c": "d"},
        "modelversion": "1.2",
        "modelcompatiblewith": "urn:example:model",
    }
    model = model_of(settings=about, **about).expanded()
    shelf = model["groups"]["shelves"]
    assert about.items() <= shelf.items()
    assert about.items() <= shelf["resources"]["books"].items()


def test_the_expansion_of_a_model_shows_what_it_says_of_itself_but_no_schema() -> None:
    about = {"description": "x", "documentation": "https://example.com", "labels": {"a": "b"}}
    expanded = load_model({**about, "$schema": "https://example.com/model.json"}).expanded()
    assert {**expanded, "attributes": {}} == {**about, "attributes": {}, "groups": {}}


def test_an_expanded_model_is_a_source_of_itself() -> None:
    model = model_of(
        version={
            "pages": {"type": "uinteger", "required": True, "default": 0, "description": "Count"},
            "cover": {
                "type": "string",
                "enum": ["hard", "soft"],
                "strict": False,
                "ifvalues": {"Hard": {"siblingattributes": {"cloth": {"type": "boolean"}}}},
            },
            "*": {"type": "any"},
        },
        constraints={"books.format": {"equals": "genre"}},
        group={"genre": {"type": "string"}},
        description="Where books stand",
        labels={"a": "b"},
        modelversion="1",
    )
    assert load_model(model.expanded()).expanded() == model.expanded()


def test_constraints_of_a_group_type_are_kept() -> None:
    constraints = {"books.format": {"enum": ["epub"], "equals": "genre"}}
    model = model_of(group={"genre": {"type": "string"}}, constraints=constraints)
    assert model.expanded()["groups"]["shelves"]["constraints"] == constraints


def test_the_source_is_kept_as_it_was_given() -> None:
    assert load_model(SHELVES).source == SHELVES


def test_types_without_documents_have_no_document_attributes() -> None:
    book = model_of(settings={"hasdocument": False}).resource_type("shelves", "books")
    assert book is not None
    assert not {"book", "bookurl", "bookbase64"} & {*book.attributes}


def test_a_source_may_narrow_a_standard_attribute() -> None:
    model = model_of(
        version={"format": {"type": "string", "required": True, "matchversions": True}}
    )
    book = model.groups["shelves"].resources["books"]
    assert book.attributes["format"].required
    assert list(book.attributes).index("format") < list(book.attributes).index("bookurl")


def test_what_the_standard_says_of_an_object_stays_when_a_source_adds_to_it() -> None:
    model = model_of(
        group={"deprecated": {"type": "object", "attributes": {"why": {"type": "string"}}}}
    )
    deprecated = model.groups["shelves"].attributes["deprecated"]
    assert {"why", "removal", "effective", "alternative"} <= {*deprecated.attributes}


def test_clients_set_what_is_neither_managed_nor_readonly() -> None:
    model = model_of(
        version={"isbn": {"type": "string"}, "stock": {"type": "integer", "readonly": True}},
        meta={"owner": {"type": "string"}},
        group={"floor": {"type": "integer"}},
    )
    shelf = model.groups["shelves"]
    book = shelf.resources["books"]
    described = {"name", "description", "documentation", "icon", "labels"}
    assert {*model.own_attributes} == described
    assert {*shelf.own_attributes} == {*described, "deprecated", "constraints", "floor"}
    assert {*book.version_attributes} == {*described, "contenttype", "format", "bookurl", "isbn"}
    assert {*book.meta_attributes} == {"labels", "compatibility", "deprecated", "owner"}


def test_what_clients_do_not_set_is_managed() -> None:
    model = model_of(version={"stock": {"type": "integer", "readonly": True}})
    shelf = model.groups["shelves"]
    book = shelf.resources["books"]
    assert {"shelfid", "epoch", "books", "bookscount", "createdat"} <= shelf.managed
    assert {"book", "bookbase64", "versions", "meta", "ancestorid", "stock"} <= book.managed
    assert {"xref", "defaultversionid", "defaultversionsticky", "readonly"} <= book.meta_managed
    assert {"registryid", "shelves", "modelsource", "capabilities"} <= model.managed
    assert not book.managed & {*book.version_attributes}


@pytest.mark.parametrize(
    ("path", "singular"),
    [
        ("/", "registry"),
        ("/shelves/s", "shelf"),
        ("/shelves/s/books/b", "book"),
        ("/shelves/s/books/b/versions/1", "book"),
        ("/shelves/s/discs/b", ""),
        ("/walls/w", ""),
    ],
)
def test_the_singular_name_of_an_entity_is_that_of_its_type(path: str, singular: str) -> None:
    assert load_model(SHELVES).singular_of(Xid.parse(path)) == singular


def test_unknown_types_are_not_found() -> None:
    model = load_model(SHELVES)
    assert model.group_type("walls") is None
    assert model.resource_type("walls", "books") is None
    assert model.resource_type("shelves", "discs") is None


def importing(**imports: list[str]) -> Model:
    groups: dict[str, Any] = {
        plural: {"singular": f"{plural}one", "ximportresources": references}
        for plural, references in imports.items()
    }
    return load_model({"groups": {**SHELVES["groups"], **groups}})


def test_resource_types_are_imported_also_through_another_import() -> None:
    model = importing(boxes=["/shelves/books"], crates=["/boxes/books"])
    assert model.resource_type("crates", "books") == model.resource_type("shelves", "books")
    crate = model.expanded()["groups"]["crates"]
    assert "books" in crate["attributes"]
    assert "ximportresources" not in crate


def test_imports_through_many_groups_are_found() -> None:
    chain = {f"g{n}": [f"/g{n + 1}/books"] for n in range(2000)}
    model = importing(**chain, g2000=["/shelves/books"])
    assert model.resource_type("g0", "books") == model.resource_type("shelves", "books")


def test_imported_names_are_as_unique_as_defined_ones() -> None:
    cups = {"cups": {"singular": "book"}}
    group = {"singular": "box", "resources": cups, "ximportresources": ["/shelves/books"]}
    with pytest.raises(ModelError):
        load_model({"groups": {**SHELVES["groups"], "boxes": group}})


def test_the_first_segments_of_the_paths_of_operations_are_reserved() -> None:
    segments = {route.operation.path.split("/")[1] for route in ROUTES}
    assert {each for each in segments if each.isidentifier()} == RESERVED_GROUP_NAMES


@pytest.mark.parametrize("plural", sorted(RESERVED_GROUP_NAMES))
def test_paths_of_the_api_are_no_group_types(plural: str) -> None:
    with pytest.raises(ModelError):
        load_model({"groups": {plural: {"singular": "one"}}})


@pytest.mark.parametrize(
    "imports",
    [
        {"boxes": ["/crates/cups"], "crates": ["/boxes/cups"]},
        {"boxes": ["/boxes/books"]},
        {"boxes": ["/shelves/cups"]},
        {"boxes": ["/walls/cups"]},
        {"boxes": ["/shelves/books", "/shelves/books"]},
        {"boxes": ["shelves/books"]},
        {"boxes": ["/shelves"]},
        {"boxes": ["/shelves/books/versions"]},
        {"boxes": ["/crates/"], "crates": ["/boxes/"]},
    ],
)
def test_imports_that_lead_nowhere_are_refused(imports: dict[str, list[str]]) -> None:
    with pytest.raises(ModelError):
        importing(**imports)


OBJECT = {"type": "object", "attributes": {"x": {"type": "string"}}}


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param({"Bad": {"type": "string"}}, id="name"),
        pytest.param({"a" * 64: {"type": "string"}}, id="long name"),
        pytest.param({"a": {"name": "b", "type": "string"}}, id="other name"),
        pytest.param({"a": {"type": "text"}}, id="type"),
        pytest.param({"a": {}}, id="no type"),
        pytest.param({"a": "string"}, id="no object"),
        pytest.param({"a": {"type": "string", "$include": "x"}}, id="include"),
        pytest.param({"a": {"type": "string", "color": "red"}}, id="unknown aspect"),
        pytest.param({"a": {"type": "string", "required": "yes"}}, id="flag"),
        pytest.param({"a": {"type": "string", "target": "/shelves"}}, id="target of a string"),
        pytest.param(
            {"a": {"type": "urlabsolute", "target": "/shelves"}}, id="target of a urlabsolute"
        ),
        pytest.param({"a": {"type": "xid", "target": "shelves"}}, id="target form"),
        pytest.param({"a": {"type": "xid", "target": "/walls"}}, id="target group type"),
        pytest.param({"a": {"type": "uri", "target": "/shelves/cups"}}, id="target resource type"),
        pytest.param(
            {"a": {"type": "map", "item": {"type": "url", "target": "/w"}}}, id="target of an item"
        ),
        pytest.param({"a": {"type": "string", "description": 5}}, id="description"),
        pytest.param({"a": {"type": "string", "namecharset": "strict"}}, id="strict string"),
        pytest.param({"a": {"type": "string", "attributes": {}}}, id="empty attributes"),
        pytest.param({"a": {"type": "array", "item": {}}}, id="item without a type"),
        pytest.param({"a": {"type": "array", "item": {"type": "map"}}}, id="item without an item"),
        pytest.param(
            {"a": {"type": "array", "item": {"type": "string", "enum": ["x"]}}},
            id="enum of an item",
        ),
        pytest.param(
            {"a": {"type": "map", "item": {"type": "string", "required": True}}}, id="required item"
        ),
        pytest.param(
            {"a": {"type": "map", "item": {"type": "string", "attributes": {}}}},
            id="attributes of an item",
        ),
        pytest.param(
            {"a": {"type": "map", "item": {"type": "string", "namecharset": "extended"}}},
            id="charset of an item",
        ),
        pytest.param({"a": {"type": "timestamp", "enum": ["yesterday"]}}, id="enum of no times"),
        pytest.param({"a": {"type": "uinteger", "enum": [-1]}}, id="enum of no uintegers"),
        pytest.param({"a": {"type": "xid", "enum": ["/walls/w"]}}, id="enum of unknown xids"),
        pytest.param(
            {"a": {"type": "xidtype", "required": True, "default": "/walls"}},
            id="default of an unknown type",
        ),
        pytest.param({"a": {"type": "any", "enum": ["x"]}}, id="enum of anything"),
        pytest.param({"a": {"type": "map", "item": OBJECT, "enum": ["x"]}}, id="enum of a map"),
        pytest.param({"a": {"type": "string", "namecharset": "extended"}}, id="charset of string"),
        pytest.param({"a": {**OBJECT, "namecharset": "greek"}}, id="charset"),
        pytest.param({"a": {"type": "string", "attributes": {"x": OBJECT}}}, id="attributes"),
        pytest.param({"a": {"type": "object", "attributes": {"x-y": OBJECT}}}, id="strict object"),
        pytest.param({"a": {"type": "map"}}, id="map without item"),
        pytest.param({"a": {"type": "string", "item": {"type": "string"}}}, id="item of a string"),
        pytest.param({"a": {"type": "integer", "enum": [1, "2"]}}, id="enum"),
        pytest.param({"a": {"type": "string", "enum": "abc"}}, id="enum is no array"),
        pytest.param({"a": {**OBJECT, "enum": ["x"]}}, id="enum of an object"),
        pytest.param({"a": {"type": "string", "required": True, "default": 1}}, id="default"),
        pytest.param({"a": {"type": "string", "immutable": True}}, id="immutable extension"),
        pytest.param(
            {"a": {"type": "object", "attributes": {"x": {"type": "string", "immutable": True}}}},
            id="immutable in an extension",
        ),
        pytest.param({"name": {"immutable": True}}, id="immutable that clients set"),
        pytest.param({"*": {"type": "any", "required": True}}, id="required wildcard"),
        pytest.param({"*": {"type": "any", "readonly": True}}, id="readonly wildcard"),
        pytest.param({"*": {"type": "string", "ifvalues": {"x": {}}}}, id="conditional wildcard"),
        pytest.param({"a": {**OBJECT, "matchversions": True}}, id="matchversions of an object"),
        pytest.param({"versionscount": {"type": "integer"}}, id="name of the resource's"),
        pytest.param({"name": {"type": "integer"}}, id="other standard type"),
        pytest.param({"xid": {"type": "xid", "readonly": False}}, id="standard readonly"),
        pytest.param({"ancestorid": {"type": "string", "required": False}}, id="not required"),
        pytest.param({"isdefault": {"type": "boolean", "default": None}}, id="no default"),
        pytest.param({"isdefault": {"default": True}}, id="default of the server's"),
        pytest.param({"epoch": {"enum": [1]}}, id="enum of the server's"),
        pytest.param({"versionid": {"immutable": False}}, id="not immutable"),
        pytest.param({"versionid": {"matchversions": True}}, id="the same id"),
        pytest.param({"createdat": {"readonly": True}}, id="times are taken from clients"),
        pytest.param(
            {"createdat": {"default": "2030-01-01T00:00:00Z"}}, id="times have no default"
        ),
        pytest.param({"ancestorid": {"ifvalues": {"1": {}}}}, id="conditional on what is kept"),
        pytest.param({"book": {"required": True}}, id="documents are not required"),
        pytest.param({"labels": {"item": {"type": "integer"}}}, id="labels of integers"),
        pytest.param(
            {"labels": {"type": "map", "item": {"type": "string"}, "namecharset": "extended"}},
            id="charset of labels",
        ),
        pytest.param({"metaurl": {"type": "url"}}, id="another name of the resource's"),
        pytest.param(
            {"a": {"type": "string", "enum": ["x"], "required": True, "default": "y"}},
            id="default outside of enum",
        ),
    ],
)
def test_attributes_against_the_rules_are_refused(attributes: dict[str, Any]) -> None:
    with pytest.raises(ModelError) as refused:
        model_of(version=attributes)
    assert refused.value.subject == "/model"


def conditional(**conditions: Any) -> dict[str, Any]:
    siblings = {value: {"siblingattributes": found} for value, found in conditions.items()}
    return {"a": {"type": "string", "ifvalues": siblings}, "b": {"type": "string"}}


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param(conditional(**{"": {}}), id="empty"),
        pytest.param(conditional(**{"^x": {}}), id="caret"),
        pytest.param(conditional(x={}, X={}), id="case"),
        pytest.param(conditional(x={"b": {"type": "string"}}), id="sibling exists"),
        pytest.param(conditional(x={"name": {"type": "string"}}), id="standard sibling exists"),
        pytest.param(conditional(x=conditional()), id="nested sibling exists"),
        pytest.param(
            conditional(x={"c": {"type": "string", "matchversions": True}}), id="matchversions"
        ),
        pytest.param({"a": {**OBJECT, **conditional(x={})["a"], "type": "object"}}, id="object"),
        pytest.param({"a": {**conditional(x={})["a"], "enum": ["y"]}}, id="outside of enum"),
        pytest.param(conditional(x={"versions": {"type": "string"}}), id="sibling of the resource"),
        pytest.param(conditional(x={"c-d": {"type": "string"}}), id="name of a sibling"),
        pytest.param(conditional(x={"c": {"type": "string", "immutable": True}}), id="immutable"),
        pytest.param({"a": {"type": "string", "ifvalues": {"x": {"attributes": {}}}}}, id="aspect"),
        pytest.param({"a": {"type": "string", "ifvalues": ["x"]}}, id="array"),
        pytest.param(
            {**conditional(x={"*": {"type": "any"}}), "*": {"type": "any"}}, id="second wildcard"
        ),
    ],
)
def test_conditions_against_the_rules_are_refused(attributes: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        model_of(version=attributes)


def test_a_default_value_needs_required() -> None:
    with pytest.raises(ModelRequiredTrue):
        model_of(version={"a": {"type": "string", "default": "x"}})


def test_a_default_value_needs_a_scalar() -> None:
    with pytest.raises(ModelScalarDefault):
        model_of(version={"a": {**OBJECT, "required": True, "default": {}}})


def test_matchversions_is_for_versions_only() -> None:
    matching = {"a": {"type": "string", "matchversions": True}}
    assert model_of(version=matching)
    assert model_of(version={"o": {"type": "object", "attributes": matching}})
    with pytest.raises(ModelError):
        model_of(meta=matching)
    item = {"type": "object", "attributes": matching}
    with pytest.raises(ModelError):
        model_of(version={"l": {"type": "array", "item": item}})


def test_siblings_have_conditions_and_wildcards_too() -> None:
    inner = {"type": "string", "ifvalues": {"y": {"siblingattributes": {"*": {"type": "any"}}}}}
    book = model_of(version=conditional(x={"c": inner}, z={"c": inner})).groups["shelves"]
    siblings = book.resources["books"].attributes["a"].siblings["x"]
    assert siblings["c"].siblings["y"]["*"].type == "any"


def test_siblings_in_an_extended_object_have_extended_names() -> None:
    attributes = conditional(x={"c-d": {"type": "string"}})
    assert model_of(
        version={"o": {"type": "object", "namecharset": "Extended", "attributes": attributes}}
    )
    with pytest.raises(ModelError):
        model_of(version={"o": {"type": "object", "attributes": attributes}})


def test_a_closed_enum_may_have_conditions_in_any_case() -> None:
    attributes = {"a": {**conditional(X={})["a"], "enum": ["x", "y"]}}
    assert model_of(version=attributes)
    assert model_of(version={"a": {**conditional(z={})["a"], "enum": ["y"], "strict": False}})


def test_values_in_a_model_are_brought_into_their_stored_form() -> None:
    zoned = "2030-01-01T01:00:00+01:00"
    when = {"type": "timestamp", "enum": [zoned], "required": True, "default": zoned}
    model = model_of(version={"when": when, "count": {"type": "integer", "enum": [1.0]}})
    book = model.groups["shelves"].resources["books"]
    assert book.attributes["when"].enum == ("2030-01-01T00:00:00Z",)
    assert book.attributes["when"].default == "2030-01-01T00:00:00Z"
    assert type(book.attributes["count"].enum[0]) is int


def test_targets_name_types_of_the_model() -> None:
    targets = ("/shelves", "/shelves/books", "/shelves/books[/versions]", "/shelves/books/versions")
    for kind in ("url", "uri", "xid"):
        for target in targets:
            assert model_of(group={"a": {"type": kind, "target": target}})


def sticky(**aspects: Any) -> Any:
    model = model_of(meta={"defaultversionsticky": aspects})
    return model.groups["shelves"].resources["books"]


def test_a_model_may_fix_whether_default_versions_are_sticky() -> None:
    """The example of core/spec.md, "defaultversionsticky Attribute", has no type."""
    for value in (True, False):
        book = sticky(name="defaultversionsticky", enum=[value], required=True, default=value)
        assert book.metaattributes["defaultversionsticky"].type == "boolean"
        assert book.metaattributes["defaultversionsticky"].default is value
        assert book.meta_narrowed["defaultversionsticky"].closed == (value,)


@pytest.mark.parametrize(
    "aspects",
    [{"required": False}, {"default": None}, {"enum": [True]}, {"readonly": True}, {"enum": ["x"]}],
    ids=str,
)
def test_what_the_standard_says_of_sticky_default_versions_stays(aspects: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        sticky(**aspects)


def test_a_model_may_take_values_from_the_standard_but_not_add_any() -> None:
    def compatibility(**aspects: Any) -> tuple[Any, ...]:
        book = model_of(meta={"compatibility": aspects}).groups["shelves"].resources["books"]
        return book.metaattributes["compatibility"].enum

    assert compatibility(enum=["full", "backward"]) == ("full", "backward")
    assert len(compatibility(description="x")) == 6
    for wider in ({"enum": ["full", "mine"]}, {"strict": False}, {"enum": []}, {"enum": "full"}):
        with pytest.raises(ModelError):
            compatibility(**wider)


def test_an_aspect_that_is_null_is_not_said() -> None:
    model = model_of(version={"format": {"type": None, "required": True, "enum": None}})
    assert model.groups["shelves"].resources["books"].attributes["format"].type == "string"


def test_attributes_inside_of_standard_ones_keep_their_types() -> None:
    for name, kind in (("removal", "string"), ("alternative", "string")):
        with pytest.raises(ModelError):
            model_of(group={"deprecated": {"attributes": {name: {"type": kind}}}})
    narrowed = {"deprecated": {"attributes": {"removal": {"required": True}}}}
    deprecated = model_of(group=narrowed).groups["shelves"].attributes["deprecated"]
    assert deprecated.attributes["removal"].type == "timestamp"
    assert deprecated.attributes["removal"].required


def test_clients_do_not_set_what_a_model_makes_readonly() -> None:
    shelf = model_of(group={"description": {"readonly": True}}).groups["shelves"]
    assert "description" not in shelf.own_attributes
    assert "description" in shelf.managed


def test_default_values_fill_also_what_is_readonly() -> None:
    stock = {"type": "integer", "readonly": True, "required": True, "default": 0}
    model = model_of(version={"stock": stock}, group={"stock": stock}, meta={"stock": stock})
    shelf = model.groups["shelves"]
    book = shelf.resources["books"]
    for definitions in (shelf.own_attributes, book.version_attributes, book.meta_attributes):
        found = check_attributes({"stock": 5}, definitions, subject="/", model=model)
        assert found == ({"stock": 0}, [])


def test_matching_attributes_are_known_by_their_paths() -> None:
    text = {"type": "string"}
    same = {"type": "string", "matchversions": True}
    version = {
        "format": {"matchversions": True},
        "o": {
            "type": "object",
            "attributes": {
                "p": {"type": "object", "attributes": {"q": same}},
                "r": text,
                "s": same,
            },
        },
        "a": same,
    }
    book = model_of(version=version).groups["shelves"].resources["books"]
    assert {*book.matching} == {("format",), ("o", "p", "q"), ("o", "s"), ("a",)}


@pytest.mark.parametrize(
    "settings",
    [
        {"maxversions": -1},
        {"maxversions": 2**53},
        {"maxversions": 1.0},
        {
            "maxversions": 1,
            "metaattributes": {"defaultversionsticky": {"default": True}},
        },
        {"documentation": "not a url"},
        {"icon": ""},
        {"modelcompatiblewith": "a b"},
        {"labels": {"": "x"}},
        {"labels": {"A": "x"}},
        {"singular": "version"},
        {"singular": "meta"},
        {"singular": "x"},
        {"singular": "name"},
        {"singular": "format", "validateformat": True},
        {"singular": "ancestor"},
        {"singular": "defaultversion"},
        {"resourceattributes": {"versionsurl": {"required": False}}},
        {"resourceattributes": {"meta": {"required": True}}},
        {"maxversions": True},
        {"setversionid": "yes"},
        {"versionmode": "magic"},
        {"versionmode": "createdat", "singleversionroot": False},
        {"validatecompatibility": True},
        {"typemap": {"text/*": "xml"}},
        {"typemap": {"*/*": "json"}},
        {"plural": "volumes"},
        {"singular": "books"},
        {"singular": "Book"},
        {"singular": None},
        {"description": 5},
        {"labels": {"a": 5}},
        {"resourceattributes": {"extra": {"type": "string"}}},
        {"color": "red"},
    ],
    ids=str,
)
def test_resource_types_against_the_rules_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        model_of(settings=settings)


def test_settings_of_a_resource_type_are_kept() -> None:
    settings = {
        "maxversions": 3,
        "setversionid": False,
        "versionmode": "CreatedAt",
        "singleversionroot": True,
        "typemap": {"text/*": "string"},
    }
    book = model_of(settings=settings).expanded()["groups"]["shelves"]["resources"]["books"]
    assert {name: book[name] for name in settings} == {**settings, "versionmode": "createdat"}


def test_models_are_nested_64_levels_deep_at_most() -> None:
    def nested(levels: int) -> Model:
        kind: dict[str, Any] = {"type": "string"}
        for _ in range(levels):
            kind = {"type": "array", "item": kind}
        return load_model({"attributes": {"a": kind}})

    assert nested(60)
    with pytest.raises(ModelError):
        nested(70)


@pytest.mark.parametrize(
    "source",
    [
        {"groups": {"shelves": {}}},
        {"groups": {"a" * 58: {"singular": "x"}}},
        {"groups": {"a": {"singular": "x"}, "x": {"singular": "y"}}},
        {"groups": ["shelves"]},
        {"groups": {"a": {"singular": "b", "constraints": {"c.d": {}}}}},
        {"groups": {"a": {"singular": "b", "ximportresources": "/a/b"}}},
        {"group": {}},
        {"$schema": 5},
        {"labels": {"a": "b\0"}},
        {"description": "\ud800"},
        {"attributes": {"a": {"type": "string", "description": "\0"}}},
        {"attributes": {"a": {"type": "decimal", "enum": [float("nan")]}}},
        {"attributes": {"a": {"type": "string", "ifvalues": {"x": None, "^": None}}}},
        {"icon": "https://example.com/i.svg"},
        {"modelversion": "1"},
        {"groups": {"a": None}},
        {"groups": {"xs": {"singular": "x"}}},
        {"groups": {"as": {"singular": "a"}, "asurl": {"singular": "b"}}},
        {"groups": {"labels": {"singular": "a"}}},
        {"groups": {"a": {"singular": "b", "ximportresources": ["c/d"]}}},
        {"groups": {"as": {"singular": "a", "resources": {"labels": {"singular": "b"}}}}},
        {"groups": {"as": {"singular": "a", "resources": {"meta": {"singular": "b"}}}}},
        {"groups": {"as": {"singular": "a", "resources": {"versions": {"singular": "b"}}}}},
        {
            "groups": {
                "as": {
                    "singular": "a",
                    "attributes": {"bs": {"type": "string"}},
                    "resources": {"bs": {"singular": "b"}},
                }
            }
        },
    ],
    ids=repr,
)
def test_group_types_against_the_rules_are_refused(source: dict[str, Any]) -> None:
    with pytest.raises(XRegistryError):
        load_model(source)
