"""Whatever is there and whatever documents say: applying them again changes nothing."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from tests.integration.conftest import Answer, Node, shared_node
from tests.integration.processing.entities import Json, Kind
from tests.integration.processing.registry import GROUPS, Oracle
from tests.integration.processing.requests import RIDS, SEMANTIC_VIDS, TIMES, VIDS, Client
from tests.integration.test_resource_processing_law import KINDS, SOURCE, plain, send

pytestmark = pytest.mark.asyncio(loop_scope="module")
QUIET = settings(
    max_examples=25,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    deadline=None,
)
GIDS = ("g", "h")
TARGETS = "t"
STEPS = 10
FLAGS = st.sampled_from(["", "?prune", "?set=a", "?set=a&prune", f"?prune&scope=/{GROUPS}/g"])
clock = itertools.count()


def some(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries({}, optional=optional)


times = st.sampled_from([*TIMES, None])
attributes = some(
    name=st.sampled_from(["n", "m"]),
    description=st.just("d"),
    labels=st.sampled_from([{"a": "b"}, {}, {"c": "d"}]),
    createdat=times,
    modifiedat=times,
)


def versions_of(kind: Kind) -> st.SearchStrategy[Json]:
    vids = SEMANTIC_VIDS if kind.mode == "semver" else VIDS
    known = st.sampled_from(vids)
    version = attributes
    if kind.mode == "manual":
        line = st.none() | st.none() | st.none() | known
        version = st.builds(
            lambda own, vid: own | ({"ancestorid": vid} if vid else {}), attributes, line
        )
    return st.dictionaries(known, version, max_size=(kind.limit or 3) if kind.sets_ids else 0)


def metas_of(kind: Kind) -> st.SearchStrategy[Json]:
    vids = SEMANTIC_VIDS if kind.mode == "semver" else VIDS
    sticky = st.booleans() if kind.limit != 1 else st.just(False)
    default = some(defaultversionid=st.sampled_from(vids), defaultversionsticky=sticky)
    return st.builds(lambda own, chosen: own | chosen, attributes, default)


def resources_of(kind: Kind) -> st.SearchStrategy[Json]:
    parts = some(meta=metas_of(kind), versions=versions_of(kind))
    ordinary = st.builds(lambda own, more: own | more, attributes, parts)
    targets = [f"/{GROUPS}/{TARGETS}/{kind.plural}/{rid}" for rid in RIDS]
    return ordinary | st.sampled_from([{"meta": {"xref": target}} for target in targets])


def groups() -> st.SearchStrategy[Json]:
    members = {
        kind.plural: st.dictionaries(st.sampled_from(RIDS), resources_of(kind)) for kind in KINDS
    }
    return st.builds(lambda own, inner: own | inner, attributes, some(**members))


documents = st.dictionaries(st.sampled_from(GIDS), groups(), min_size=1).map(
    lambda found: {GROUPS: found}
)

node = shared_node(modelsource=SOURCE)


async def in_some_state(node: Node, seed: int) -> None:
    """Let a client have written this and that."""
    await node.send("DELETE", f"/{GROUPS}")
    oracle = Oracle(KINDS, plain(await node.get("/")))
    client = Client(seed, [*GIDS, TARGETS], oracle)
    for _ in range(STEPS if seed else 0):
        request = client.request()
        oracle.answer(request, f"2400-01-01T00:00:00.{next(clock):06}Z")
        await send(node, request)


async def apply(node: Node, document: Json, flags: str) -> Answer | None:
    """What an apply answers, unless a rule of the model forbids the document."""
    answer = await node.send("POST", f"/apply{flags}", document)
    assert answer.status in (200, 400), answer.body
    event(f"{answer.status} {answer.error if answer.status == 400 else ''}")
    return answer if answer.status == 200 else None


@QUIET
@given(seed=st.integers(0, 500), document=documents, flags=FLAGS)
async def test_applying_twice_is_applying_once(
    node: Node, seed: int, document: Json, flags: str
) -> None:
    await in_some_state(node, seed)
    before = await node.state()
    dry = await apply(node, document, f"{flags}&dryrun" if flags else "?dryrun")
    assert await node.state() == before
    first = await apply(node, document, flags)
    assert (first and without_id(first)) == (dry and dry.json)
    if first is None:
        return
    after = await node.state()
    second = await node.send("POST", f"/apply{flags}", document)
    assert second.json["changes"] == []
    assert await node.state() == after
    assert_says(after[0], document)


@QUIET
@given(seed=st.integers(1, 500), document=documents)
async def test_applying_what_was_exported_changes_nothing(
    node: Node, seed: int, document: Json
) -> None:
    await in_some_state(node, seed)
    await apply(node, document, "")
    before = await node.state()
    answer = await node.send("POST", "/apply?prune", {GROUPS: before[0][GROUPS]})
    assert (answer.status, answer.json.get("changes")) == (200, []), answer.body
    assert await node.state() == before


@QUIET
@given(seed=st.integers(0, 500), document=documents, choice=st.randoms(use_true_random=False))
async def test_one_change_writes_one_entity_and_what_changes_with_it(
    node: Node, seed: int, document: Json, choice: Any
) -> None:
    await in_some_state(node, seed)
    other = copy.deepcopy(document)
    xid, body = choice.choice([*writable(other)])
    body["description"] = "another one"
    if await apply(node, document, "") is None or await apply(node, other, "?dryrun") is None:
        return
    before = rows(await node.get("/export"))
    answer = await apply(node, other, "")
    assert answer is not None
    changed = [each["xid"] for each in answer.json["changes"]]
    assert changed == [xid], answer.json
    after = rows(await node.get("/export"))
    assert {each for each in after if after[each] != before.get(each)} == {xid}


def without_id(answer: Answer) -> Json:
    return {name: value for name, value in answer.json.items() if name != "interaction"}


def assert_says(exported: Json, document: Json) -> None:
    """An export says of each entity what the document says of it."""
    shown = rows(exported)
    for xid, body in writable(document):
        for name in ("name", "description", "createdat"):
            if name in body and body[name] is not None:
                assert shown[xid][name] == body[name]
            elif name != "createdat":
                assert name not in shown[xid]
        assert shown[xid]["modifiedat"] >= (body.get("modifiedat") or "")


def writable(document: Json) -> Iterator[tuple[str, Json]]:
    """The xids and bodies of the groups and listed versions of a document."""
    for gid, group in document[GROUPS].items():
        yield f"/{GROUPS}/{gid}", group
        for kind in KINDS:
            if kind.mode == "modifiedat":
                # An update there is a new place in the order of all versions.
                continue
            for rid, resource in group.get(kind.plural, {}).items():
                for vid, version in (resource.get("versions") or {}).items():
                    yield f"/{GROUPS}/{gid}/{kind.plural}/{rid}/versions/{vid}", version


def rows(exported: Json) -> Json:
    """What an export says of each entity alone, by xid."""
    found: Json = {}
    for gid, group in exported.get(GROUPS, {}).items():
        plurals = {kind.plural for kind in KINDS}
        found[f"/{GROUPS}/{gid}"] = {k: v for k, v in group.items() if k not in plurals}
        for plural in plurals:
            for rid, resource in group.get(plural, {}).items():
                xid = f"/{GROUPS}/{gid}/{plural}/{rid}"
                found[f"{xid}/meta"] = resource.get("meta")
                for vid, version in resource.get("versions", {}).items():
                    found[f"{xid}/versions/{vid}"] = version
    return found
