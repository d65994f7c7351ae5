"""Commands of `concord` beside a node of the same process."""

from __future__ import annotations

import asyncio

from typer.testing import CliRunner, Result

from catalog.cli import app
from tests.integration.conftest import Node


async def concord(node: Node, *arguments: str, **environment: str) -> Result:
    """Run a command for a node, without a terminal and with wide lines.

    The command runs in a thread, since it has an event loop of its own.
    """
    given = {"CONCORD_URL": node.url, "COLUMNS": "400", **environment}
    return await asyncio.to_thread(CliRunner().invoke, app, arguments, env=given)
