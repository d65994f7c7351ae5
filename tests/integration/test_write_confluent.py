"""Links write subjects to registries of the Confluent API, under the same ids and versions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest

from replication.routes import routes
from tests.integration.conftest import Node, start_node
from tests.integration.federation import databases, eventually, running
from tests.integration.foreigntarget import conflicts, has_written_all, write_to
from tests.integration.schemaregistry import (
    ROOT,
    contents,
    delete,
    record,
    register,
    registry_of,
    settings,
)
from tests.integration.test_walk_confluent import NAMED, fill
from tests.integration.walking import walking


@pytest.fixture
async def pair(postgres_url: str, template: str) -> AsyncIterator[tuple[Node, Node]]:
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_node(
            one,
            routes=routes,
            pull_interval_seconds=0.3,
            backoff_initial_seconds=0.05,
            backoff_cap_seconds=0.2,
        ) as source,
        start_node(two) as target,
    ):
        yield source, target


async def written(source: Node) -> dict[str, Any]:
    """What is not written, once the link has settled."""
    await has_written_all(source)
    return {xid: detail for xid, (_, detail) in (await conflicts(source)).items()}


async def test_a_registry_gets_what_the_node_has_under_the_same_ids(
    pair: tuple[Node, Node],
) -> None:
    source, target = pair
    await fill(source)
    await register(source, ":.team:x", record("X", "x"))
    await settings(source, "config", ":.team:", compatibility="FULL")
    await register(target, "theirs", record("Theirs", "x"))
    theirs = await contents(target)
    made = await write_to(source, f"{target.url}{ROOT}", dialect="confluent")
    assert made["found"]["software"] == "Confluent API"
    async with running(source):
        await eventually(lambda: equals(source, target, theirs), 40)
        assert await written(source) == {}
        for context in ("", ".team"):
            assert await contents(target, context) == {
                **(await contents(source, context)),
                **({} if context else theirs),
            }
        path = f"{ROOT}/config/{quote('orders-value')}"
        assert await target.get(path) == await source.get(path)
        path = f"{ROOT}/config/:.team:"
        assert await target.get(path) == await source.get(path)
        # Nobody else registers there.
        answer = await target.send(
            "POST", f"{ROOT}/subjects/address/versions", {"schema": record("Other", "x")}
        )
        assert answer.json["error_code"] == 42205
        await register(source, "payments-value", record("Order", "id", "at"))
        await register(source, "new", record("New", "x"))
        await delete(source, "orders-value", 1)
        await delete(source, "a/b: c?", permanent=True)
        assert await written(source) == {}
        assert await contents(target) == {**(await contents(source)), **theirs}
        # What was written is found equal.
        assert (await source.send("POST", "/replication/links/out/reset", {})).status == 200
        assert await written(source) == {}
        assert await contents(target) == {**(await contents(source)), **theirs}


async def equals(source: Node, target: Node, theirs: dict[str, Any]) -> bool:
    return await contents(target) == {**(await contents(source)), **theirs}


async def test_what_a_registry_has_otherwise_is_a_conflict(pair: tuple[Node, Node]) -> None:
    source, target = pair
    await register(source, "s", record("Ours", "x"))
    await register(target, "s", record("Theirs", "x"))
    await register(source, "t", record("T", "x"))
    before = await contents(target)
    await write_to(source, f"{target.url}{ROOT}", dialect="confluent")
    async with running(source):
        [xid] = await written(source)
        assert xid.endswith("/schemas/s/versions/1")
        expected = {**before, "t 1": (await contents(source))["t 1"]}
        assert await contents(target) == expected


async def test_what_was_followed_is_written_on(
    pair: tuple[Node, Node], postgres_url: str, template: str
) -> None:
    """A node between two registries keeps the ids of the first one in the second one."""
    between, target = pair
    async with (
        databases(postgres_url, template, 1) as [dsn],
        start_node(dsn) as source,
        registry_of(source) as registry,
    ):
        await fill(source)
        async with walking(between, registry, dialect="confluent", **NAMED) as walker:
            await walker.walk()
            await write_to(
                between,
                f"{target.url}{ROOT}",
                dialect="confluent",
                authorities=[registry.url],
            )
            async with running(between):
                assert await written(between) == {}
                assert await contents(target, ".old") == await contents(source)
