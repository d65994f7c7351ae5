"""A search finds what has the words, however it was written, and tells where they are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any
from urllib.parse import urlencode

import orjson
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from catalog.indexing.schemafields import field_names
from catalog.indexing.words import words_of
from tests.integration.conftest import Node, assert_problem, start_node
from tests.integration.federation import databases, link, link_is, running, start_member
from tests.integration.test_openapi_subscriptions import DescribedApi

pytestmark = pytest.mark.asyncio(loop_scope="module")

AVRO = {
    "type": "record",
    "name": "Sale",
    "fields": [{"name": "customerId", "type": "long"}],
}
WORDS = ["order", "OrderPaid", "paid", "stock.moved", "customerId", "Ünit", "a1"]
_IDS = st.sampled_from(["order", "OrderPaid", "stock.moved", "a1"])
_TEXT = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)
_ATTRIBUTES = st.fixed_dictionaries(
    {},
    optional={
        "name": _TEXT.filter(bool),
        "description": _TEXT.filter(bool),
        "labels": st.dictionaries(st.sampled_from(["team", "paid"]), _TEXT, max_size=2),
        "deprecated": st.just({}),
    },
)
_FIELDS = st.lists(st.sampled_from(["customerId", "paid", "unit"]), max_size=2, unique=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(shared_database_url) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def empty(node: Node) -> Node:
    """The node, without any entity of before."""
    for plural in ("endpoints", "messagegroups", "schemagroups"):
        assert (await node.send("DELETE", f"/{plural}")).status == 204
    return node


async def search(node: Node, q: str = "", **conditions: Any) -> dict[str, Any]:
    answer = await node.send("GET", f"/-/search?{urlencode({'q': q, **conditions})}")
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json
    return found


async def xids(node: Node, q: str = "", **conditions: Any) -> list[str]:
    return [hit["xid"] for hit in (await search(node, q, **conditions))["hits"]]


async def test_hits_tell_what_they_are_and_where_the_words_stand(empty: Node) -> None:
    await empty.put(
        "/messagegroups/shop/messages/com.example.OrderPaid",
        {
            "name": "An order is paid",
            "envelope": "CloudEvents/1.0",
            "envelopemetadata": {"type": {"value": "com.example.order.paid"}},
            "deprecated": {},
        },
    )
    api = DescribedApi(empty, await empty.get("/openapi.json"))
    answer = await api.done("GET", "/-/search", query="?q=orderPa")
    await api.refused(400, "GET", "/-/search")
    await api.refused(400, "GET", "/-/search", query="?q=a&limit=0")
    [hit] = answer["hits"]

    assert (answer["count"], answer["complete"]) == (1, True)
    assert hit["type"] == "messagegroups/messages"
    assert hit["authority"] == empty.database.node.authority
    assert (hit["epoch"], hit["deprecated"]) == (1, True)
    assert [
        (match["place"], [match["text"][mark["start"] : mark["end"]] for mark in match["marks"]])
        for match in hit["matches"]
    ] == [
        ("id", ["OrderPa"]),
        ("name", ["order", "pa"]),
        ("type", ["order", "pa"]),
    ]
    assert answer["facets"] == {
        "type": [{"value": "messagegroups/messages", "count": 1}],
        "authority": [{"value": hit["authority"], "count": 1}],
        "format": [],
        "deprecated": [{"value": "true", "count": 1}],
    }


async def test_a_resource_is_deprecated_by_its_own_attributes(empty: Node) -> None:
    old, kept = (f"/messagegroups/shop/messages/{id}" for id in ("order.old", "order.kept"))
    for xid in (old, kept):
        await empty.put(xid, {"name": "An order"})
    await empty.put("/endpoints/gone", {"usage": ["producer"], "deprecated": {}})
    answer = await empty.send("PATCH", f"{old}/meta", {"deprecated": {"docs": "https://d.example"}})
    assert answer.status == 200, answer.body

    assert await xids(empty, "order", deprecated="true") == [old]
    assert {*await xids(empty, deprecated="true")} == {old, "/endpoints/gone"}
    found = await search(empty, "order")
    assert {hit["xid"]: hit["deprecated"] for hit in found["hits"]} == {old: True, kept: False}
    assert found["facets"]["deprecated"] == [{"value": "true", "count": 1}]
    # A further version is the default one then, and stands for the deprecated resource.
    answer = await empty.send("POST", old, {"name": "An order, later"})
    assert answer.status == 201, answer.body
    assert await xids(empty, "later", deprecated="true") == [old]
    await empty.send("PATCH", f"{old}/meta", {"deprecated": None})
    assert await xids(empty, "order", deprecated="true") == []


async def test_ids_come_before_texts_and_equal_ids_before_all(empty: Node) -> None:
    for id, description in (("a.orders", ""), ("order", ""), ("b", "Order by order"), ("c", "")):
        await empty.put(f"/messagegroups/g/messages/{id}", {"description": description or "-"})

    assert await xids(empty, "order") == [
        f"/messagegroups/g/messages/{id}" for id in ("order", "a.orders", "b")
    ]


async def test_names_of_fields_are_found_until_the_document_changes(empty: Node) -> None:
    schema = "/schemagroups/g/schemas/s"
    await empty.put(f"{schema}$details", {"format": "Avro/1.12.0", "schema": AVRO})
    assert await xids(empty, "customer", format="avro") == [schema]
    assert await xids(empty, "customer", format="AVRO/1.12.0") == [schema]
    assert await xids(empty, "customer", format="avro/1.11") == []

    # The document is not given again, and stays.
    await empty.send("PATCH", f"{schema}$details", {"description": "Of a shop"})
    assert await xids(empty, "customer shop") == [schema]

    await empty.put(f"{schema}$details", {"format": "Avro/1.12.0", "schema": {"type": "string"}})
    assert await xids(empty, "customer") == []


async def test_only_the_default_version_is_searched(empty: Node) -> None:
    message = "/messagegroups/g/messages/m"
    for vid, word in (("1", "first"), ("2", "second")):
        await empty.put(f"{message}/versions/{vid}", {"description": word})
    assert [await xids(empty, word) for word in ("first", "second")] == [[], [message]]

    await empty.send(
        "PATCH", f"{message}/meta", {"defaultversionsticky": True, "defaultversionid": "1"}
    )
    assert [await xids(empty, word) for word in ("first", "second")] == [[message], []]

    await empty.send("DELETE", f"{message}/versions/1")
    assert [await xids(empty, word) for word in ("first", "second")] == [[], [message]]


async def test_a_cross_reference_is_found_by_its_id(empty: Node) -> None:
    await empty.put("/messagegroups/g/messages/target", {"description": "wanted"})
    reference = "/endpoints/e/messages/elsewhere"
    await empty.put(f"{reference}/meta", {"xref": "/messagegroups/g/messages/target"})
    [hit] = (await search(empty, "elsewhere"))["hits"]
    assert (hit["xid"], hit["xref"]) == (reference, "/messagegroups/g/messages/target")
    assert reference not in await xids(empty, "wanted")

    await empty.put(f"{reference}/meta", {})
    [hit] = (await search(empty, "elsewhere"))["hits"]
    assert "xref" not in hit


async def test_pages_follow_each_other_without_a_gap(empty: Node) -> None:
    await empty.put(
        "/messagegroups/g", {"messages": {f"m{n}": {"description": "item"} for n in range(25)}}
    )
    found, path = [], "/-/search?q=item&limit=10"
    while path:
        answer = await empty.send("GET", path)
        found += [hit["xid"] for hit in answer.json["hits"]]
        assert answer.json["count"] == 25
        link = answer.headers.get("Link", "")
        path = link[1 : link.index(">")].removeprefix(empty.url) if "rel=next" in link else ""

    assert len(found) == len({*found}) == 25


@pytest.mark.parametrize(
    "query",
    ["", "q=", "q=%21%21", f"q={'a' * 501}", "q=a&after=-1", "q=a&limit=101", "q=a&order=x"],
)
async def test_a_search_for_nothing_and_wrong_parameters_are_refused(
    node: Node, query: str
) -> None:
    assert assert_problem(await node.send("GET", f"/-/search?{query}"))


@pytest.mark.parametrize(
    "q", ["'", "a' | 'b", "\\", ":*", "&|!()<->", "\x00", "b\x00", "%", "a:*b", "日本"]
)
async def test_no_text_is_taken_for_an_operator(empty: Node, q: str) -> None:
    await empty.put("/messagegroups/g", {"description": "a b"})
    query = urlencode({"q": q, "type": "messagegroups", "authority": q or "-", "format": q or "-"})
    answer = await empty.send("GET", f"/-/search?{query}")
    assert answer.status == 400 if "\x00" in q else answer.json["hits"] == []


Catalog = dict[str, dict[str, Any]]


@st.composite
def _catalogs(draw: st.DrawFn) -> tuple[Catalog, Catalog]:
    """Message groups, and schema groups whose schemas have documents."""
    resources = st.dictionaries(_IDS, _ATTRIBUTES, max_size=3)
    messages, schemas = {}, {}
    for id in draw(st.lists(_IDS, max_size=3, unique=True)):
        messages[id] = {**draw(_ATTRIBUTES), "messages": draw(resources)}
    for id in draw(st.lists(_IDS, max_size=2, unique=True)):
        found = draw(resources)
        for schema in found.values():
            fields = {name: {} for name in draw(_FIELDS)}
            schema |= {"format": "JsonSchema/draft-07", "schema": {"properties": fields}}
        schemas[id] = {**draw(_ATTRIBUTES), "schemas": found}
    return messages, schemas


@settings(
    max_examples=25,
    phases=[Phase.explicit, Phase.generate],  # To shrink an example takes minutes.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(first=_catalogs(), then=_catalogs(), queries=st.lists(_TEXT.filter(bool), min_size=3))
async def test_a_search_finds_what_a_scan_by_its_rule_finds(
    empty: Node, first: tuple[Catalog, Catalog], then: tuple[Catalog, Catalog], queries: list[str]
) -> None:
    for messages, schemas in (first, then):  # the second one updates, and leaves out, what is there
        await empty.put("/", {"messagegroups": messages, "schemagroups": schemas})
    held = await empty.get("/?inline=*")
    for q in (*queries, "ord", "o", "customerid", "moved stock"):
        wanted = {xid for xid, texts in texts_in(held) if is_found(q, texts)}
        assert {*(await xids(empty, q, limit=100))} == wanted, q


def texts_in(held: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """The xid of each group and resource, and all that a search looks at."""
    for plural, below in (("messagegroups", "messages"), ("schemagroups", "schemas")):
        for gid, group in held.get(plural, {}).items():
            yield group["xid"], [gid, *texts_of(group)]
            for id, resource in group.get(below, {}).items():
                names = field_names(orjson.dumps(resource.get("schema")))
                yield resource["xid"], [gid, id, *texts_of(resource), *names]


def texts_of(entity: dict[str, Any]) -> Iterable[str]:
    for name, value in entity.get("labels", {}).items():
        yield f"{name}={value}"
    yield from (entity[name] for name in ("name", "description") if name in entity)


def is_found(q: str, texts: list[str]) -> bool:
    """Whether the texts have a word that begins with each run, or with each part of the run."""
    words = set().union(*map(words_of, texts))

    def begins(wanted: str) -> bool:
        return any(word.startswith(wanted) for word in words)

    for run in q.replace(".", " ").split():
        parts = words_of(run)
        whole = max(parts, key=len)
        if not begins(whole) and not (len(parts) > 1 and all(map(begins, parts - {whole}))):
            return False
    return True


async def test_copies_are_found_under_their_names_here(postgres_url: str, template: str) -> None:
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_member(one) as source,
        start_member(two) as target,
        running(target),
    ):
        await source.put("/schemagroups/shop/schemas/s$details", {"format": "Avro", "schema": AVRO})
        await link(target, source, id="eu")
        await link_is(target, "eu", "current")
        assert await xids(target, "customer shop") == ["/schemagroups/shop/schemas/s"]
        assert await xids(target, "customer", authority=source.database.node.authority)
        assert await xids(target, "customer", authority=target.database.node.authority) == []

        await target.send("PATCH", "/replication/links/eu", {"prefix": "north."})
        await link_is(target, "eu", "current")
        assert await xids(target, "customer shop north") == ["/schemagroups/north.shop/schemas/s"]
