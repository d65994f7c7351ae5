"""Versions that come and go in great numbers do so as if they did one by one."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.model.schema import ResourceType
from catalog.model.versions import Lineage, newest
from catalog.model.xid import Xid
from catalog.writing.drafts import Draft
from catalog.writing.versionorder import adopt, beyond_limit, lineage_of

START = datetime(2030, 1, 1, tzinfo=UTC)
RESOURCE = Xid("dirs", "d", "files", "f")


def draft(vid: str, ancestor: str | None = None, day: int = 0) -> Draft:
    made = Draft.new(RESOURCE.version(vid), START + timedelta(days=day))
    if ancestor is not None:
        made.attributes["ancestorid"] = ancestor
    return made


def kind(**settings: Any) -> ResourceType:
    return ResourceType(plural="files", singular="file", **settings)


@st.composite
def forests(draw: st.DrawFn) -> list[Draft]:
    """Versions that descend from one another in any way that is possible."""
    count = draw(st.integers(1, 12))
    order = draw(st.permutations(range(count)))
    made = []
    for position, number in enumerate(order):
        parents = [str(each) for each in order[: position + 1]]
        ancestor = draw(st.sampled_from(parents))
        made.append(draft(str(number), ancestor, draw(st.integers(0, 3))))
    return made


@given(forests(), st.lists(st.tuples(st.text("abc", min_size=1, max_size=3), st.integers(0, 3))))
def test_each_new_version_follows_the_newest_one(
    held: list[Draft], arrivals: list[tuple[str, int]]
) -> None:
    """core/model.md, "versionmode": manual."""
    orphans = [draft(vid, day=day) for vid, day in dict(arrivals).items()]
    known = [lineage_of(each) for each in held]
    expected = {}
    for each in sorted(orphans, key=lambda one: one.xid.vid.lower()):
        parent = newest(known)
        assert parent is not None
        expected[each.xid.vid] = parent.vid
        known.append(lineage_of(draft(each.xid.vid, parent.vid, (each.createdat - START).days)))
    adopt([*held, *orphans], orphans)
    assert {each.xid.vid: each.attributes["ancestorid"] for each in orphans} == expected


@given(forests(), st.data())
def test_what_follows_a_version_without_an_ancestor_comes_after_it(
    held: list[Draft], data: st.DataObject
) -> None:
    """core/model.md, "versionmode": manual; so none of them follows its own descendants."""
    orphans = [each for each in held if data.draw(st.booleans())]
    for each in orphans:
        del each.attributes["ancestorid"]
    known = {each.xid.vid: lineage_of(each) for each in held if each not in orphans}
    expected = {vid: each.ancestor for vid, each in known.items()}
    for orphan in sorted(orphans, key=lambda one: one.xid.vid.lower()):
        parent = newest([each for vid, each in known.items() if has_root(vid, expected)])
        vid = orphan.xid.vid
        expected[vid] = parent.vid if parent is not None else vid
        known[vid] = lineage_of(draft(vid, expected[vid], (orphan.createdat - START).days))
    adopt(held, orphans)
    assert {each.xid.vid: each.attributes["ancestorid"] for each in held} == expected


def has_root(vid: str, ancestors: dict[str, str]) -> bool:
    while ancestors.get(vid, vid) != vid:
        vid = ancestors[vid]
    return vid in ancestors


def first_to_go(versions: list[Lineage]) -> Lineage:
    """The first created root; where there is none, of those whose ancestor is not among them."""
    vids = {version.vid for version in versions}
    heirs = [version for version in versions if version.ancestor not in vids]
    roots = [version for version in versions if version.ancestor == version.vid]
    return min(roots or heirs or versions, key=lambda one: (one.createdat, one.vid.lower()))


@given(forests(), st.integers(2, 5), st.data())
def test_the_oldest_root_goes_until_few_enough_are_left(
    held: list[Draft], limit: int, data: st.DataObject
) -> None:
    """core/model.md, "maxversions" and "versionmode": manual."""
    default = data.draw(st.sampled_from([each.xid.vid for each in held]))
    left = {each.xid.vid: lineage_of(each) for each in held}
    expected = []
    while len(left) > limit:
        first = first_to_go([each for vid, each in left.items() if vid != default])
        expected.append(first.vid)
        del left[first.vid]
        for each in left.values():
            each.ancestor = each.vid if each.ancestor == first.vid else each.ancestor
    gone = beyond_limit(held, default, kind(maxversions=limit))
    assert [each.xid.vid for each in gone] == expected


def test_what_descended_from_a_deleted_version_goes_before_children_of_the_default_one() -> None:
    held = [draft("0", "0"), draft("1", "0"), draft("2", "0"), draft("3", "1", day=1)]
    gone = beyond_limit(held, "0", kind(maxversions=2))
    assert [each.xid.vid for each in gone] == ["1", "3"]


@pytest.mark.parametrize("mode", ["createdat", "modifiedat", "semver"])
def test_the_first_in_the_order_of_the_mode_goes(mode: str) -> None:
    """core/model.md, "versionmode"."""
    held = [draft(f"{number}.0.0", day=number) for number in (3, 1, 12, 2)]
    gone = beyond_limit(held, "1.0.0", kind(maxversions=2, versionmode=mode))
    assert [each.xid.vid for each in gone] == ["2.0.0", "3.0.0"]


def test_a_great_many_versions_take_no_time_to_speak_of() -> None:
    """A request of a few megabytes can bring a hundred thousand."""
    began = time.process_time()
    orphans = [draft(f"v{number:06}") for number in range(20_000)]
    adopt(orphans, orphans)
    assert orphans[-1].attributes["ancestorid"] == "v019998"
    gone = beyond_limit(orphans, "v019999", kind(maxversions=10))
    assert len(gone) == 19_990
    assert time.process_time() - began < 5


def test_versions_whose_ancestors_name_none_take_no_time_either() -> None:
    began = time.process_time()
    orphans = [draft(f"a{number:05}") for number in range(10_000)]
    children = [draft(f"b{number:05}", f"a{number:05}") for number in range(10_000)]
    adopt([*orphans, *children], orphans)
    assert [each.attributes["ancestorid"] for each in orphans[:3]] == ["a00000", "b00000", "b00001"]
    assert time.process_time() - began < 5
