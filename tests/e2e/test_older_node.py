"""A node of an older commit and a node of this one link to each other, in each mode of peers."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from catalog.client import Client
from tests.e2e.nodes import NodeProcess, node_at, running, until

ROOT = Path(__file__).parents[2]
# The commit before the operations of the API were declared anew.
OLDER = "7970cdc9ce082d316e2c68c052b60ff22446d02b"
MESSAGES = 3

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def older_code(tmp_path: Path) -> Path:
    """The packages as they were at the older commit."""
    if shutil.which("git") is None:
        pytest.skip("needs git: apt-get install git")
    archive, code = tmp_path / "older.tar", tmp_path / "older"
    asked = ["git", "-C", str(ROOT), "archive", "-o", str(archive), OLDER, "catalog", "replication"]
    if subprocess.run(asked, capture_output=True, check=False).returncode:
        pytest.skip("needs the history of the repository: git fetch --unshallow")
    shutil.unpack_archive(archive, code)
    return code


@pytest.mark.parametrize("mode", ["events", "pull", "push"])
async def test_nodes_of_two_commits_have_each_other_s_entities(
    tmp_path: Path, older_code: Path, mode: str
) -> None:
    older, newer = _node(tmp_path / "a", older_code), _node(tmp_path / "b")
    async with running(older, newer), older.client() as one, newer.client() as other:
        assert [await _has_acceptances(each) for each in (one, other)] == [True, False]
        for client, name in ((one, "older"), (other, "newer")):
            await _write(client, name, "before")
        for source, target in ((one, other), (other, one)):
            if mode == "push":
                await _push(source, target, is_older=target is one)
            else:
                await _follow(source, target, mode)
        await until(lambda: _agree(one, other), seconds=60, what="the first copies")
        for client, name in ((one, "older"), (other, "newer")):
            await _write(client, name, "after")
            await client.delete(f"/messagegroups/{name}/messages/m0")
        await until(lambda: _agree(one, other), seconds=60, what="the changes")
        await until(lambda: _are_current(one, other), seconds=60, what="links that are current")


def _node(directory: Path, code: Path = ROOT) -> NodeProcess:
    directory.mkdir()
    # Without PYTHONSAFEPATH, `python -m` takes the packages of the directory that it is started in.
    return node_at(directory, PYTHONPATH=str(code), PYTHONSAFEPATH="1")


async def _has_acceptances(node: Client) -> bool:
    """Whether a node has paths that only the older commit has."""
    return "/replication/acceptances" in (await node.get("/openapi.json"))["paths"]


async def _write(client: Client, group: str, text: str) -> None:
    for number in range(MESSAGES):
        path = f"/messagegroups/{group}/messages/m{number}"
        await client.replace(path, {"description": text})


async def _follow(source: Client, target: Client, mode: str) -> None:
    await target.post("/replication/links", {"source": source.url, "mode": mode})


async def _push(source: Client, target: Client, *, is_older: bool) -> None:
    """Let a source push to a target, which may be the older node."""
    accepted = {"authority": source.url}
    if is_older:
        await target.post("/replication/acceptances", accepted)
    else:
        await target.post("/replication/links", accepted | {"mode": "accept"})
    await source.post("/replication/links", {"target": target.url, "mode": "push"})


async def _agree(one: Client, other: Client) -> bool:
    held = await _held(one)
    return {*held} == {"older", "newer"} and held == await _held(other)


async def _are_current(*clients: Client) -> bool:
    links = [(await client.get("/replication/links"))["links"] for client in clients]
    return {link["state"] for found in links for link in found} == {"current"}


async def _held(client: Client) -> Mapping[str, Any]:
    groups = (await client.get("/?inline=messagegroups.messages"))["messagegroups"]
    return {
        id: {name: each["description"] for name, each in group["messages"].items()}
        for id, group in groups.items()
    }
