"""What the node says of itself as OpenAPI, and that it does as it says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import booleans
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from catalog.api.documents import ASYNCAPI, DOCUMENTS
from catalog.operations.operation import LINES
from catalog.subscriptions.stored.deadletters import FailedEvent, add
from replication import routes
from tests.integration.conftest import Node, start_node
from tests.openapidocument import FILE, document

# Lines are generated as any text: what well-formed ones do is another test's.
schemathesis.serializer.alias(LINES, "text/plain")

KNOWN = "x"
METHODS = frozenset({"get", "head", "put", "patch", "post", "delete"})
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
]


@pytest.fixture
async def whole_node(database_url: str) -> AsyncIterator[Node]:
    """A node with all of its routes."""
    async with start_node(database_url, routes=routes.routes, read_wait_seconds=0.1) as running:
        yield running


async def test_the_description_has_every_type_of_the_model(node: Node) -> None:
    described = await node.get("/openapi.json")
    assert described["openapi"].startswith("3.1")
    for groups, group in (await node.get("/model"))["groups"].items():
        one = f"/{groups}/{{{group['singular']}id}}"
        assert {f"/{groups}", one} <= {*described["paths"]}
        for resources, kind in group["resources"].items():
            schema = described["components"]["schemas"][f"{group['singular']}.{kind['singular']}"]
            assert {*kind["attributes"]} - {"*"} <= {*schema["properties"]}
            path = f"{one}/{resources}/{{{kind['singular']}id}}"
            assert (f"{path}$details" in described["paths"]) is kind["hasdocument"]


async def test_the_description_has_the_headers_by_which_reads_wait_for_writes(node: Node) -> None:
    described = await node.get("/openapi.json")
    wait = {"$ref": "#/components/parameters/WaitFor"}
    assert described["components"]["parameters"]["WaitFor"]["name"] == "Concord-Wait-For"
    for path in ("/", "/messagegroups/{messagegroupid}", "/export", "/services"):
        operations = described["paths"][path]
        assert wait in operations["get"]["parameters"]
        for method, operation in operations.items():
            if method in ("put", "patch", "post", "delete"):
                assert wait not in operation.get("parameters", [])
                [done, *_] = (r for s, r in operation["responses"].items() if s[0] == "2")
                assert "Concord-Position" in done["headers"]


async def test_the_description_names_every_media_type_of_the_registry(node: Node) -> None:
    paths = (await node.get("/openapi.json"))["paths"]
    exported = paths["/export"]["get"]["responses"]["2XX"]["content"]
    shown = paths["/"]["get"]["responses"]["200"]["content"]
    assert {*shown} == {"application/json", *DOCUMENTS}
    assert {*exported} == {*shown, *ASYNCAPI}
    for path, offered in (("/", shown), ("/export", exported)):
        for media_type in offered:
            answer = await node.send("GET", path, Accept=media_type)
            assert answer.headers["Content-Type"].partition(";")[0] == media_type
    for method in ("put", "patch", "post"):
        taken = paths["/"][method]["requestBody"]["content"]
        assert {*taken} == {*paths["/"][method]["responses"]["200"]["content"]} == {*shown}
        for media_type in taken:
            headers = {"Content-Type": media_type, "Accept": media_type}
            answer = await node.request(method, "/", body=b"{}", headers=headers)
            assert answer.status == 200, answer.body
            assert answer.headers["Content-Type"].partition(";")[0] == media_type


def test_the_document_of_the_default_model_is_kept_with_the_documentation() -> None:
    assert FILE.read_text() == document(), "run: make openapi"


def test_every_operation_has_an_id_of_its_own() -> None:
    paths = json.loads(document())["paths"].values()
    ids = [each["operationId"] for path in paths for name, each in path.items() if name in METHODS]
    assert len(ids) > 200
    assert len({*ids}) == len(ids)


# It sends requests to each of a hundred operations.
@pytest.mark.timeout(360)
async def test_every_operation_answers_as_it_is_described(whole_node: Node) -> None:
    loop = asyncio.get_running_loop()

    def bury(id: str) -> None:
        asyncio.run_coroutine_threadsafe(_bury(whole_node, id), loop).result(30)

    await asyncio.to_thread(_try_all_operations, whole_node.url, bury)


async def _bury(node: Node, id: str) -> None:
    """Add a dead letter to a subscription, the first one."""
    event = {"specversion": "1.0", "id": "e", "source": "/", "type": "t"}
    failed = FailedEvent(
        event=orjson.dumps(event),
        eventid="e",
        subject="/",
        at=datetime.now(UTC),
        attempts=1,
        reason="the sink answered 400",
    )
    async with node.database.transaction() as connection:
        await add(connection, id, [failed], most=1)


def _try_all_operations(url: str, bury: Callable[[str], None]) -> None:
    """Send generated requests, good and bad ones, and check each answer."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    model = requests.get(f"{url}/model", timeout=30).json()
    failures = []
    for found in schema.get_all_operations():
        for groups in model["groups"]:
            requests.delete(f"{url}/{groups}", timeout=30).raise_for_status()
        seeded = requests.post(url, json=_something(model), timeout=30)
        assert seeded.ok, seeded.text
        operation = found.ok()
        known = dict.fromkeys(("id", "key", "number"), KNOWN)
        if operation.path.startswith("/subscriptions/"):
            known = _subscription(url, bury)
        try:
            _try(operation, known)
        except (Exception, BaseExceptionGroup) as failure:  # the other operations are tried, too
            failures.append(failure)
    if failures:
        raise BaseExceptionGroup("operations that do not answer as described", failures)


def _something(model: Any) -> dict[str, Any]:
    """An entity of each type, all with the same id."""
    return {
        groups: {KNOWN: {resources: {KNOWN: _resource(kind)} for resources, kind in types.items()}}
        for groups, types in ((name, group["resources"]) for name, group in model["groups"].items())
    }


def _resource(kind: Any) -> dict[str, Any]:
    needs_format = kind["attributes"]["format"].get("required", False)
    return {"versionid": KNOWN, **({"format": "Text/1.0"} if needs_format else {})}


def _subscription(url: str, bury: Callable[[str], None]) -> dict[str, str]:
    """What paths below a new subscription can name; its key is an old one."""
    signed = {"signature": "ed25519"}
    definition = {"sink": "http://127.0.0.1:9/", "protocol": "HTTP", "protocolsettings": signed}
    made = requests.post(f"{url}/subscriptions", json=definition, timeout=30).json()
    one = f"{url}/subscriptions/{made['id']}"
    added = requests.post(f"{one}/signingkeys", timeout=30)
    assert added.ok, added.text
    bury(made["id"])
    [letter] = requests.get(f"{one}/deadletters", timeout=30).json()
    return {
        "id": made["id"],
        "key": made["signingkeys"][0]["id"],
        "number": str(letter["number"]),
    }


def _try(operation: Any, known: Mapping[str, str]) -> None:
    @settings(
        max_examples=8,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(), exists=booleans())
    def answers_as_described(case: schemathesis.Case, exists: bool) -> None:
        if exists:
            named = {name: known.get(name, KNOWN) for name in case.path_parameters}
            case.path_parameters = named
        case.call_and_validate(checks=CHECKS)

    answers_as_described()
