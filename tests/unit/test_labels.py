"""Labels let pass what they select, with all that is above it, in whatever order it is listed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.model.entity import Entity
from catalog.model.xid import Xid
from replication.deciding.copychecks import Incoming
from replication.deciding.selection import LabelSieve, has_labels

NOW = datetime(2030, 1, 1, tzinfo=UTC)
WANTED = ("public=yes", "team")
labels = st.sampled_from(
    [{}, {"public": "yes"}, {"public": "no", "team": "a"}, {"public": "yes", "team": ""}]
)
# `-` and `.` come before `/`: a listing in order separates what belongs together.
ids = st.sampled_from(["m", "m-1", "m.x", "n"])
versions = st.dictionaries(st.sampled_from(["1", "1-a", "2"]), labels, min_size=1)
groups = st.dictionaries(ids, st.tuples(labels, st.dictionaries(ids, versions, max_size=3)))


def entity(xid: str, attributes: dict[str, object]) -> Entity:
    return Entity(
        xid=xid,
        kind=Xid.parse(xid).kind,
        authority="urn:theirs",
        origin=xid,
        epoch=1,
        attributes=attributes,
        createdat=NOW,
        modifiedat=NOW,
    )


@given(groups, st.data())
def test_a_sieve_passes_what_labels_select_and_what_is_above_it(
    groups: dict[str, tuple[dict[str, str], dict[str, dict[str, dict[str, str]]]]],
    data: st.DataObject,
) -> None:
    listed: list[Entity] = []
    expected: set[str] = set()
    for gid, (group_labels, members) in groups.items():
        group = f"/messagegroups/{gid}"
        listed.append(entity(group, {"labels": group_labels}))
        is_whole = group_labels == {"public": "yes", "team": ""}
        expected |= {group} if is_whole else set()
        for rid, held in members.items():
            resource = f"{group}/messages/{rid}"
            default = data.draw(st.sampled_from(sorted(held)))
            # Labels of the meta entity are not those that the resource shows.
            meta = {"defaultversionid": default, "labels": {"public": "yes", "team": "x"}}
            below = {f"{resource}/versions/{vid}": tags for vid, tags in held.items()}
            listed += [entity(resource, meta)]
            listed += [entity(xid, {"labels": tags}) for xid, tags in below.items()]
            if is_whole or held[default] == {"public": "yes", "team": ""}:
                expected |= {group, resource, *below}
    sieve = LabelSieve(WANTED)
    passed: list[Incoming] = []
    for copy in sorted(listed, key=lambda each: each.xid):
        passed += sieve.take(copy)
    passed += sieve.end()
    xids = [each.xid for each in passed]
    assert sorted(xids) == sorted(expected)
    left_out = {each.xid for each in sieve.left_out(is_complete=True)}
    assert left_out == {each.xid for each in listed} - expected
    for position, xid in enumerate(xids):
        parent = str(Xid.parse(xid).parent)
        assert parent == "/" or parent in xids[:position]


@pytest.mark.parametrize(
    ("attributes", "is_there"),
    [
        ({"labels": {"public": "yes", "team": "a=b"}}, True),
        ({"labels": {"public": "yes"}}, False),
        ({"labels": {"public": "", "team": "a"}}, False),
        ({"labels": "public=yes"}, False),
        ({}, False),
    ],
)
def test_all_labels_have_to_be_there(attributes: dict[str, object], is_there: bool) -> None:
    assert has_labels(attributes, WANTED) is is_there
