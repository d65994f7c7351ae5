"""A real Prometheus scrapes a real node, evaluates the alarms and answers the board."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from catalog.client import Client, Refused
from catalog.operations.links import NewLink
from catalog.operations.reconciliations import TELL_RECONCILIATION, NewReconciliation
from catalog.operations.subscriptions import NewSubscription
from tests.deploy.files import board_expressions, rule_expressions
from tests.deploy.prometheus import Prometheus, program, running_prometheus
from tests.e2e.nodes import NodeProcess, free_port, node_at, running, until

pytestmark = pytest.mark.slow

# Prometheus makes these itself.
_OWN = {"up", "ALERTS"}
_DIFFERENT = {
    "run": "00000000-0000-4000-8000-000000000001",
    "startedat": "2026-01-01T00:00:00Z",
    "endedat": "2026-01-01T00:01:00Z",
    "outcome": "different",
    "name": "hub",
    "catalogs": ["hub", "east"],
    "findings": {"missing": 2},
}
# Tables of what is not as it should be are empty as long as it is.
_EMPTY = ("Conflicts A", "Failures in a row A")
_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[tuple[NodeProcess, NodeProcess]]:
    """A hub that follows another node, and has a subscription whose sink does not answer."""
    program("prometheus")
    hub, east = node_at(tmp_path / "hub"), node_at(tmp_path / "east")
    for node in (hub, east):
        node.log.parent.mkdir()
    async with running(hub, east), hub.client() as client:
        await client.add_link(NewLink(id="east", source=east.url, mode="pull"))
        await client.subscribe(
            NewSubscription(sink=f"http://127.0.0.1:{free_port()}/", protocol="HTTP")
        )
        await client.create("/messagegroups/g", {})
        await client.call(TELL_RECONCILIATION, NewReconciliation.model_validate(_DIFFERENT))
        await until(lambda: _is_current(client), what="the link to be current")
        yield hub, east


async def test_alarms_and_board_read_what_nodes_tell(
    nodes: tuple[NodeProcess, NodeProcess], tmp_path: Path
) -> None:
    hub, east = nodes
    told = await _metrics(hub)
    used = {name for each in (*rule_expressions(), *board_expressions()) for name in each.metrics()}
    assert used - _OWN <= told.keys()
    own = {family for family in told.values() if family.startswith("concord_")}
    assert own <= {told[name] for name in used - _OWN}, "each metric is shown or in a rule"

    targets = {f"{name}:8080": f"127.0.0.1:{node.port}" for name, node in _named(hub, east)}
    async with (
        running_prometheus(tmp_path, targets, "1s") as prometheus,
        asyncio.TaskGroup() as tasks,
    ):
        writing = tasks.create_task(_write(hub))
        await until(lambda: _is_evaluated(prometheus), what="an evaluation of all rules")
        for each in board_expressions():
            if not each.place.startswith(_EMPTY):
                await until(lambda e=each: prometheus.query(e.text), what=f"an answer to {each}")
        await east.end(signal.SIGKILL)
        for alarm, node in (
            ("ConcordDown", "east"),
            ("ConcordLinkFailing", "hub"),
            ("ConcordSubscriptionFailing", "hub"),
            ("ConcordReconciliationDiffers", "hub"),
        ):
            firing = f'ALERTS{{alertstate="firing", alertname="{alarm}", node="{node}"}}'
            await until(lambda e=firing: prometheus.query(e), what=firing)
        for alarm in (await prometheus.api("alerts"))["alerts"]:
            assert "error expanding" not in str(alarm["annotations"])
        writing.cancel()


def _named(hub: NodeProcess, east: NodeProcess) -> Sequence[tuple[str, NodeProcess]]:
    return (("hub", hub), ("east", east))


async def _is_current(client: Client) -> bool:
    return bool((await client.link("east")).state == "current")


async def _write(node: NodeProcess) -> None:
    """Write, read what is not there, and so on, for figures that change."""
    async with Client.open(node.url) as client:
        while True:
            await client.update("/messagegroups/g", {"name": "A group"})
            try:
                await client.entity("/messagegroups/nothing")
            except Refused:
                await asyncio.sleep(0.1)  # between two writes


async def _metrics(node: NodeProcess) -> dict[str, str]:
    """The family of each series that a node has, or has once there is something to tell."""
    async with node.client() as client:
        body = (await client.request("GET", "/metrics")).body
    return {
        family.name + suffix: family.name
        for family in text_string_to_metric_families(body.decode())
        if not family.name.endswith("_created")
        for suffix in _SUFFIXES.get(family.type, ("",))
    }


async def _is_evaluated(prometheus: Prometheus) -> bool:
    """Whether every rule was evaluated; one that could not be has an error."""
    groups = (await prometheus.api("rules"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert not [rule for rule in rules if rule.get("lastError")]
    return bool(rules) and all(rule["health"] == "ok" for rule in rules)
