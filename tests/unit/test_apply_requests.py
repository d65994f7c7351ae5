"""A desired state is cut into as many requests as a node's limit asks for, and loses nothing."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.commands.apply.desiredstate import DesiredState
from catalog.commands.apply.requests import PortionTooLarge, portions

MODEL = {
    "groups": {
        "endpoints": {"resources": {"messages": {}}},
        "messagegroups": {"resources": {"messages": {}}},
        "schemagroups": {"resources": {"schemas": {}}},
    }
}
LIMIT = 4000
ids = st.text("abc", min_size=1, max_size=3)
resources = st.dictionaries(ids, st.builds(lambda size: {"name": "x" * size}, st.integers(0, 1500)))


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
    assert all(len(orjson.dumps(body)) <= LIMIT for body in bodies)
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


def test_a_resource_that_no_request_could_carry_is_an_error() -> None:
    groups = {"schemagroups": {"s": {"schemas": {"x": {"name": "x" * 5000}}}}}
    with pytest.raises(PortionTooLarge, match="/schemagroups/s/schemas/x"):
        portions(groups, MODEL, LIMIT)
