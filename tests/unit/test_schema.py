"""What a modelsource document becomes, and which ones are refused."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.model.errors import ModelError, ModelRequiredTrue, ModelScalarDefault, XRegistryError
from catalog.model.modelsource import load_model
from catalog.model.schema import Model
from catalog.model.xid import Xid

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
    assert not book.resource_attributes


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


@pytest.mark.parametrize(
    "imports",
    [
        {"boxes": ["/crates/cups"], "crates": ["/boxes/cups"]},
        {"boxes": ["/boxes/books"]},
        {"boxes": ["/shelves/cups"]},
        {"boxes": ["/walls/cups"]},
        {"boxes": ["/shelves/books", "/shelves/books"]},
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
        pytest.param({"a": {"type": "xid", "target": "shelves"}}, id="target form"),
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
        pytest.param({"*": {"type": "any", "required": True}}, id="required wildcard"),
        pytest.param({"a": {**OBJECT, "matchversions": True}}, id="matchversions of an object"),
        pytest.param({"versionscount": {"type": "integer"}}, id="name of the resource's"),
        pytest.param({"name": {"type": "integer"}}, id="other standard type"),
        pytest.param({"xid": {"type": "xid", "readonly": False}}, id="standard readonly"),
        pytest.param({"ancestorid": {"type": "string", "required": False}}, id="not required"),
        pytest.param({"isdefault": {"type": "boolean", "default": None}}, id="no default"),
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


@pytest.mark.parametrize(
    "settings",
    [
        {"maxversions": -1},
        {"maxversions": True},
        {"setversionid": "yes"},
        {"versionmode": "magic"},
        {"versionmode": "createdat"},
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
    ],
    ids=str,
)
def test_group_types_against_the_rules_are_refused(source: dict[str, Any]) -> None:
    with pytest.raises(XRegistryError):
        load_model(source)
