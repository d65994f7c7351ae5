"""Types of stored attributes: all that a client can write has them, and nothing else does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.model.attributes import check_attributes, find_type_fault
from catalog.model.modelsource import default_model, load_model
from catalog.model.schema import Model

MODEL = default_model()
MESSAGE = MODEL.groups["messagegroups"].resources["messages"].version_attributes
SCHEMA = MODEL.groups["schemagroups"].resources["schemas"].version_attributes
ENDPOINT = MODEL.groups["endpoints"].own_attributes

NAMES = st.sampled_from(
    ["type", "value", "required", "name", "labels", "options", "endpoints", "uri", "0", "a.b", "Ä"]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "text", "2030-12-19T06:00:00Z", "HTTP", "CloudEvents/1.0", "a b", "Ä"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def model_with(attributes: dict[str, Any]) -> Model:
    return load_model(
        {"groups": {"shelves": {"singular": "shelf", "attributes": attributes, "resources": {}}}}
    )


@pytest.mark.parametrize(
    ("definitions", "attributes", "fault"),
    [
        (SCHEMA, {"contenttype": 5}, '"contenttype": it must be a string'),
        (SCHEMA, {"contenttype": None}, '"contenttype": it must be a string'),
        (SCHEMA, {"labels": {"a": "b", "c": 5}}, '"labels.c": it must be a string'),
        (SCHEMA, {"labels": []}, '"labels": it must be a map'),
        (SCHEMA, {"labels": {"A b": ""}}, '"labels.A b": its name must match'),
        (SCHEMA, {"documentation": "a b"}, '"documentation": it must be a URI'),
        (ENDPOINT, {"usage": "producer"}, '"usage": it must be an array'),
        (ENDPOINT, {"usage": [{}]}, '"usage[0]": it must be a string'),
        (
            ENDPOINT,
            {"protocol": "HTTP", "protocoloptions": 5},
            '"protocoloptions": it must be an object',
        ),
        (
            ENDPOINT,
            {"protocol": "HTTP", "protocoloptions": {"method": 5}},
            '"protocoloptions.method": it must be a string',
        ),
        (
            MESSAGE,
            {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"required": "yes"}}},
            '"envelopemetadata.type.required": it must be true or false',
        ),
        (ENDPOINT, {"deprecated": {"effective": "soon"}}, '"deprecated.effective": it needs to be'),
    ],
)
def test_a_value_of_another_type_is_named_with_its_path(
    definitions: dict[str, Any], attributes: dict[str, Any], fault: str
) -> None:
    assert find_type_fault(attributes, definitions).startswith(fault)


@pytest.mark.parametrize(
    ("here", "attributes"),
    [
        ({"a": {"type": "string", "required": True}}, {}),
        ({"a": {"type": "string", "enum": ["x"]}}, {"a": "y"}),
        ({"a": {"type": "xid", "target": "/shelves"}}, {"a": "/elsewhere/x"}),
        ({}, {"unknown": {"of": ["any", 5, {"shape": None}]}}),
        ({"a": {"type": "object", "attributes": {}}}, {"a": {"unknown": 5}}),
        ({"a": {"type": "string", "required": True, "default": "x"}}, {}),
    ],
)
def test_what_another_model_may_allow_is_no_fault(
    here: dict[str, Any], attributes: dict[str, Any]
) -> None:
    """Copies of a catalog whose model differs a little are whole."""
    kinds = model_with(here).groups["shelves"].own_attributes
    assert find_type_fault(attributes, kinds) == ""


def test_extensions_have_the_type_that_the_model_gives_them_but_computed_attributes_their_own() -> (
    None
):
    kinds = model_with({"*": {"type": "integer"}}).groups["shelves"].own_attributes
    assert find_type_fault({"a": 5, "ancestorid": "1"}, kinds, {"ancestorid"}) == ""
    assert find_type_fault({"a": "5"}, kinds) == '"a": it must be an integer'


@pytest.mark.parametrize("name", ["unknown", "labels", "messagecatalog"])
def test_no_value_is_nested_so_deep_that_it_could_not_be_written(name: str) -> None:
    value: Any = "x"
    for _ in range(70):
        value = {"a": value}
    assert find_type_fault({name: value}, SCHEMA)


@pytest.mark.parametrize("definitions", [MESSAGE, SCHEMA, ENDPOINT])
@given(data=st.data())
def test_what_a_client_can_write_has_its_types(definitions: dict[str, Any], data: Any) -> None:
    """A copy of what any catalog with this model accepted is accepted, and the reverse."""
    names = st.sampled_from(sorted({*definitions, "unknown"} - {"*"}))
    values = data.draw(st.dictionaries(names, VALUES, max_size=4))
    stored, errors = check_attributes(values, definitions, subject="/x", model=MODEL)
    if not errors:
        assert find_type_fault(stored, definitions) == ""
    # A client's null is no value.
    if None not in _leaves(values) and find_type_fault(values, definitions):
        assert errors


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]
