"""`concord serve` from the outside: it starts with nothing, stops cleanly, and remembers."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.e2e.nodes import node_at, running

MESSAGE = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "a.b"}}}


async def test_a_node_without_configuration_serves_the_default_model(tmp_path: Path) -> None:
    """No database, no file, no setting but where to keep its data and the port to listen on."""
    node = node_at(tmp_path, CONCORD_PUBLIC_URL="")
    async with running(node), node.client() as client:
        root = await client.entity("/")
        assert root["specversion"] == "1.0-rc4"
        assert {"endpointsurl", "messagegroupsurl", "schemagroupsurl"} <= root.keys()
        for dialect in ("/messagecatalog", "/services", "/registry/0.4", "/subscriptions"):
            assert (await client.request("GET", dialect)).is_json
        said = node.log.read_text()
        assert "It has no public URL: before other catalogs follow it, set one" in said
        assert f'"authority": "{(await client.handshake()).authority}"' in said


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_a_node_finds_everything_again_however_it_ended(
    tmp_path: Path, how: signal.Signals
) -> None:
    """What was acknowledged is there after Ctrl-C, after SIGTERM and after kill -9."""
    node = node_at(tmp_path)
    async with running(node):
        async with node.client() as client:
            await client.create("/messagegroups/g/messages/m", MESSAGE)
            before = await client.export()
        status = await node.end(how)
        assert status == (0 if how != signal.SIGKILL else -signal.SIGKILL)
        await node.start()
        async with node.client() as client:
            assert await client.export() == before


async def test_a_port_in_use_is_explained(tmp_path: Path) -> None:
    """The second node on a port ends at once, with a sentence that says what to do."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first, second = node_at(tmp_path / "one"), node_at(tmp_path / "two")
    second.environment["CONCORD_PORT"] = str(first.port)
    async with running(first):
        with pytest.raises(AssertionError):
            await second.start()
        assert second.process is not None
        assert await second.process.wait() == 2
        said = second.log.read_text()
        assert "in use" in said
        assert "CONCORD_PORT" in said
        assert "Traceback" not in said
