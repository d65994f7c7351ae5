"""What a registry would lose or misread of a document that is imported as it is."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.documents.losses import find_losses

TIME, LATER = "2030-01-01T00:00:00Z", "2031-01-01T00:00:00Z"
PLACE = "/schemagroups/g/schemas/s"


def schema(**members: Any) -> dict[str, Any]:
    return {"schemagroups": {"g": {"schemas": {"s": members}}}}


def message(**members: Any) -> dict[str, Any]:
    return {"messagegroups": {"g": {"messages": {"m": members}}}}


LOSSES: dict[str, tuple[dict[str, Any], str, Any]] = {
    "names": (schema(name="S", versions={"1": {"schema": {}}}), f"{PLACE}/name", "S"),
    "times": (schema(createdat=TIME, versions={"1": {}}), f"{PLACE}/createdat", TIME),
    "other times": (
        schema(modifiedat=TIME, versions={"1": {"modifiedat": LATER}}),
        f"{PLACE}/modifiedat",
        TIME,
    ),
    "what only an older version says": (
        schema(name="S", versions={"1": {"name": "S"}, "2": {"name": "T"}}),
        f"{PLACE}/name",
        "S",
    ),
    "documents": (schema(schema={"a": 1}, versions={"1": {}}), f"{PLACE}/schema", {"a": 1}),
    "names of attributes with slashes": (
        schema(**{"a/b": 1}, versions={"1": {}}),
        f"{PLACE}/a~1b",
        1,
    ),
    "another default version": (
        schema(defaultversionid="1", versions={"1": {}, "2": {}}),
        f"{PLACE}/defaultversionid",
        "1",
    ),
    "a default version that does not stick": (
        schema(meta={"defaultversionid": "1"}, versions={"1": {}, "2": {}}),
        f"{PLACE}/meta/defaultversionid",
        "1",
    ),
    "stickiness": (
        schema(defaultversionsticky=True, versions={"1": {}}),
        f"{PLACE}/defaultversionsticky",
        True,
    ),
    "messages by their older name": (
        {"endpoints": {"e": {"definitions": {"m": {}}}}},
        "/endpoints/e/definitions",
        {"m": {}},
    ),
    "borrowed messages": (
        message(uri="#/messagegroups/h/messages/n"),
        "/messagegroups/g/messages/m/uri",
        "#/messagegroups/h/messages/n",
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_what_would_be_overlooked_or_misread_is_told(name: str) -> None:
    document, pointer, value = LOSSES[name]
    [loss] = find_losses(document)
    assert (loss.pointer, loss.value) == (pointer, value)
    assert loss.reason


@pytest.mark.parametrize(
    "document",
    [
        {},
        schema(name="S"),
        schema(name="S", versions={}),
        schema(name="S", versions=[1]),
        schema(name="S", versions={"1": 1}),
        schema(schemaid="s", xid="x", epoch=3, versionid="1", isdefault=True, versions={"1": {}}),
        schema(name="S", createdat=TIME, versions={"1": {"name": "S", "createdat": TIME}}),
        schema(defaultversionid="1", versions={"1": {}}),
        schema(defaultversionid="2", versions={"1": {}, "2": {}}),
        schema(defaultversionid="9", versions={"9": {}, "10": {}}),
        # The attributes are those of a version that is beside the others.
        schema(name="S", versionid="2", versions={"1": {}}),
        schema(name="S", meta={"defaultversionid": "2"}, versions={"1": {}}),
        schema(
            name="S",
            meta={"defaultversionid": "1", "defaultversionsticky": True},
            versions={"1": {"name": "S"}, "2": {}},
        ),
        # A catalog says which one is the default.
        schema(
            name="S",
            meta={"defaultversionid": "a", "defaultversionsticky": False},
            versions={
                "b": {"ancestorid": "b"},
                "a": {"ancestorid": "b", "name": "S", "isdefault": True},
            },
        ),
        schema(
            name="S",
            versions={
                "c": {"ancestorid": "b", "createdat": TIME},
                "b": {"ancestorid": "b", "createdat": LATER},
                "a": {"ancestorid": "b", "createdat": LATER, "name": "S"},
            },
        ),
        message(schemaurl="/s", format="CloudEvents/1.0", uri="https://elsewhere.example/m"),
        {"endpoints": {"e": {"definitions": 1}}, "dirs": {"d": {"definitions": {"x": {}}}}},
    ],
)
def test_what_stays_what_it_is_is_no_loss(document: dict[str, Any]) -> None:
    assert find_losses(document) == ()
