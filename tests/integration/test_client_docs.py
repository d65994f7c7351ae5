"""The program on the page about the client does what the page says."""

from __future__ import annotations

import ast
import asyncio
import inspect
import types
from typing import Any

import pytest

from catalog.client import Client, Refused
from catalog.subscriptions.delivery.dispatcher import run_deliveries
from replication.routes import routes
from tests.integration.conftest import start_node
from tests.pages import PROGRAM, ROOT, blocks

PAGE = ROOT / PROGRAM
ADDRESS = "http://127.0.0.1:8080"


async def test_every_block_of_the_page_runs_against_a_node(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        start_node(database_url, routes=routes) as node,
        Client.open(node.url) as client,
        asyncio.timeout(60),
    ):
        delivering = asyncio.create_task(run_deliveries(node.context))
        names: dict[str, Any] = {}
        try:
            for block in blocks(PAGE):
                if block.not_run:
                    continue
                assert block.language == "python"
                await run(block.text.replace(ADDRESS, node.url), names)
                names["client"] = client
        finally:
            delivering.cancel()
            await asyncio.wait([delivering])
        with pytest.raises(Refused):
            await client.entity("/messagegroups/shop")
    printed = capsys.readouterr().out.splitlines()
    assert "A customer orders 1" in printed
    assert "shop 1" in printed
    assert printed[printed.index("1 False") :][:2] == ["1 False", "2 True"]
    assert "1 created, 2 updated" in printed
    assert any(line.startswith("False [{") for line in printed)
    assert "['Shop']" in printed
    assert "404 not_found" in printed[-1]
    assert any(line.startswith("active whpk_") for line in printed)
    assert any(line.startswith("refused because the sink ") for line in printed)
    assert any(line.startswith("dead the sink ") for line in printed)
    assert "paused since the sink moves" in printed
    assert "1 dead=0 waiting=0 due=1" in printed
    assert "0 removed" in printed
    assert "active again" in printed


async def run(block: str, names: dict[str, Any]) -> None:
    """Run a block with `await` at its top level, as `python -m asyncio` does."""
    code = compile(block, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    running = types.FunctionType(code, names)()
    if inspect.isawaitable(running):
        await running
