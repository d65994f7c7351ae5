"""The examples of core/spec.md, "Filter Flag" and "Dot-Notation in Filters", over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.conftest import Node, assert_problem, start_node
from tests.integration.federation import execute

pytestmark = pytest.mark.asyncio(loop_scope="module")

STRING = {"type": "string"}
INFO = {
    "type": "object",
    "attributes": {
        "owner": STRING,
        "reviewers": {"type": "array", "item": STRING},
        "labels": {"type": "map", "item": STRING},
        "addresses": {
            "type": "map",
            "item": {
                "type": "object",
                "attributes": {"street": STRING, "state": STRING, "zip": STRING},
            },
        },
    },
}
MODEL = {
    "groups": {
        "endpoints": {
            "singular": "endpoint",
            "resources": {"messages": {"singular": "message", "hasdocument": False}},
        },
        "schemagroups": {
            "singular": "schemagroup",
            "attributes": {"info": INFO, "age": {"type": "integer"}},
            "resources": {"schemas": {"singular": "schema"}},
        },
    }
}
SEED: dict[str, Any] = {
    "description": "A registry",
    "endpoints": {
        "e1": {
            "name": "MyEndpoint",
            "description": "A cool one",
            "messages": {"m1": {"versions": {"1.0": {}, "1.1": {}}}, "m2": {}},
        },
        "e2": {"name": "myendpoint", "description": "Lukewarm", "messages": {"m3": {}}},
        "e3": {"name": "other", "description": "COOL, too", "messages": {}},
    },
    "schemagroups": {
        "s1": {
            "age": 5,
            "labels": {"stage": "dev"},
            "info": {
                "owner": "Joe",
                "reviewers": ["Ann", "Steve"],
                "labels": {"env": "prod", "month": "June"},
                "addresses": {"home": {"street": "Elm"}, "work": {"state": "CA"}},
            },
            "schemas": {"a": {"versions": {"1": {"name": "myschema"}}}},
        },
        "s2": {
            "age": 50,
            "labels": {"stage": "prod"},
            "info": {
                "owner": "june",
                "reviewers": ["Bob"],
                "labels": {"env": "test"},
                "addresses": {"home": {"state": "NY", "zip": "CA"}},
            },
            "schemas": {"b": {"versions": {"1": {"name": "myschema"}}}},
        },
    },
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    """A node whose entities no test here changes; message m2 is another catalog's."""
    async with start_node(shared_database_url, modelsource=MODEL) as running:
        answer = await running.send("PATCH", "/", SEED)
        assert answer.status == 200, answer.body
        await execute(
            running,
            "UPDATE entities SET authority = 'https://elsewhere.example.com' WHERE xid ~ '/m2'",
        )
        yield running


def ids_in(shown: dict[str, Any]) -> set[str]:
    """The last ids of the paths of all entities in an answer, but the registry's."""
    found = set()
    for name, value in shown.items():
        if name == "xid" and value != "/" and not value.endswith("/meta"):
            found.add(value.rpartition("/")[2])
        elif isinstance(value, dict):
            found |= ids_in(value)
    return found


@pytest.mark.parametrize(
    ("path", "query", "ids"),
    [
        ("/", "filter=endpoints.description=*cool*", "e1 m1 1.0 1.1 m2 1 e3"),
        ("/endpoints", "filter=description=*CooL*", "e1 m1 1.0 1.1 m2 1 e3"),
        ("/", "filter=endpoints.messages.versions.versionid=1.0", "e1 m1 1.0"),
        (
            "/",
            "filter=endpoints.name=myendpoint,endpoints.description=*cool*"
            "&filter=schemagroups.labels.stage=dev",
            "e1 m1 1.0 1.1 m2 1 s1 a",
        ),
        ("/", "filter=endpoints.messages.meta.readonly=true", "e1 m2 1"),
        ("/", "filter=schemagroups.age=5", "s1 a 1"),
        ("/", "filter=schemagroups.info.owner=joe", "s1 a 1"),
        ("/", "filter=schemagroups.info.labels.env=prod", "s1 a 1"),
        ("/", "filter=schemagroups.info.labels.*=June", "s1 a 1"),
        ("/", "filter=schemagroups.info.reviewers[*]=Steve", "s1 a 1"),
        ("/", "filter=schemagroups.info.reviewers[0]=Steve", ""),
        ("/", "filter=schemagroups.info.addresses.*.state=CA", "s1 a 1"),
        ("/", "filter=schemagroups.schemas.name=myschema", "s1 a s2 b 1"),
        (
            "/",
            "filter=schemagroups.schemas.name=myschema,schemagroups.schemagroupid=s2",
            "s2 b 1",
        ),
        ("/", r"filter=endpoints.description=cool\,%20too", "e3"),
    ],
)
async def test_each_example_finds_what_its_commentary_says(
    node: Node, path: str, query: str, ids: str
) -> None:
    shown = await node.get(f"{path}?inline=*&{query}")
    assert ids_in(shown) == {*ids.split()}


@pytest.mark.parametrize(
    ("path", "expression"),
    [
        ("/", "endpoints.labels=x"),
        ("/", "endpoints.epoch<null"),
        ("/endpoints", "messages"),
        ("/schemagroups/s1", "age<five"),
        ("/", "endpoints..name=x"),
    ],
)
async def test_an_invalid_expression_is_named(node: Node, path: str, expression: str) -> None:
    answer = await node.request("GET", f"{path}?filter=epoch=1,{expression}")
    assert (answer.status, answer.error) == (400, "bad_filter")
    assert assert_problem(answer)["args"]["value"] == expression
