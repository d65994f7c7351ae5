"""References are found both ways, in every form, as far as they lead and as far as one may see."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
import pytest_asyncio

from catalog.reading.references import MOST_EDGES
from replication.routes import routes
from tests.integration.conftest import Node, assert_problem, start_node
from tests.integration.federation import databases, link, link_is, running
from tests.integration.test_openapi_subscriptions import DescribedApi

pytestmark = pytest.mark.asyncio(loop_scope="module")

PUBLIC = "https://catalog.example/registry"
ITEM = "/schemagroups/shop/schemas/item"
ORDER = "/schemagroups/shop/schemas/order"
PAID = "/messagegroups/shop/messages/paid"
ENDPOINT = "/endpoints/till"
DOCUMENT = {"type": "object", "properties": {"id": {"type": "string"}}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(shared_database_url, public_url=PUBLIC) as running:
        await fill(running)
        yield running


async def fill(node: Node) -> None:
    """An endpoint that uses a group with a message that uses a schema that uses another one."""
    await put_schema(node, ITEM, DOCUMENT)
    await put_schema(node, ORDER, {"properties": {"item": {"$ref": "item#/properties/id"}}})
    schema = {"dataschemaformat": "JsonSchema/draft-07", "dataschemauri": f"#{ORDER}"}
    await node.put(PAID, {"description": "Paid", **schema})
    await node.put(ENDPOINT, {"usage": ["consumer"], "messagegroups": ["/messagegroups/shop"]})
    await node.put("/endpoints/till/messages/borrowed/meta", {"xref": PAID})


async def put_schema(node: Node, xid: str, document: Any) -> None:
    await node.put(f"{xid}$details", {"format": "JsonSchema/draft-07", "schema": document})


async def references(node: Node, of: str, direction: str, **more: Any) -> list[tuple[Any, ...]]:
    """The source, the target, the places and the depth of each reference."""
    query = urlencode({"of": of, "direction": direction, **more})
    answer = await node.send("GET", f"/-/references?{query}")
    assert answer.status == 200, answer.body
    assert answer.json["complete"]
    return [
        (each["source"], each.get("target"), *each["places"], each["depth"])
        for each in answer.json["references"]
    ]


async def test_references_are_followed_both_ways(node: Node) -> None:
    chain = [
        (ENDPOINT, "/messagegroups/shop", "/messagegroups/0"),
        ("/endpoints/till/messages/borrowed", PAID, "/meta/xref"),
        (PAID, ORDER, "/dataschemauri"),
        (ORDER, ITEM, "document"),
    ]
    endpoint, borrowed, message, schema = chain
    assert await references(node, ITEM, "to") == [(*schema, 1)]
    assert sorted(await references(node, ITEM, "to", depth=3)) == sorted(
        [(*schema, 1), (*message, 2), (*endpoint, 3), (*borrowed, 3)]
    )
    assert sorted(await references(node, ENDPOINT, "from", depth=3)) == sorted(
        [(*endpoint, 1), (*borrowed, 1), (*message, 2), (*schema, 3)]
    )
    assert await references(node, ORDER, "both") == [(*message, 1), (*schema, 1)]
    # The group of the message is reached twice.
    assert len(await references(node, PAID, "to", depth=5)) == 2


@pytest.mark.parametrize(
    "text",
    [
        ITEM,
        f"#{ITEM}",
        f"{PUBLIC}{ITEM}",
        f"{PUBLIC}{ITEM}$details",
        f"{ITEM}/versions/1",
        f"{ITEM}:id",
        f"{ITEM}/properties/id",
        f"{ITEM}#/properties/id",
    ],
)
async def test_a_schema_uri_is_understood_in_each_form(node: Node, text: str) -> None:
    message = "/messagegroups/forms/messages/m"
    await node.put(message, {"dataschemaformat": "JsonSchema/draft-07", "dataschemauri": text})
    target = f"{ITEM}/versions/1" if "versions" in text else ITEM

    assert (message, target, "/dataschemauri", 1) in await references(node, ITEM, "to")
    assert await references(node, message, "from") == [(message, target, "/dataschemauri", 1)]
    await node.send("DELETE", message)
    assert message not in [source for source, *_ in await references(node, ITEM, "to")]


@pytest.mark.parametrize(
    ("format", "document"),
    [
        ("Text/1.0", 'syntax = "proto3";\nimport "item";\nmessage M { string a = 1; }'),
        ("Text/1.0", '<xs:schema xmlns:xs="x"><xs:include schemaLocation="item"/></xs:schema>'),
        ("JsonSchema/draft-07", f'{{"$id": "{PUBLIC}{ORDER}", "allOf": [{{"$ref": "./item"}}]}}'),
    ],
)
async def test_documents_refer_by_imports(node: Node, format: str, document: str) -> None:
    schema = "/schemagroups/shop/schemas/importing"
    answer = await node.send(
        "PUT", schema, body=document, Content_Type="text/plain", xRegistry_format=format
    )
    assert answer.status == 201, answer.body
    assert await references(node, schema, "from") == [(schema, ITEM, "document", 1)]
    await node.send("DELETE", schema)


async def test_a_text_that_cannot_be_indexed_is_no_reference(node: Node) -> None:
    for number, text in enumerate(("/schemagroups/%00/schemas/a", "/a/" + "b" * 600, "/%ff/é/\\'")):
        message = f"/messagegroups/texts/messages/m{number}"
        await node.put(message, {"dataschemaformat": "Avro", "dataschemauri": quote(text, "/%")})
    schema = "/schemagroups/texts/schemas/s"
    document = {"allOf": [{"$ref": "/a/\0/b/c"}, {"$ref": "item\\'"}]}
    await node.put(f"{schema}$details", {"format": "Text/1", "schema": document})
    assert [target for _, target, *_ in await references(node, schema, "from")] == [None]


async def test_only_the_version_that_is_asked_about_and_default_ones_refer(node: Node) -> None:
    message = "/messagegroups/versions/messages/m"
    await node.put(f"{message}/versions/1", {"basemessage": PAID})
    await node.put(f"{message}/versions/2", {"basemessage": "/messagegroups/x/messages/y"})
    assert message not in [source for source, *_ in await references(node, PAID, "to")]
    assert await references(node, message, "from") == [(message, None, "/basemessage", 1)]
    first = f"{message}/versions/1"
    assert await references(node, first, "from") == [(first, PAID, "/basemessage", 1)]


async def test_references_of_the_confluent_api_are_found(node: Node) -> None:
    item = {"schema": '{"type":"record","name":"Item","fields":[]}'}
    order = {
        "schema": '{"type":"record","name":"O","fields":[{"name":"i","type":"Item"}]}',
        "references": [{"name": "Item", "subject": "item-value", "version": 1}],
    }
    for subject, body in (("item-value", item), ("order-value", order)):
        answer = await node.send("POST", f"/confluent/subjects/{subject}/versions", body)
        assert answer.status == 200, answer.body
    [xid] = [hit["xid"] for hit in (await node.get("/-/search?q=order-value&type=schemas"))["hits"]]
    target = xid.replace("order-value", "item-value")
    assert await references(node, target, "to") == [
        (xid, f"{target}/versions/1", "/confluent/references/0", 1)
    ]


@pytest.mark.parametrize(
    ("subject", "text", "version"),
    [
        ("till-value", f"{PUBLIC}/confluent/subjects/till-value/versions/1/schema", 1),
        ("till-value", "/confluent/subjects/till-value/versions/1", 1),
        ("till-value", f"{PUBLIC}/confluent/subjects/till-value/versions/latest", 2),
        ("till-value", f"{PUBLIC}/confluent/subjects/till-value/versions/-1/schema#/fields", 2),
        ("shop/Till", f"{PUBLIC}/confluent/subjects/shop%2FTill/versions/1/schema", 1),
        (":.north:till", f"{PUBLIC}/confluent/subjects/:.north:till/versions/2", 2),
        (":.north:till", f"{PUBLIC}/confluent/subjects/%3A.north%3Atill/versions/2", 2),
        ("till-value", "#/confluent/subjects/till-value/versions/1", 1),
        (":.north:till", f"{PUBLIC}/confluent/contexts/.north/subjects/till/versions/2", 2),
    ],
)
async def test_a_schema_uri_of_the_confluent_api_is_found_both_ways(
    node: Node, subject: str, text: str, version: int
) -> None:
    resource = await register_twice(node, subject)
    message = "/messagegroups/forms/messages/confluent"
    await node.put(message, {"dataschemaformat": "Avro/1.12", "dataschemauri": text})
    target = f"{resource}/versions/{version}"
    found = [(message, target, "/dataschemauri", 1)]
    assert await references(node, message, "from") == found
    assert await references(node, resource, "to") == found
    assert await references(node, target, "to") == found
    assert await references(node, f"{resource}/versions/{3 - version}", "to") == []
    await node.send("DELETE", message)


async def test_a_schema_uri_of_the_confluent_api_may_lead_nowhere(node: Node) -> None:
    message = "/messagegroups/forms/messages/lost"
    await register_twice(node, "till-value")
    elsewhere = "https://elsewhere.example/confluent/subjects/till-value/versions/1"
    paths = ("subjects/none/versions/1", "subjects/none/versions/x", "mode", "contexts/a:b/c")
    for text in (elsewhere, *(f"{PUBLIC}/confluent/{path}" for path in paths)):
        await node.put(message, {"dataschemaformat": "Avro/1.12", "dataschemauri": text})
        assert await references(node, message, "from") == [(message, None, "/dataschemauri", 1)]


async def register_twice(node: Node, subject: str) -> str:
    """Register two versions of a subject; the xid of its schema."""
    path = f"/confluent/subjects/{quote(subject, safe='')}/versions"
    for fields in ("[]", '[{"name":"n","type":"int","default":0}]'):
        schema = f'{{"type":"record","name":"Till","fields":{fields}}}'
        answer = await node.send("POST", path, {"schema": schema})
        assert answer.status == 200, answer.body
    word = re.split("[:/]", subject)[-1]
    hits = (await node.get(f"/-/search?q={word}&type=schemas"))["hits"]
    group = "/north/" if subject.startswith(":") else "/schemas."
    [xid] = [hit["xid"] for hit in hits if group in hit["xid"] and word in hit["xid"]]
    return str(xid)


async def test_references_to_others_of_the_group_leave_none_out(node: Node) -> None:
    schema = "/schemagroups/crowd/schemas"
    for name in ("wanted", "other"):
        await put_schema(node, f"{schema}/{name}", DOCUMENT)
    targets = {f"m{number:04}": "other" for number in range(MOST_EDGES + 1)} | {"rare": "wanted"}
    messages = {id: {"dataschemaxid": f"{schema}/{name}"} for id, name in targets.items()}
    answer = await node.send("POST", "/messagegroups/crowd/messages", messages)
    assert answer.status == 200, answer.body
    found = await references(node, f"{schema}/wanted", "to")
    assert [source for source, *_ in found] == ["/messagegroups/crowd/messages/rare"]


async def test_all_direct_references_are_a_complete_answer(node: Node) -> None:
    messages = {f"m{number}": {"dataschemaxid": ITEM} for number in range(250)}
    answer = await node.send("POST", "/messagegroups/many/messages", messages)
    assert answer.status == 200, answer.body
    # More of them than are followed further; the answer has each of them.
    found = await references(node, ITEM, "to")
    assert len([source for source, *_ in found if source.startswith("/messagegroups/many/")]) == 250
    await node.send("DELETE", "/messagegroups/many")


async def test_answers_fit_their_description_and_wrong_questions_are_refused(node: Node) -> None:
    api = DescribedApi(node, await node.get("/openapi.json"))
    await api.done("GET", "/-/references", query=f"?of={ITEM}&depth=5")
    await api.refused(404, "GET", "/-/references", query="?of=/endpoints/none")
    for query in ("", "?of=item", f"?of={ITEM}&depth=6", f"?of={ITEM}&direction=up"):
        await api.refused(400, "GET", "/-/references", query=query)
    assert_problem(await node.send("GET", "/-/references"))


async def test_references_of_copies_lead_to_the_copies_here(
    postgres_url: str, template: str
) -> None:
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_node(one, routes=routes) as source,
        start_node(two, routes=routes) as target,
        running(target),
    ):
        await fill(source)
        absolute = {"dataschemaformat": "Avro", "dataschemauri": f"{source.url}{ITEM}"}
        await source.put("/messagegroups/shop/messages/absolute", absolute)
        till = await register_twice(source, "till-value")
        uri = f"{source.url}/confluent/subjects/till-value/versions/latest"
        confluent = {"dataschemaformat": "Avro/1.12", "dataschemauri": uri}
        await source.put("/messagegroups/shop/messages/confluent", confluent)
        # A subject of the same name, which the source does not mean.
        await register_twice(target, "till-value")
        await link(target, source, id="eu", prefix="north.")
        await link_is(target, "eu", "current")
        here = {
            xid: xid.replace("/shop", "/north.shop").replace("/till", "/north.till")
            for xid in (ITEM, ORDER, PAID, ENDPOINT)
        }
        assert {*(await references(target, here[ITEM], "to", depth=2))} == {
            (here[ORDER], here[ITEM], "document", 1),
            ("/messagegroups/north.shop/messages/absolute", here[ITEM], "/dataschemauri", 1),
            (here[PAID], here[ORDER], "/dataschemauri", 2),
            (here[ENDPOINT], "/messagegroups/north.shop", "/messagegroups/0", 2),
        }
        assert await references(target, f"{here[ENDPOINT]}/messages/borrowed", "from") == [
            (f"{here[ENDPOINT]}/messages/borrowed", here[PAID], "/meta/xref", 1)
        ]
        message = "/messagegroups/north.shop/messages/confluent"
        copied = till.replace("/schemas.", "/north.schemas.")
        found = [(message, f"{copied}/versions/2", "/dataschemauri", 1)]
        assert await references(target, message, "from") == found
        assert await references(target, copied, "to") == found
        # A message here names the copy by the address that it has here.
        local = "/messagegroups/local/messages/m"
        group = copied.split("/")[2]
        uri = f"{target.url}/confluent/subjects/:.{group}:till-value/versions/1"
        await target.put(local, {"dataschemaformat": "Avro/1.12", "dataschemauri": uri})
        edge = (local, f"{copied}/versions/1", "/dataschemauri", 1)
        assert await references(target, local, "from") == [edge]
        assert edge in await references(target, copied, "to")
