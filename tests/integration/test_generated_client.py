"""A generator of others makes a typed client of docs/openapi.json, and the client works."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Node
from tests.integration.test_sink_consent import sink_here
from tests.openapidocument import FILE

PACKAGE = "generated_concord_client"


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a module of the client."""
    # The commands that tidy the code afterwards need programs that are not of the generator.
    config = tmp_path / "config.yaml"
    config.write_text("post_hooks: []\n")
    arguments = ["--path", FILE, "--output-path", tmp_path / PACKAGE, "--config", config]
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"]
    run = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    monkeypatch.syspath_prepend(tmp_path)
    return lambda name: importlib.import_module(f"{PACKAGE}.{name}")


async def test_a_generated_client_creates_lists_reads_and_deletes_with_types(
    node: Node, imported: Callable[[str], Any]
) -> None:
    models = imported("models")

    async def call(operation: str, *arguments: str, **named: Any) -> Any:
        made = imported(f"api.default.{operation}")
        return await made.asyncio(*arguments, client=client, **named)

    async with (
        sink_here() as sink,
        # No proxy stands between a test and its node.
        imported("client").Client(base_url=node.url, httpx_args={"trust_env": False}) as client,
    ):
        protocol = models.NewSubscriptionProtocol("HTTP")
        wanted = models.NewSubscription(protocol=protocol, sink=sink.url)
        created = await call("create_subscription", body=wanted)
        assert isinstance(created, models.SubscriptionAnswer)
        assert (created.sink, created.protocol.value) == (sink.url, "HTTP")
        assert isinstance(created.status, models.DeliveryStatus)
        assert created.status.delivered == 0

        [listed] = await call("list_subscriptions")
        assert isinstance(listed, models.SubscriptionAnswer)
        assert listed.id == created.id

        await call("delete_subscription", created.id)
        assert await call("list_subscriptions") == []
        missing = await call("get_subscription", created.id)
        assert isinstance(missing, models.Problem)
        assert missing.type_.endswith("not_found")

        await node.put("/messagegroups/g", {"name": "Group"})
        group = await call("get_messagegroups_messagegroupid", "g")
        assert isinstance(group, models.Messagegroup)
        assert (group.name, group.epoch, group.messagescount) == ("Group", 1, 0)
