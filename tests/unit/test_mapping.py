"""Laws of selections and mappings: nothing comes without its parents, and no two get one name."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.model.entity import Entity, Origin
from catalog.model.xid import Xid
from replication.deciding.placement import (
    UNMAPPED,
    GroupMapping,
    NoPlace,
    PlacesChanged,
    check_places,
    groups_of,
    place_copies,
    read_names,
    write_names,
)
from replication.deciding.placement import why_no_names as fault_of
from replication.deciding.selection import is_selected
from replication.feed.feedlines import read_line, write_copy

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ids = st.sampled_from(["a", "A", "b", "eu-a", "EU-a", "eu-eu-a", "x" * 127])
xids = st.builds(
    lambda type, group, below: f"/{type}/{group}{below}",
    st.sampled_from(["messagegroups", "endpoints"]),
    ids,
    st.sampled_from(["", "/messages/m", "/messages/m/versions/1", "/schemas/s"]),
)
paths = st.builds("{}/{}".format, st.sampled_from(["messagegroups", "endpoints"]), ids)
tables = st.dictionaries(paths, paths, max_size=3).filter(lambda names: not fault_of(names))
mappings = st.builds(GroupMapping, st.sampled_from(["", "eu-", "x"]), tables)
scopes = st.lists(
    st.sampled_from(["/messagegroups", "/messagegroups/a", "/endpoints/b/messages/m", "/a"]),
    max_size=2,
)
types = st.lists(
    st.sampled_from(["endpoints", "messagegroups/messages", "endpoints/messages", "a"]), max_size=2
)


@given(xids, scopes, types)
def test_a_selection_contains_the_parents_of_what_it_contains(
    xid: str, scope: list[str], types: list[str]
) -> None:
    parent = Xid.parse(xid).parent
    if is_selected(xid, scope, types) and parent.gid:
        assert is_selected(str(parent), scope, types)


@pytest.mark.parametrize(
    ("type", "selected"),
    [
        ("endpoints", {"/endpoints/e", "/endpoints/e/messages/m"}),
        ("endpoints/messages", {"/endpoints/e", "/endpoints/e/messages/m"}),
        ("endpoints/others", {"/endpoints/e"}),
        ("messagegroups", {"/messagegroups/e"}),
    ],
)
def test_a_type_selects_its_entities_and_what_belongs_to_them(
    type: str, selected: set[str]
) -> None:
    held = {"/endpoints/e", "/endpoints/e/messages/m", "/messagegroups/e"}
    assert {xid for xid in held if is_selected(xid, (), [type])} == selected


@given(st.lists(xids, min_size=2, max_size=6, unique=True), mappings)
def test_no_two_xids_get_the_same_place(origins: list[str], mapping: GroupMapping) -> None:
    places = []
    for origin in origins:
        try:
            places.append(mapping.place(origin))
        except NoPlace:
            continue
        assert Xid.parse(places[-1])[2:] == Xid.parse(origin)[2:]
        assert Xid.parse(places[-1]).groups == Xid.parse(origin).groups
    assert len(set(places)) == len(places)


@given(tables)
def test_a_table_of_names_is_stored_without_loss(names: dict[str, str]) -> None:
    assert read_names(write_names(names)) == names


def resource(xid: str, xref: str | None = None) -> Entity:
    attributes = {"defaultversionid": "1"} if xref is None else {"xref": xref}
    kind = Xid.parse(xid).kind
    return Entity(
        xid=xid,
        kind=kind,
        authority="urn:theirs",
        origin=xid,
        epoch=1,
        attributes=attributes if kind == "resource" else {},
        createdat=NOW,
        modifiedat=NOW,
    ).sealed()


@given(xids, xids, mappings, st.booleans())
def test_what_is_sent_on_of_a_renamed_copy_is_what_came(
    xid: str, target: str, mapping: GroupMapping, is_reference: bool
) -> None:
    """Mapping and its undoing are the identity, cross references included."""
    reference = f"{'/'.join(target.split('/')[:3])}/messages/other" if is_reference else None
    came = resource(xid, reference)
    line = write_copy(came)
    read = read_line(line)
    assert isinstance(read, Entity)
    [placed] = place_copies([read], mapping, {})
    if isinstance(placed, Entity):
        assert placed.is_intact()
        assert write_copy(placed) == line
        [again] = place_copies([placed], mapping, {})
        assert again == placed
        [back] = place_copies([placed], UNMAPPED, {})
        assert back == read


def test_cross_references_lead_to_the_names_of_here() -> None:
    shown = resource("/messagegroups/a/messages/m", "/messagegroups/b/messages/other")
    [placed] = place_copies([shown], GroupMapping("eu-"), {})
    assert isinstance(placed, Entity)
    assert placed.attributes["xref"] == "/messagegroups/eu-b/messages/other"
    assert placed.published == shown.attributes
    assert groups_of([placed]) == {
        Origin("urn:theirs", f"/messagegroups/{group}") for group in ("a", "b")
    }


def test_what_is_below_a_group_goes_where_the_group_is() -> None:
    group = Origin("urn:theirs", "/messagegroups/a")
    held = {group: "/messagegroups/elsewhere"}
    copy = resource("/messagegroups/a/messages/m")
    others = replace(copy, authority="urn:others")
    places = [each.xid for each in place_copies([copy, others], GroupMapping("eu-"), held)]
    assert places == ["/messagegroups/elsewhere/messages/m", "/messagegroups/eu-a/messages/m"]
    check_places(GroupMapping("eu-"), held, held)
    check_places(GroupMapping("eu-"), {}, {group: "/messagegroups/eu-a"})
    for assumed, live in product(({}, held), repeat=2):
        if assumed != live:
            with pytest.raises(PlacesChanged):
                check_places(GroupMapping("eu-"), assumed, live)


@pytest.mark.parametrize(
    "names",
    [
        {"messagegroups/a": "endpoints/a"},
        {"messagegroups/a": "messagegroups/c", "messagegroups/b": "messagegroups/C"},
        {"messagegroups": "messagegroups/a"},
        {"messagegroups/a": "messagegroups/a/messages/m"},
        {"messagegroups/a": "messagegroups/-"},
    ],
)
def test_senseless_tables_are_refused(names: dict[str, str]) -> None:
    assert fault_of(names)
