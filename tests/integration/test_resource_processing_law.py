"""Whatever is written, a node answers and shows what the text, spelled out naively, says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.conftest import Answer, Node, shared_node
from tests.integration.processing.entities import Json, Kind
from tests.integration.processing.registry import GROUPS, Oracle, Request
from tests.integration.processing.requests import TIMES, Client

pytestmark = pytest.mark.asyncio(loop_scope="module")
WALKS = 24
STEPS = 50
KINDS = [
    Kind(plural="files", singular="file"),
    Kind(plural="notes", singular="note", mode="createdat", limit=3),
    Kind(plural="logs", singular="log", mode="modifiedat"),
    Kind(plural="apis", singular="api", mode="semver", limit=2),
    Kind(plural="solos", singular="solo", limit=1),
    Kind(plural="trees", singular="tree", one_root=True, limit=3),
    Kind(plural="marks", singular="mark", sets_ids=False, limit=4),
]
SOURCE = {
    "groups": {
        GROUPS: {"singular": "dir", "resources": {kind.plural: kind.model for kind in KINDS}}
    }
}
OF_ITS_PLACE = {"self", "xid", "specversion", "registryid", "capabilities", "model", "modelsource"}

node = shared_node(modelsource=SOURCE)


@pytest.mark.parametrize("seed", range(WALKS))
async def test_a_node_does_with_any_writes_what_the_algorithm_says(node: Node, seed: int) -> None:
    await node.send("DELETE", f"/{GROUPS}")
    oracle = Oracle(KINDS, plain(await node.get("/")))
    client = Client(seed, [f"g{seed}", f"h{seed}"], oracle)
    for step in range(STEPS):
        request = client.request()
        expected = oracle.answer(request, f"2500-01-01T00:00:00.{step:03}Z")
        answer = await send(node, request)
        assert outcome(answer) == expected, (request, answer.body)
        shown = plain(await node.get("/?inline=*"))
        assert in_order(shown) == in_order(oracle.shown()), request


async def send(node: Node, request: Request) -> Answer:
    flags = {"epoch": request.epoch, "setdefaultversionid": request.default}
    query = "&".join(f"{flag}={value}" for flag, value in flags.items() if value is not None)
    return await node.send(request.method, f"/{'/'.join(request.path)}?{query}", request.body)


def outcome(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.error if answer.status >= 400 else ""


def plain(shown: Any) -> Any:
    """Without what only depends on where an entity is."""
    if not isinstance(shown, dict):
        return shown
    return {
        name: plain(value)
        for name, value in shown.items()
        if name not in OF_ITS_PLACE and not name.endswith("url")
    }


def in_order(shown: Json) -> Json:
    """With a rank for each time that is the server's own."""
    ranks = {time: rank for rank, time in enumerate(sorted({*times(shown)} - {*TIMES}))}
    return ranked(shown, ranks)


def times(shown: Any) -> list[str]:
    if not isinstance(shown, dict):
        return []
    own = [value for name, value in shown.items() if name in ("createdat", "modifiedat")]
    return own + [time for value in shown.values() for time in times(value)]


def ranked(shown: Any, ranks: dict[str, int]) -> Any:
    if isinstance(shown, dict):
        return {name: ranked(value, ranks) for name, value in shown.items()}
    return ranks.get(shown, shown) if isinstance(shown, str) else shown
