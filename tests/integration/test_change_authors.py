"""Who changed what is told to those who may know it, and to nobody else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from catalog.access.authentication import AUTHENTICATION
from catalog.access.owntokens import make_token
from catalog.model.roles import Grant, Role
from replication.routes import routes as replication_routes
from tests.integration.auditing import Caller
from tests.integration.conftest import Node, start_node
from tests.integration.federation import databases, eventually, running

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]

OWN, OTHER = "/messagegroups/own", "/messagegroups/other"


@dataclass(frozen=True, slots=True)
class Callers:
    """Callers with roles: of the whole catalog, and in the group `own` alone."""

    admin: Caller
    writer: Caller
    reader: Caller
    owner: Caller
    """An admin of the group, who reads the whole catalog."""
    guest: Caller
    """A reader of the group."""


async def caller(node: Node, *grants: Grant) -> Caller:
    async with node.database.transaction() as connection:
        made, text = await make_token(connection, name="", grants=grants, expiresat=None)
    node.client.app[AUTHENTICATION].rules.forget()
    return Caller(node, made.id, text)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(shared_database_url, open=False) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def callers(node: Node) -> Callers:
    roles: tuple[Role, ...] = ("admin", "writer", "reader")
    found = Callers(
        *[await caller(node, Grant(role)) for role in roles],
        await caller(node, Grant("reader"), Grant("admin", OWN)),
        await caller(node, Grant("reader", OWN)),
    )
    names = {f"m{n}": {} for n in range(60)}
    body = {group[15:]: {"messages": names} for group in (OWN, OTHER)}
    answer = await found.writer.send("POST", "/messagegroups", body)
    assert answer.status == 200, answer.body
    answer = await found.admin.send("PATCH", OTHER, {"name": "Other"})
    assert answer.status == 200, answer.body
    return found


async def test_each_entity_of_a_large_interaction_is_found_by_its_path(callers: Callers) -> None:
    for number in (0, 7, 59):
        for below in ("", "/versions/1"):
            path = f"{OWN}/messages/m{number}{below}"
            [entry] = await callers.admin.audit(f"?path={path}")
            assert path in {target["path"] for target in entry["targets"]}
            assert (entry["changed"], len(entry["targets"])) == (243, 20)
    # A path matches whole segments.
    assert await callers.admin.audit(f"?path={OWN[:-1]}") == []
    assert await callers.admin.audit(f"?path={OWN}/messages/m") == []
    assert len(await callers.admin.audit("?path=/messagegroups/")) == 2
    assert len(await callers.admin.audit(f"?path={OTHER}")) == 2


async def test_an_owner_reads_the_audit_of_the_own_groups_alone(callers: Callers) -> None:
    [entry] = await callers.owner.audit()
    assert entry["identity"] == {"kind": "token", "name": callers.writer.id}
    assert {target["path"].startswith(OWN) for target in entry["targets"]} == {True}
    assert not {"address", "agent", "changed", "path"} & entry.keys()
    assert await callers.owner.audit(f"?path={OTHER}") == []
    assert await callers.owner.audit("?outcome=refused") == []
    for other in (callers.reader, callers.guest, callers.writer):
        assert (await other.send("GET", "/audit")).status == 403
    await callers.owner.send("PATCH", OWN, {"name": "Mine"})
    [newest, _] = await callers.owner.audit()
    assert (newest["method"], newest["path"]) == ("PATCH", OWN)


async def test_readers_see_the_changes_and_owners_the_persons(callers: Callers) -> None:
    by_path = f"/-/changes?path={OWN}/messages/m1"
    for who, knows in (
        (callers.admin, True),
        (callers.owner, True),
        (callers.reader, False),
        (callers.guest, False),
    ):
        found = (await who.send("GET", by_path)).json["changes"]
        assert [each["action"] for each in found] == ["created", "created"]
        told = {"kind": "token", "name": callers.writer.id} if knows else None
        assert [each.get("who") for each in found] == [told] * 2
        # Nor can an author be guessed by the filter.
        named = (await who.send("GET", f"{by_path}&who={callers.writer.id}")).json["changes"]
        assert len(named) == (2 if knows else 0)
        other = (await who.send("GET", f"/-/changes?path={OTHER}")).json["changes"]
        assert bool(other) is (who is not callers.guest)
        assert any("who" in each for each in other) is (who is callers.admin)


async def test_a_change_and_a_revision_of_a_hidden_group_do_not_exist(callers: Callers) -> None:
    [newest] = (await callers.admin.send("GET", f"/-/changes?path={OTHER}&limit=1")).json["changes"]
    for path in (
        f"/-/changes/{newest['sequence']}",
        f"/-/revisions/1?of={OTHER}",
        f"/-/diff?of={OTHER}&ofepoch=1",
    ):
        assert (await callers.reader.send("GET", path)).status == 200, path
        assert (await callers.guest.send("GET", path)).status == 404, path
    assert (await callers.guest.send("GET", f"/-/revisions?of={OTHER}")).json["revisions"] == []


async def test_owners_purge_what_is_theirs(callers: Callers) -> None:
    for of, status in ((OWN, 200), (f"{OWN}/messages/m0", 200), (OTHER, 403), ("/", 403)):
        answer = await callers.owner.send("DELETE", f"/-/revisions?of={of}")
        assert answer.status == status, (of, answer.body)
    assert (await callers.writer.send("DELETE", f"/-/revisions?of={OWN}")).status == 403
    assert (await callers.admin.send("DELETE", "/-/revisions?of=/")).status == 200


@pytest.mark.parametrize("is_published", [False, True])
async def test_an_authority_that_publishes_its_authors_names_them_on_copies(
    postgres_url: str, template: str, is_published: bool
) -> None:
    async with databases(postgres_url, template, 2) as (here, there):
        settings = {"publish_authors": is_published, "open": False, "anonymous_role": "replicator"}
        async with (
            start_node(here, routes=replication_routes, **settings) as source,
            start_node(there, routes=replication_routes, anonymous_role="reader") as target,
        ):
            writer = await caller(source, Grant("writer"))
            await writer.send("PUT", f"{OWN}/messages/m", {})
            admin = await caller(target, Grant("admin"))
            body = {"source": source.url, "mode": "pull"}
            made = await admin.send("POST", "/replication/links?force", body)
            assert made.status == 201, made.body
            async with running(target):
                await eventually(lambda: has_copy(target, f"{OWN}/messages/m"))
                await writer.send("PUT", f"{OWN}/messages/m", {"name": "n"})
                await writer.send("DELETE", f"{OWN}/messages/m")
                await writer.send("PUT", f"{OWN}/messages/later", {})
                await eventually(lambda: has_copy(target, f"{OWN}/messages/later"))
            path = f"/-/changes?path={OWN}&authority={source.database.node.authority}"
            for node in (source, target):
                [newest, *_] = (await node.get(path))["changes"]
                person = {"kind": "token", "name": writer.id}
                assert newest.get("who") == (person if is_published else None)
                found = (await node.get(f"{path}&who=token:{writer.id}"))["changes"]
                assert bool(found) is is_published
            [newest, *_] = (await admin.send("GET", path)).json["changes"]
            assert newest["who"]["kind"] == ("token" if is_published else "link")


async def has_copy(node: Node, path: str) -> bool:
    return (await node.send("GET", path)).status == 200
