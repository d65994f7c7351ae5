"""What is written through one dialect is seen through every other, as far as both can say it."""

from __future__ import annotations

import itertools
import string
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.integration.conftest import Node, shared_node

pytestmark = pytest.mark.asyncio(loop_scope="module")
QUIET = settings(
    max_examples=12,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
OLD = "/registry/0.4"
Facts = dict[str, Any]
Writer = Callable[[Node, str, Facts], Awaitable[str]]
Reader = Callable[[Node, str, str], Awaitable[Facts]]
numbers = itertools.count()

ids = st.text(string.ascii_letters + string.digits, min_size=1, max_size=8).map(
    "com.example.{}".format
)
texts = st.text(string.printable.strip() + "äß€ ", min_size=1, max_size=30).filter(str.strip)
names = st.from_regex(r"[a-z]{1,5}", fullmatch=True)
templates = st.builds("/{}/{{{}}}".format, names, names)
definitions = st.fixed_dictionaries(
    {"id": ids, "description": texts, "source": templates, "subject": templates}
)
services = st.fixed_dictionaries(
    {"description": texts, "events": st.lists(ids, min_size=1, max_size=3, unique_by=str.lower)}
)

node = shared_node()


async def create(node: Node, method: str, path: str, body: Any) -> Any:
    answer = await node.send(method, path, body)
    assert answer.status == 201, answer.body
    return answer.json


def attributes_of(facts: Facts, *, typed: bool) -> Facts:
    kind = {"type": "uritemplate"} if typed else {}
    return {
        "type": {"value": facts["id"]},
        "source": {**kind, "value": facts["source"]},
        "subject": {**kind, "value": facts["subject"]},
    }


def facts_of(shown: Facts, attributes: Facts, id: str) -> Facts:
    assert attributes["type"]["value"] == shown[id]
    return {
        "id": shown[id],
        "description": shown["description"],
        "source": attributes["source"]["value"],
        "subject": attributes["subject"]["value"],
    }


async def write_natively(node: Node, group: str, facts: Facts) -> str:
    metadata = attributes_of(facts, typed=True)
    body = {
        "envelope": "CloudEvents/1.0",
        "description": facts["description"],
        "envelopemetadata": metadata,
    }
    await create(node, "PUT", f"/messagegroups/{group}/messages/{facts['id']}", body)
    return str(facts["id"])


async def read_natively(node: Node, group: str, id: str) -> Facts:
    shown = await node.get(f"/messagegroups/{group}/messages/{id}")
    return facts_of(shown, shown["envelopemetadata"], "messageid")


async def write_to_message_catalog(node: Node, group: str, facts: Facts) -> str:
    await create(node, "PUT", f"/messagecatalog/{group}", {"format": "CloudEvents"})
    body = {
        "id": facts["id"],
        "description": facts["description"],
        "definition": {"attributes": attributes_of(facts, typed=False)},
    }
    await create(node, "POST", f"/messagecatalog/{group}/messagedefinitions", body)
    return str(facts["id"])


async def read_from_message_catalog(node: Node, group: str, id: str) -> Facts:
    shown = await node.get(f"/messagecatalog/{group}/messagedefinitions/{id}")
    assert shown["format"] == "CloudEvents"
    return facts_of(shown, shown["definition"]["attributes"], "id")


async def write_to_registry04(node: Node, group: str, facts: Facts) -> str:
    await create(
        node, "POST", f"{OLD}/definitionGroups", {"id": group, "format": "CloudEvents/1.0"}
    )
    body = {
        "id": facts["id"],
        "description": facts["description"],
        "format": "CloudEvents/1.0",
        "metadata": {"attributes": attributes_of(facts, typed=True)},
    }
    await create(node, "POST", f"{OLD}/definitionGroups/{group}/definitions", body)
    return str(facts["id"])


async def read_from_registry04(node: Node, group: str, id: str) -> Facts:
    shown = await node.get(f"{OLD}/definitionGroups/{group}/definitions/{id}")
    assert shown["format"] == "CloudEvents/1.0"
    return facts_of(shown, shown["metadata"]["attributes"], "id")


DEFINITIONS: dict[str, tuple[Writer, Reader]] = {
    "native": (write_natively, read_natively),
    "messagecatalog": (write_to_message_catalog, read_from_message_catalog),
    "registry04": (write_to_registry04, read_from_registry04),
}


@pytest.mark.parametrize(("writer", "reader"), [*itertools.permutations(DEFINITIONS, 2)])
@QUIET
@given(facts=definitions)
async def test_a_definition_is_seen_through_every_dialect(
    node: Node, writer: str, reader: str, facts: Facts
) -> None:
    group = f"g{next(numbers)}"
    id = await DEFINITIONS[writer][0](node, group, facts)
    assert await DEFINITIONS[reader][1](node, group, id) == facts


def event(type: str) -> Facts:
    return {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": type}}}


async def write_endpoint(node: Node, name: str, facts: Facts) -> str:
    id = str(uuid.uuid4())
    body = {
        "name": name,
        "description": facts["description"],
        "usage": ["subscriber"],
        "protocol": "HTTP",
        "messages": {type: event(type) for type in facts["events"]},
    }
    await create(node, "PUT", f"/endpoints/{id}", body)
    return id


async def read_endpoint(node: Node, name: str, id: str) -> Facts:
    shown = await node.get(f"/endpoints/{id}?inline=messages")
    assert (shown["name"], shown["usage"]) == (name, ["subscriber"])
    types = [each["envelopemetadata"]["type"]["value"] for each in shown["messages"].values()]
    return {"description": shown["description"], "events": types}


async def write_service(node: Node, name: str, facts: Facts) -> str:
    service = {
        "name": name,
        "description": facts["description"],
        "protocols": ["HTTP"],
        "events": [{"type": type} for type in facts["events"]],
    }
    [added] = await create(node, "POST", "/services", [service])
    return str(added["id"])


async def read_service(node: Node, name: str, id: str) -> Facts:
    shown = await node.get(f"/services/{id}")
    assert (shown["name"], shown["protocols"]) == (name, ["HTTP"])
    types = [each["type"] for each in shown["events"]]
    return {"description": shown["description"], "events": types}


async def write_endpoint04(node: Node, name: str, facts: Facts) -> str:
    id = str(uuid.uuid4())
    body = {
        "id": id,
        "name": name,
        "description": facts["description"],
        "usage": "subscriber",
        "config": {"protocol": "HTTP"},
        "definitions": {
            type: {
                "id": type,
                "format": "CloudEvents/1.0",
                "metadata": {"attributes": {"type": {"value": type}}},
            }
            for type in facts["events"]
        },
    }
    await create(node, "POST", f"{OLD}/endpoints", body)
    return id


async def read_endpoint04(node: Node, name: str, id: str) -> Facts:
    shown = await node.get(f"{OLD}/endpoints/{id}?inline")
    assert (shown["name"], shown["usage"]) == (name, "subscriber")
    definitions = shown["definitions"].values()
    types = [each["metadata"]["attributes"]["type"]["value"] for each in definitions]
    return {"description": shown["description"], "events": types}


SERVICES: dict[str, tuple[Writer, Reader]] = {
    "native": (write_endpoint, read_endpoint),
    "discovery": (write_service, read_service),
    "registry04": (write_endpoint04, read_endpoint04),
}


@pytest.mark.parametrize(("writer", "reader"), [*itertools.permutations(SERVICES, 2)])
@QUIET
@given(facts=services)
async def test_a_service_is_seen_through_every_dialect(
    node: Node, writer: str, reader: str, facts: Facts
) -> None:
    name = f"Service {next(numbers)}"
    id = await SERVICES[writer][0](node, name, facts)
    seen = await SERVICES[reader][1](node, name, id)
    assert {**seen, "events": sorted(seen["events"])} == {
        **facts,
        "events": sorted(facts["events"]),
    }


@pytest.mark.parametrize("writer", DEFINITIONS)
@QUIET
@given(facts=definitions)
async def test_a_definition_is_an_event_of_the_services_that_refer_to_its_group(
    node: Node, writer: str, facts: Facts
) -> None:
    group, id = f"g{next(numbers)}", str(uuid.uuid4())
    await DEFINITIONS[writer][0](node, group, facts)
    body = {
        "usage": ["subscriber"],
        "protocol": "HTTP",
        "messagegroups": [f"/messagegroups/{group}"],
    }
    await create(node, "PUT", f"/endpoints/{id}", body)
    [shown] = (await node.get(f"/services/{id}"))["events"]
    assert (shown["type"], shown["description"]) == (facts["id"], facts["description"])
    assert shown["sourcetemplate"] == facts["source"]
