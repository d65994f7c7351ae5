"""Laws of documents: no edition, format or way back loses anything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.commands.documentfile import FORMATS, write_document
from catalog.documents.downgrade import downgrade, own_attributes
from catalog.documents.losses import find_losses
from catalog.documents.migration import EDITIONS, RESOURCES, SPECVERSIONS, migrate
from catalog.documents.serialization import parse_json, parse_yaml, to_yaml

GROUPS = {"endpoints": "messages", "messagegroups": "messages", "schemagroups": "schemas"}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ODD = st.sampled_from(["1.0", "no", "~", "0x1", "1e3", "2030-01-01", "<<", "=", "\u2028", "\x7f"])
ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
    ODD,
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT | ODD, inner, max_size=3),
)
IDS = st.sampled_from(["a", "1", "1.0", "B", "a.b~c", "versions", "definitions"])
# What editions have different forms of, and what they have not; the values fit or do not.
_NAMES = (
    "name description labels documentation createdat modifiedat epoch usage channel envelope "
    "envelopemetadata envelopeoptions protocol protocoloptions messagegroups basemessage "
    "dataschema dataschemaformat dataschemauri dataschemaxid format deprecated myextension "
    "id type tags docs config metadata schemaformat schemaurl uri xref older definitionid "
    "protocolmetadata deployed defaultversionid"
)
NAMES = st.sampled_from(_NAMES.split())
FITTING: dict[str, Any] = {
    "labels": {"a": "b"},
    "usage": ["producer", "consumer"],
    "envelope": "CloudEvents/1.0",
    "envelopemetadata": {"attributes": {"type": "string"}, "time": {"type": "timestamp"}},
    "protocol": "AMQP/1.0",
    "messagegroups": ["/messagegroups/a", "#/messagegroups/B", "https://x.example"],
    "basemessage": "/messagegroups/a/messages/definitions",
    "dataschemauri": "#/schemagroups/a/schemas/1/versions/1",
    "format": "Avro/1.9",
}
OPTIONS: dict[str, Any] = {
    "deployed": True,
    "endpoints": [{"uri": "amqps://x"}, {"uri": "y", "priority": 1}],
    "authorization": [{"type": "OAuth2"}],
    "link-properties": {"a": "b"},
    "application-properties": {"p": {"type": "string"}},
    "cleanstart": True,
    "topic_name": "t",
    "options": {"a": 1},
}
ATTRIBUTES = st.builds(
    lambda any, fitting, options: {
        **any,
        **{name: FITTING[name] for name in fitting},
        **({"protocoloptions": {name: OPTIONS[name] for name in options}} if options else {}),
    },
    st.dictionaries(NAMES, VALUES.filter(lambda value: value is not None), max_size=4),
    st.sets(st.sampled_from([*FITTING]), max_size=5),
    st.sets(st.sampled_from([*OPTIONS]), max_size=4),
)


@st.composite
def catalogs(draw: st.DrawFn) -> dict[str, Any]:
    """Exports: whatever may be in a catalog, in the form that the API gives it."""
    document: dict[str, Any] = {"specversion": "1.0-rc4", "registryid": "r", "xid": "/"}
    for plural, resources in GROUPS.items():
        document[plural] = {
            id: {
                **draw(ATTRIBUTES),
                f"{plural[:-1]}id": id,
                "xid": f"/{plural}/{id}",
                resources: {
                    key: draw(_resources(resources[:-1], key))
                    for key in draw(st.sets(IDS, max_size=2))
                },
            }
            for id in draw(st.sets(IDS, max_size=2))
        }
    return document


@st.composite
def _resources(draw: st.DrawFn, singular: str, key: str) -> dict[str, Any]:
    ids = draw(st.sets(IDS, min_size=1, max_size=2))
    format = draw(st.sampled_from(["Avro/1.9", "JsonSchema/draft-07"]))
    return {
        f"{singular}id": key,
        "xid": "x",
        "meta": {
            f"{singular}id": key,
            "defaultversionid": min(ids),
            "defaultversionsticky": True,
            "readonly": False,
        },
        "versions": {
            id: {
                **draw(ATTRIBUTES),
                f"{singular}id": key,
                "versionid": id,
                **({"format": format} if singular == "schema" else {}),
            }
            for id in sorted(ids)
        },
    }


def essence(document: dict[str, Any]) -> dict[str, Any]:
    """The entities of a document, without what their places tell."""
    return {
        plural: {
            id: {
                **own_attributes({k: v for k, v in group.items() if k != resources}),
                resources: {
                    key: {
                        **own_attributes({k: v for k, v in found.items() if k != "versions"}),
                        "versions": {
                            vid: own_attributes(version)
                            for vid, version in found.get("versions", {}).items()
                        },
                    }
                    for key, found in group.get(resources, {}).items()
                },
            }
            for id, group in document.get(plural, {}).items()
        }
        for plural, resources in GROUPS.items()
    }


def parse(text: bytes, format: str) -> Any:
    return parse_yaml(text) if format.endswith("yaml") else parse_json(text)


@settings(max_examples=50)
@given(catalogs())
def test_migrating_a_document_of_the_newest_edition_changes_nothing(
    catalog: dict[str, Any],
) -> None:
    migrated = migrate(catalog)
    assert (migrated.document, migrated.rewrites, migrated.left_out) == (catalog, (), ())


@pytest.mark.parametrize("edition", EDITIONS)
@settings(max_examples=50)
@given(catalog=catalogs())
def test_every_edition_brings_back_what_was_written_to_it(
    catalog: dict[str, Any], edition: str
) -> None:
    written = downgrade(catalog, edition)
    assert written["specversion"] == SPECVERSIONS[edition]
    assert essence(migrate(written).document) == essence(catalog)


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=25)
@given(catalog=catalogs(), edition=st.sampled_from(EDITIONS))
def test_every_format_holds_every_edition(
    catalog: dict[str, Any], edition: str, format: str
) -> None:
    found = parse(write_document(catalog, format, edition), format)
    assert (found.pop("$schema", None) is not None) is format.startswith("cereg")
    assert found == downgrade(catalog, edition)


_STRUCTURE = (
    "definitionGroups schemaGroups endpoints messagegroups definitions messages "
    "schemas versions meta Labels endpointsUrl config options headers "
    "Versions Messages Config Usage Format Metadata CreatedBy id Id"
)
DAMAGED = st.recursive(
    ATOMS,
    lambda inner: st.dictionaries(
        st.one_of(
            st.sampled_from(_STRUCTURE.split()),
            NAMES,
            IDS,
        ),
        st.one_of(inner, ATTRIBUTES, st.lists(inner, max_size=2)),
        max_size=4,
    ),
    max_leaves=30,
)


@given(
    st.dictionaries(
        st.sampled_from(["definitionGroups", "schemaGroups", "endpoints"]),
        st.dictionaries(IDS, DAMAGED),
    ),
    st.booleans(),
)
def test_migrating_twice_is_migrating_once_whatever_the_document(
    document: dict[str, Any], keep_unknown: bool
) -> None:
    once = migrate(document, keep_unknown=keep_unknown).document
    again = migrate(once, keep_unknown=keep_unknown)
    assert (again.document, again.rewrites, again.left_out) == (once, (), ())


@given(
    st.dictionaries(
        st.sampled_from(["definitionGroups", "schemaGroups", "endpoints"]),
        st.dictionaries(IDS, DAMAGED),
    )
)
def test_nothing_of_a_document_that_was_migrated_would_be_lost(document: dict[str, Any]) -> None:
    """Collections that no edition has are not rewritten; a node refuses them."""
    found = [loss.pointer.split("/") for loss in find_losses(migrate(document).document)]
    assert [steps for steps in found if RESOURCES.get(steps[1]) == steps[3]] == []


@given(VALUES)
def test_yaml_says_what_json_says(value: Any) -> None:
    found = parse_yaml(to_yaml({"a": value}))
    assert found == {"a": value}
    assert type(found["a"]) is type(value)
