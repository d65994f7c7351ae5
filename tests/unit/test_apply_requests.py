"""A desired state is cut into as many requests as a node's limit asks for, and loses nothing."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.commands.apply.requests import Capacity, DesiredState, PortionTooLarge, portions
from catalog.http.body import check_number_of_values

MODEL = {
    "groups": {
        "endpoints": {"resources": {"messages": {}}},
        "messagegroups": {"resources": {"messages": {}}},
        "schemagroups": {"resources": {"schemas": {}}},
    }
}
LIMIT = Capacity(bytes=4000, values=60)
ids = st.text("abc", min_size=1, max_size=3)
texts = st.builds(lambda size: {"name": "x" * size}, st.integers(0, 1500))
lists = st.builds(lambda size: {"tags": [1] * size}, st.integers(0, 30))
resources = st.dictionaries(ids, texts | lists)


def members(plural: str) -> st.SearchStrategy[Any]:
    return st.dictionaries(ids, st.fixed_dictionaries({"name": ids, plural: resources}))


states = st.fixed_dictionaries(
    {},
    optional={
        "endpoints": members("messages"),
        "messagegroups": members("messages"),
        "schemagroups": members("schemas"),
    },
)


@given(groups=states)
def test_every_request_fits_and_together_they_say_everything(groups: dict[str, Any]) -> None:
    bodies = portions(groups, MODEL, LIMIT)
    for text in map(orjson.dumps, bodies):
        assert len(text) <= LIMIT.bytes
        check_number_of_values(text, LIMIT.values)
    desired = DesiredState(model=MODEL)
    for body in bodies:
        desired.add("", body)
    assert desired.contradictions == []
    assert desired.groups == {plural: groups[plural] for plural in groups if groups[plural]}


def test_what_fits_is_one_request() -> None:
    groups = {"endpoints": {"e": {}}, "schemagroups": {"s": {"schemas": {"x": {}}}}}
    assert portions(groups, MODEL, LIMIT) == [groups]
    assert portions({"endpoints": {}}, MODEL, LIMIT) == []


def test_what_is_referred_to_comes_before_what_refers() -> None:
    large = {"name": "x" * 2000}
    groups = {plural: {"g": large} for plural in ("endpoints", "messagegroups", "schemagroups")}
    bodies = portions(groups, MODEL, LIMIT)
    assert [[*body] for body in bodies] == [["schemagroups"], ["messagegroups"], ["endpoints"]]


@pytest.mark.parametrize(
    ("group", "xid"),
    [
        ({"schemas": {"x": {"name": "x" * 5000}}}, "/schemagroups/s/schemas/x"),
        ({"schemas": {"x": {"tags": [1] * 70}}}, "/schemagroups/s/schemas/x"),
        ({"name": "x" * 5000}, "/schemagroups/s"),
        ({"schemas": ["x" * 5000]}, "/schemagroups/s"),
        ("x" * 5000, "/schemagroups/s"),
    ],
)
def test_what_no_request_could_carry_is_an_error(group: Any, xid: str) -> None:
    with pytest.raises(PortionTooLarge, match=f"^{xid} alone"):
        portions({"schemagroups": {"s": group}}, MODEL, LIMIT)
