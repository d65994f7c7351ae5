"""Which version is newest, oldest, and what each descends from, by the mode of its type."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.model.versions import Lineage, assign_ancestors, circle, is_semantic, newest

START = datetime(2030, 1, 1, tzinfo=UTC)
MODES = ("createdat", "modifiedat", "semver")


def version(vid: str, created: int = 0, modified: int = 0, ancestor: str = "") -> Lineage:
    return Lineage(
        vid=vid,
        ancestor=ancestor or vid,
        createdat=START + timedelta(minutes=created),
        modifiedat=START + timedelta(minutes=modified),
    )


def last(versions: list[Lineage], mode: str) -> str:
    found = newest(versions, mode)
    assert found is not None
    return found.vid


def chain(versions: list[Lineage], mode: str) -> str:
    """The versions from the root to the newest."""
    ancestors = assign_ancestors(versions, mode)
    descendants = {ancestor: vid for vid, ancestor in ancestors.items() if vid != ancestor}
    vids = [vid for vid, ancestor in ancestors.items() if vid == ancestor]
    while vids[-1] in descendants:
        vids.append(descendants[vids[-1]])
    return " ".join(vids)


def test_without_versions_there_is_no_newest() -> None:
    for mode in ("manual", *MODES):
        assert newest([], mode) is None
        assert assign_ancestors([], mode) == {}


def test_by_hand_the_newest_is_the_last_created_that_nobody_descends_from() -> None:
    versions = [version("a", 0), version("b", 9, ancestor="a"), version("c", 5, ancestor="b")]
    assert last(versions, "manual") == "c"
    versions.append(version("d", 7))
    assert last(versions, "manual") == "d"


def test_by_hand_ids_decide_between_versions_created_at_once_in_any_case() -> None:
    versions = [version("b"), version("A"), version("C"), version("a1")]
    assert last(versions, "manual") == "C"


def test_semantic_versions_follow_their_precedence() -> None:
    order = (
        "1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0 1.9.0 1.10.0"
    )
    versions = [version(vid, created) for created, vid in enumerate(reversed(order.split()))]
    assert chain(versions, "semver") == order


def test_ids_that_are_no_semantic_versions_come_before_all_that_are() -> None:
    versions = [version("0.0.1-a"), version("v9.0.0"), version("2"), version("01.0.0")]
    assert chain(versions, "semver") == "01.0.0 2 v9.0.0 0.0.1-a"
    assert [is_semantic(one.vid) for one in versions] == [True, False, False, False]


def test_build_metadata_does_not_matter_until_ids_decide() -> None:
    assert chain([version("1.0.0+b"), version("1.0.0+a"), version("0.9.9")], "semver") == (
        "0.9.9 1.0.0+a 1.0.0+b"
    )


vids = st.from_regex(r"[a-zA-Z0-9_][a-z0-9.\-]{0,5}", fullmatch=True) | st.builds(
    "{}.{}.{}{}".format,
    st.integers(0, 3),
    st.integers(0, 11),
    st.integers(0, 1),
    st.sampled_from(["", "-a", "-2", "-10", "-rc.1"]),
)
histories = st.lists(
    st.builds(version, vids, st.integers(0, 3), st.integers(0, 3)),
    min_size=1,
    max_size=12,
    unique_by=lambda one: one.vid.lower(),
)


@given(histories, st.sampled_from(MODES))
def test_an_order_makes_one_chain_from_the_oldest_to_the_newest(
    versions: list[Lineage], mode: str
) -> None:
    ancestors = assign_ancestors(versions, mode)
    linked = chain(versions, mode).split()
    assert sorted(linked) == sorted(ancestors) == sorted(one.vid for one in versions)
    assert linked[-1] == last(versions, mode)
    assert circle(ancestors) == []
    assert [vid for vid, ancestor in ancestors.items() if vid == ancestor] == linked[:1]


@given(histories, st.sampled_from(("manual", *MODES)), st.data())
def test_the_order_in_which_versions_are_given_changes_nothing(
    versions: list[Lineage], mode: str, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(versions))
    assert last(shuffled, mode) == last(versions, mode)
    assert assign_ancestors(shuffled, mode) == assign_ancestors(versions, mode)


@pytest.mark.parametrize(
    ("ancestors", "vids"),
    [
        ({"a": "a", "b": "a", "c": "b"}, set()),
        ({"a": "b", "b": "a", "c": "c"}, {"a", "b"}),
        ({"r": "r", "a": "b", "b": "c", "c": "a", "d": "a"}, {"a", "b", "c"}),
    ],
)
def test_a_circle_among_ancestors_is_found(ancestors: dict[str, str], vids: set[str]) -> None:
    assert set(circle(ancestors)) == vids
