"""Where a node says that registries are (core/spec.md, "xRegistry Discovery")."""

from __future__ import annotations

import pytest

from tests.integration.conftest import Node, start_node

PATHS = ["/.xregistry", "/.well-known/xregistry"]
each_path = pytest.mark.parametrize("path", PATHS)


@each_path
async def test_a_node_names_itself(node: Node, path: str) -> None:
    answer = await node.send("GET", path)
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
    assert answer.json == {"registries": [node.url]}


@each_path
async def test_a_node_names_others_that_its_operator_knows(database_url: str, path: str) -> None:
    urls = "https://a.example/registry, https://b.example/,https://me.example"
    async with start_node(database_url, registries=urls, public_url="https://me.example/") as node:
        assert await node.get(path) == {
            "registries": [
                "https://me.example",
                "https://a.example/registry",
                "https://b.example",
            ]
        }


async def test_discovery_is_not_there_for_writing(node: Node) -> None:
    answer = await node.send("PUT", "/.xregistry", {})
    assert (answer.status, answer.error) == (405, "action_not_supported")
