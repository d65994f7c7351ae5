"""What replicas show of where they are from, when it is sent back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.integration.conftest import Node, start_node
from tests.integration.federation import execute
from tests.integration.test_restricted_callers import Holder, holder

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANYTHING = {"*": {"type": "any"}}
OWN = {"authority": {"type": "string"}}
MODEL = {
    "attributes": ANYTHING,
    "groups": {
        "bays": {
            "singular": "bay",
            "attributes": ANYTHING,
            "resources": {
                "tags": {"singular": "tag", "hasdocument": False, "attributes": ANYTHING},
                "crates": {"singular": "crate"},
            },
        },
        "racks": {"singular": "rack", "attributes": OWN},
    },
}
CLAIM = {"authority": "https://elsewhere.example", "origin": "/bays/far"}
REPLICA: dict[str, Any] = {
    "tags": {"t": {"name": "a"}},
    "crates": {"c": {"crate": {"a": 1}}},
}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(shared_database_url, modelsource=MODEL) as running:
        await running.put("/bays/replica", REPLICA)
        await execute(
            running,
            "UPDATE entities SET authority = 'https://elsewhere.example' WHERE xid ~ '/replica'",
        )
        yield running


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def readers(node: Node, shared_database_url: str) -> AsyncIterator[dict[str, Holder]]:
    """Callers of a closed node on the same database: who sees all of it, a part, another part."""
    async with start_node(shared_database_url, modelsource=MODEL, open=False) as closed:
        yield {
            "all": await holder(closed, "reader"),
            "law": await holder(closed, "reader", "/bays/l*"),
            "others": await holder(closed, "reader", "/bays/replica"),
        }


@pytest.mark.parametrize(
    "path",
    ["/bays/b", "/bays/b/tags/t", "/bays/b/tags/t/meta", "/bays/b/crates/c$details"],
)
async def test_nobody_can_claim_another_authority(node: Node, path: str) -> None:
    for method in ("PUT", "PATCH"):
        answer = await node.send(method, path, CLAIM)
        assert answer.status in (200, 201), answer.body
        assert not CLAIM.keys() & answer.json.keys()
        assert not CLAIM.keys() & (await node.get(path)).keys()


async def test_what_a_replica_shows_can_be_copied_as_it_is(node: Node) -> None:
    shown = await node.get("/bays/replica?inline=*")
    assert shown["authority"] == shown["tags"]["t"]["meta"]["authority"] == CLAIM["authority"]
    await node.put("/bays/copy?ignore=id", shown)
    copy = await node.get("/bays/copy?inline=*")
    assert "authority" not in copy
    assert "authority" not in copy["tags"]["t"]["meta"]
    assert copy["crates"]["c"]["crate"] == {"a": 1}


async def test_an_attribute_of_that_name_that_the_model_defines_is_kept(node: Node) -> None:
    assert (await node.put("/racks/r", {"authority": "mine"}))["authority"] == "mine"


async def test_extensions_of_that_name_are_kept_where_no_replica_can_be(node: Node) -> None:
    await node.put("/bays/deep", {"notes": CLAIM})
    assert (await node.get("/bays/deep"))["notes"] == CLAIM
    answer = await node.send("PATCH", "/", CLAIM)
    assert answer.json["origin"] == CLAIM["origin"]


NAMES = st.sampled_from(["name", "description", "icon", "labels", "own"])
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=9)
VALUES = {
    "labels": st.dictionaries(st.sampled_from(["a", "b"]), TEXTS, min_size=1),
    "icon": st.just("https://example.com/i.png"),
    "own": st.integers(-9, 9) | st.lists(st.integers(-9, 9)),
}


@st.composite
def versions(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.sets(NAMES))
    return {name: draw(VALUES.get(name, TEXTS)) for name in sorted(names)}


@settings(max_examples=40, deadline=None)
@given(
    resource=st.sampled_from(["tags/a", "crates/b", "tags/c"]),
    content=st.lists(versions(), min_size=1, max_size=3),
    has_short=st.booleans(),
    is_replica=st.booleans(),
    is_reference=st.booleans(),
    reader=st.sampled_from(["all", "law", "others"]),
)
async def test_a_plain_read_is_answered_as_one_with_a_flag_to_the_byte(
    node: Node,
    readers: dict[str, Holder],
    resource: str,
    content: list[dict[str, Any]],
    has_short: bool,
    is_replica: bool,
    is_reference: bool,
    reader: str,
) -> None:
    own = node.database.node.authority
    move = "UPDATE entities SET authority = $1 WHERE xid ~ '/law'"
    await execute(node, move, own)
    await node.send("PATCH", "/capabilities", {"shortself": has_short})
    path = f"/bays/law/{resource}"
    details = "$details" if "crates" in resource else ""
    await node.send("DELETE", path)
    for number, attributes in enumerate(content):
        known = {name: value for name, value in attributes.items() if name != "own" or not details}
        await node.put(f"{path}/versions/{number}{details}", known)
    if is_reference:
        plural = resource.partition("/")[0]
        await node.put(f"/bays/law/{plural}/of/meta", {"xref": path})
        path = f"/bays/law/{plural}/of"
    await execute(node, move, CLAIM["authority"] if is_replica else own)
    fresh = {"Cache_Control": "no-cache"}
    plain = await readers[reader].send("GET", f"{path}{details}", **fresh)
    long = await readers[reader].send("GET", f"{path}{details}?specversion=1.0-rc4", **fresh)
    status = 404 if reader == "others" else 200
    assert (plain.status, plain.json) == (long.status, long.json) == (status, long.json)
    if status == 200:
        assert plain.body == long.body
    passing = {"Date", "RateLimit", "X-Request-ID"}
    assert {n: v for n, v in plain.headers.items() if n not in passing} == {
        n: v for n, v in long.headers.items() if n not in passing
    }
