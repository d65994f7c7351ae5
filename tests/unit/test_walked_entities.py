"""Copies of a walked server's entities: they say what it says, and their epochs never fall."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.model.entity import Entity, Tombstone
from catalog.model.modelsource import default_model
from catalog.model.xid import Xid
from catalog.operations.feed import Verdict
from replication.deciding.decide import LocalState, decide
from replication.deciding.provenance import MOST_LEAP, Policy
from replication.readers.reader import read_group, read_resource, read_version
from replication.sources.walkedcopies import end_of, sealed_copy

AUTHORITY = "https://registry.example.com"
POLICY = Policy(own="urn:here", sender=AUTHORITY, authorities=frozenset({AUTHORITY}))
NOW = datetime(2030, 1, 1, tzinfo=UTC)
MODEL = default_model()
SCHEMAS = MODEL.groups["schemagroups"].resources["schemas"]
TIMES = {"createdat": "2024-01-01T00:00:00+01:00", "modifiedat": "2024-01-01T00:00:00.5Z"}
GROUP = Xid("schemagroups", "g")
VERSION = Xid("schemagroups", "g", "schemas", "s", "1")

# What a server has of one entity at the time of a walk: an epoch and a text, or nothing.
states = st.none() | st.tuples(
    st.integers(0, 12) | st.integers(0, 2**62) | st.just(MOST_LEAP), st.sampled_from("abc")
)


def told(epoch: int, text: str) -> Entity:
    return Entity(
        xid=str(GROUP),
        kind="group",
        authority=AUTHORITY,
        origin=str(GROUP),
        epoch=epoch,
        attributes={"name": text},
        createdat=NOW,
        modifiedat=NOW,
    )


@given(st.lists(states, max_size=12))
def test_a_replica_is_what_its_server_said_last_and_its_epoch_never_falls(walks: list[Any]) -> None:
    held: Entity | Tombstone | None = None
    for state in walks:
        epoch = 0 if held is None else held.epoch
        copy: Entity | Tombstone
        if state is None:
            if not isinstance(held, Entity):
                continue
            copy = end_of(held, NOW)
        else:
            copy = sealed_copy(told(*state), held)
        verdict = decide(LocalState(held=held), copy, POLICY)
        assert verdict in (Verdict.APPLY, Verdict.CURRENT)
        if verdict is Verdict.CURRENT:
            assert held is not None
            assert held.digest == copy.digest
        held = copy
        assert held.epoch >= max(epoch, 1)
        if isinstance(held, Entity):
            assert state is not None
            assert held.attributes == {"name": state[1]}
            assert sealed_copy(told(*state), held).digest == held.digest


def test_epochs_are_the_servers_unless_it_begins_anew() -> None:
    first = sealed_copy(told(7, "a"), None)
    assert first.epoch == 7
    assert sealed_copy(told(9, "a"), first).epoch == 9
    assert sealed_copy(told(3, "a"), first).epoch == 7
    assert sealed_copy(told(3, "b"), first).epoch == 8
    assert sealed_copy(told(1, "a"), end_of(first, NOW)).epoch == 9
    assert sealed_copy(told(2**60, "a"), None).epoch == 1


def test_a_version_has_what_is_its_own_and_its_exact_document() -> None:
    body = {
        **TIMES,
        **{"schemaid": "s", "versionid": "1", "xid": str(VERSION), "self": "#/x", "epoch": 4},
        **{"isdefault": True, "format": "x", "formatvalidated": False, "extension": None},
        "schemabase64": "eyB9",
    }
    found = read_version(AUTHORITY, SCHEMAS, VERSION, body)
    assert found.entity.attributes == {"ancestorid": "1", "format": "x"}
    assert (found.entity.document, found.lacks_document) == (b"{ }", False)
    assert found.entity.createdat == datetime(2023, 12, 31, 23, tzinfo=UTC)

    del body["schemabase64"]
    json = {**body, "schema": {}, "contenttype": "application/json"}
    assert read_version(AUTHORITY, SCHEMAS, VERSION, json).lacks_document
    text = {**body, "schema": "text", "contenttype": "text/plain"}
    assert read_version(AUTHORITY, SCHEMAS, VERSION, text).entity.document == b"text"
    far = {**body, "schemaurl": "http://example.com/"}
    assert not read_version(AUTHORITY, SCHEMAS, VERSION, far).lacks_document


def test_a_cross_reference_is_nothing_but_its_target_in_either_view() -> None:
    body = {**TIMES, "epoch": 1}
    group = read_group(AUTHORITY, MODEL.groups["schemagroups"], GROUP, body, ()).entity
    shown = {"schemaid": "s", "xref": "/schemagroups/g/schemas/t"}
    for meta in (shown, {**shown, **TIMES, "epoch": 8, "defaultversionid": "1"}):
        found = read_resource(AUTHORITY, SCHEMAS, VERSION.resource, meta, group).entity
        assert found.attributes == {"xref": "/schemagroups/g/schemas/t"}
        assert (found.epoch, found.modifiedat) == (0, group.createdat)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"epoch": -1}, "epoch"),
        ({"epoch": True}, "epoch"),
        ({"createdat": None}, "createdat"),
        ({"modifiedat": "now"}, "modifiedat"),
        ({"schemagroupid": "h"}, "schemagroupid"),
        ({"xid": "/schemagroups/h"}, "xid"),
    ],
)
def test_a_malformed_entity_has_its_reason(changed: dict[str, Any], reason: str) -> None:
    body = {"schemagroupid": "g", "epoch": 1, **TIMES, **changed}
    with pytest.raises(ValueError, match=reason):
        read_group(AUTHORITY, MODEL.groups["schemagroups"], GROUP, body, ())
