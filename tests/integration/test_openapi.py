"""What the node says of itself as OpenAPI, and that it does as it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

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

from catalog.api.documents import DOCUMENTS
from replication import routes
from tests.integration.conftest import Node, start_node

KNOWN = "x"
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
    async with start_node(database_url, routes=routes.routes) as running:
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


async def test_the_description_names_every_media_type_of_the_registry(node: Node) -> None:
    paths = (await node.get("/openapi.json"))["paths"]
    exported = paths["/export"]["get"]["responses"]["2XX"]["content"]
    shown = paths["/"]["get"]["responses"]["200"]["content"]
    assert {*exported} == {*shown} == {"application/json", *DOCUMENTS}
    for path in ("/", "/export"):
        for media_type in shown:
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


# It sends requests to each of a hundred operations.
@pytest.mark.timeout(360)
async def test_every_operation_answers_as_it_is_described(whole_node: Node) -> None:
    await asyncio.to_thread(_try_all_operations, whole_node.url)


def _try_all_operations(url: str) -> None:
    """Send generated requests, good and bad ones, and check each answer."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    model = requests.get(f"{url}/model", timeout=30).json()
    failures = []
    for found in schema.get_all_operations():
        for groups in model["groups"]:
            requests.delete(f"{url}/{groups}", timeout=30).raise_for_status()
        seeded = requests.post(url, json=_something(model), timeout=30)
        assert seeded.ok, seeded.text
        try:
            _try(found.ok())
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


def _try(operation: Any) -> None:
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
            case.path_parameters = dict.fromkeys(case.path_parameters, KNOWN)
        case.call_and_validate(checks=CHECKS)

    answers_as_described()
