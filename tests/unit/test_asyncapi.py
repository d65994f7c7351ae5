"""AsyncAPI documents as entities: what becomes of what, and of documents that are wrong."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from catalog.documents.asyncapi.fromentities import from_entities
from catalog.documents.asyncapi.references import LARGEST_EXPANSION, AsyncApiError
from catalog.documents.asyncapi.toentities import to_entities
from catalog.documents.serialization import read_object_file

ORDERS = read_object_file(Path(__file__).parents[2] / "examples" / "orders.asyncapi.yaml")
INFO = {"title": "T", "version": "1"}


@pytest.fixture
def orders() -> dict[str, Any]:
    return copy.deepcopy(ORDERS)


def test_operations_are_endpoints_with_the_address_of_their_servers(orders: dict[str, Any]) -> None:
    endpoint = to_entities(orders).groups["endpoints"]["Orders.bill"]
    assert (endpoint["usage"], endpoint["protocol"]) == (["consumer"], "KAFKA")
    assert endpoint["messagegroups"] == ["/messagegroups/Orders.orders"]
    hosts = ["kafka-1.shop.example:9093", "kafka-2.shop.example:9093"]
    assert endpoint["protocoloptions"] == {
        "topic": "shop.orders.v1",
        "consumergroup": "billing",
        "endpoints": [
            {
                "bootstrap.servers": hosts,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-256",
            }
        ],
    }


def test_channels_are_message_groups_and_payloads_are_schemas(orders: dict[str, Any]) -> None:
    groups = to_entities(orders).groups
    message = groups["messagegroups"]["Orders.orders"]["messages"]["placed"]
    assert message["name"] == "An order was placed"
    assert message["dataschemauri"] == "/schemagroups/Orders/schemas/Order"
    assert message["protocoloptions"]["headers"]["correlation-id"]["required"] is True
    assert message["asyncapi"]["object"]["correlationId"]["location"].startswith("$message.header")
    document = groups["schemagroups"]["Orders"]
    assert document["labels"] == {"team": "shop"}
    order = document["schemas"]["Order"]["schema"]
    money = "/schemagroups/Orders/schemas/Money"
    assert order["properties"]["total"] == {"$ref": money}
    assert order["definitions"]["Money"]["$id"] == money


def test_a_changed_attribute_replaces_the_member_and_leaves_the_rest(
    orders: dict[str, Any],
) -> None:
    groups = to_entities(orders).groups
    endpoint = groups["endpoints"]["Orders.bill"]
    endpoint["protocoloptions"]["consumergroup"] = "accounting"
    endpoint["protocoloptions"]["acks"] = 5
    groups["messagegroups"]["Orders.orders"]["description"] = "Anew"
    del groups["schemagroups"]["Orders"]["labels"]
    shown = from_entities(groups, title="").document
    kafka = shown["operations"]["bill"]["bindings"]["kafka"]
    assert kafka == {"groupId": {"type": "string", "const": "accounting"}}
    assert shown["operations"]["bill"]["x-xregistry"] == {"protocoloptions": {"acks": 5}}
    assert shown["channels"]["orders"]["description"] == "Anew"
    assert "tags" not in shown["info"]
    assert shown["components"]["schemas"] == orders["components"]["schemas"]


def test_a_message_of_several_channels_is_the_base_of_each(orders: dict[str, Any]) -> None:
    orders["channels"]["archive"] = orders["channels"]["orders"]
    groups = to_entities(orders).groups["messagegroups"]
    base = "/messagegroups/Orders/messages/OrderPlaced"
    for id in ("Orders.orders", "Orders.archive"):
        assert groups[id]["messages"]["placed"]["basemessage"] == base
    assert groups["Orders"]["messages"]["OrderPlaced"]["name"] == "An order was placed"


def test_publish_of_the_older_edition_means_that_the_application_receives() -> None:
    channel = {"publish": {"message": {"name": "m"}}, "subscribe": {"operationId": "tell"}}
    document = {"asyncapi": "2.6.0", "info": INFO, "channels": {"a/b": channel}}
    groups = to_entities(document).groups
    assert groups["endpoints"]["T.a-b.publish"]["usage"] == ["consumer"]
    assert groups["endpoints"]["T.tell"]["usage"] == ["producer"]
    shown = from_entities(groups, title="", edition="2.6").document
    assert shown["channels"]["a/b"].keys() == {"publish", "subscribe"}


def test_what_a_document_leaves_elsewhere_is_a_loss(orders: dict[str, Any]) -> None:
    messages = orders["channels"]["orders"]["messages"]
    messages["other"] = {"$ref": "./common.yaml#/messages/Other"}
    messages["gone"] = {"$ref": "#/components/messages/Gone"}
    losses = {loss.pointer: loss.reason for loss in to_entities(orders).losses}
    assert losses["/channels/orders/messages/other"].startswith("its target is in another document")
    assert losses["/channels/orders/messages/gone"] == "it leads nowhere in the document"


def test_what_asyncapi_has_no_place_for_is_a_loss_of_an_export() -> None:
    versions = {"1": {"name": "one"}, "2": {"name": "two"}}
    groups = {
        "messagegroups": {"g": {"messages": {"m": {"versions": versions}}}},
        "schemagroups": {"s": {"schemas": {"x": {"format": "A/1", "schemaurl": "https://a"}}}},
        "machines": {"a": {}},
    }
    exported = from_entities(groups, title="T")
    assert {loss.pointer for loss in exported.losses} == {
        "/machines",
        "/messagegroups/g/messages/m/versions/1",
        "/schemagroups/s/schemas/x/schemaurl",
    }
    assert exported.document["channels"]["g"]["messages"]["m"]["title"] == "two"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"asyncapi": "1.2.0"}, "AsyncAPI 1.2.0 is not read"),
        ({"info": {}}, "no info.title"),
        ({"operations": {"o": {"action": []}}}, "not of the form"),
    ],
)
def test_a_document_that_is_none_is_refused(
    orders: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(AsyncApiError, match=message) as refused:
        to_entities({**orders, **change})
    assert refused.value.hint


def test_references_of_references_do_not_multiply(orders: dict[str, Any]) -> None:
    tags = {
        f"t{n}": {f"x-{side}": {"$ref": f"#/x-tags/t{n + 1}"} for side in "ab"} for n in range(40)
    }
    orders["x-tags"] = {**tags, "t40": {}}
    with pytest.raises(AsyncApiError, match=f"{LARGEST_EXPANSION:,} values"):
        to_entities(orders)


def test_a_reference_to_itself_is_a_loss(orders: dict[str, Any]) -> None:
    orders["info"]["x-a"] = {"x-a": {"$ref": "#/info/x-a"}}
    orders["channels"]["orders"]["messages"]["m"] = {"$ref": "#/channels/orders/messages/m"}
    reasons = {loss.pointer: loss.reason for loss in to_entities(orders).losses}
    assert reasons["/channels/orders/messages/m"] == "it leads nowhere in the document"
    assert "it leads back to itself, or is nested too deep" in reasons.values()
