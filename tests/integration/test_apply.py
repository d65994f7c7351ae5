"""Copies from other catalogs, some of them hostile, against a real database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.modelsource import default_model
from catalog.operations.feed import Verdict
from catalog.store import links
from catalog.store.links import LinkDefinition, LinkReplaced
from catalog.store.locks import Touched, lock_and_load
from replication.applying.apply import AppliedBatch, Batch, apply_batch
from replication.deciding.copychecks import CheckedCopies, Incoming, MalformedCopy, why_invalid
from replication.deciding.provenance import Policy
from replication.feed.feedlines import read_line, write_copy
from tests.integration.conftest import Node
from tests.integration.federation import digest_rows, execute, start_member

NOW = datetime(2030, 1, 1, tzinfo=UTC)
AUTHORITY = "urn:theirs"


@pytest.fixture
async def member(database_url: str) -> AsyncIterator[Node]:
    async with start_member(database_url) as node:
        yield node


def entity(
    xid: str, /, *, epoch: int = 1, document: bytes | None = None, **attributes: Any
) -> Entity:
    kind = {2: "group", 4: "resource", 6: "version"}[xid.count("/")]
    return Entity(
        xid=xid,
        kind=kind,  # type: ignore[arg-type]  # one of the dict's
        authority=AUTHORITY,
        origin=xid,
        epoch=epoch,
        attributes=attributes,
        createdat=NOW,
        modifiedat=NOW,
        document=document,
    ).sealed()


def message(group: str, id: str, **attributes: Any) -> Entity:
    meta = {"defaultversionid": "1", "defaultversionsticky": False, **attributes}
    return entity(f"/messagegroups/{group}/messages/{id}", **meta)


def schema(group: str, *, epoch: int = 1, document: bytes = b"{}") -> list[Entity]:
    return [
        entity(f"/schemagroups/{group}", epoch=epoch),
        entity(
            f"/schemagroups/{group}/schemas/s",
            epoch=epoch,
            defaultversionid="1",
            defaultversionsticky=False,
        ),
        entity(
            f"/schemagroups/{group}/schemas/s/versions/1",
            epoch=epoch,
            document=document,
            ancestorid="1",
            contenttype="application/json",
        ),
    ]


def end_of(live: Entity) -> Tombstone:
    return Tombstone(
        xid=live.xid,
        kind=live.kind,
        authority=live.authority,
        origin=live.origin,
        epoch=live.epoch + 1,
        deletedat=NOW,
    )


async def receive(node: Node, *copies: Incoming, **batch: Any) -> AppliedBatch:
    policy = Policy(own=node.database.node.authority, sender=AUTHORITY)
    return await apply_batch(node.context, Batch(copies=copies, policy=policy, **batch))


async def test_a_replica_keeps_what_its_authority_gave_it(member: Node) -> None:
    copies = schema("g", epoch=41)
    applied = await receive(member, *copies)
    assert applied.count(Verdict.APPLY) == 3
    rows = await digest_rows(member, verify=True)
    assert rows == {(AUTHORITY, c.xid): (41, "false", c.digest.hex()) for c in copies}
    shown = await member.get("/schemagroups/g")
    assert (shown["epoch"], shown["createdat"]) == (41, "2030-01-01T00:00:00Z")
    assert shown["authority"] == AUTHORITY
    assert (await member.send("GET", "/schemagroups/g/schemas/s")).body == b"{}"


async def test_what_is_not_news_writes_no_change_row(member: Node) -> None:
    await receive(member, *schema("g", epoch=2))
    before = await member.state()
    for again in (schema("g", epoch=2), schema("g", epoch=1), schema("g", epoch=2)[::-1]):
        applied = await receive(member, *again, *again)
        assert applied.changes == 0
    assert await member.state() == before


async def test_a_document_that_was_replaced_or_removed_is(member: Node) -> None:
    await receive(member, *schema("g"))
    await receive(member, *schema("g", epoch=2, document=b"new"))
    assert (await member.send("GET", "/schemagroups/g/schemas/s")).body == b"new"
    bare = entity("/schemagroups/g/schemas/s/versions/1", epoch=3, ancestorid="1")
    await receive(member, bare)
    async with member.database.acquire() as connection:
        assert await connection.fetchval("SELECT count(*) FROM documents") == 0


async def test_a_deleted_group_leaves_nothing_that_cannot_be_reached(member: Node) -> None:
    group, resource, version = schema("g")
    await receive(member, group, resource, version)
    await receive(member, end_of(group))
    async with member.database.acquire() as connection:
        assert await connection.fetchval("SELECT count(*) FROM entities WHERE xid <> '/'") == 0
        assert await connection.fetchval("SELECT count(*) FROM documents") == 0
    late = await receive(member, version, end_of(version), end_of(resource))
    assert sorted(finding.verdict for finding in late.findings) == ["ahead", "applied", "applied"]
    assert {deleted for _, deleted, _ in (await digest_rows(member)).values()} == {"true"}


async def test_what_is_hostile_is_set_aside_and_the_rest_flows(member: Node) -> None:
    sound = entity("/messagegroups/sound")
    hostile: list[Incoming] = [
        replace(entity("/messagegroups/liar"), digest=b"\0" * 32),
        replace(entity("/messagegroups/moved"), xid="/messagegroups/elsewhere"),
        entity("/aliens/a"),
        replace(entity("/messagegroups/neg"), epoch=-1),
        message("none", "orphan"),
        replace(message("sound", "m"), attributes={}),
        message("sound", "m", defaultversionid=["1"]),
        message("sound", "m", defaultversionsticky="no"),
        entity("/messagegroups/spoof", epoch=1, xid="/messagegroups/other"),
        entity("/messagegroups/name", **{"Self Made": 1}),
    ]
    as_line = write_copy(entity("/messagegroups/nul", name="x"))
    hostile += [
        copy
        for line in (
            b"{",
            b"[]",
            b'"text"',
            b'{"xid": 1}',
            b"\xff\xfe",
            as_line.replace(b'"name":"x"', b'"name":"\\u0000"'),
            as_line.replace(b'"epoch":1', b'"epoch":true'),
            as_line.replace(b'"epoch":1', b'"epoch":99999999999999999999'),
            as_line.replace(b'"epoch":1', b'"epoch":9223372036854775807'),
            as_line.replace(b'"2030-01-01T00:00:00Z"', b'"yesterday"'),
            as_line.replace(b'"attributes":{', b'"document":"!","attributes":{'),
            as_line.replace(b'"name":"x"', b'"name":' + b"[" * 90 + b"1" + b"]" * 90),
            as_line.replace(b'"authority":"', b'"authority":"' + b"x" * 5000),
        )
        if not isinstance(copy := read_line(line), str)
    ]
    async with member.database.transaction() as connection:
        link = await links.create(connection, "l", LinkDefinition(source="http://x"))
    assert link is not None
    applied = await receive(member, *hostile, sound, link=link, cursor="c")  # type: ignore[arg-type]  # hostile ones
    assert applied.count(Verdict.INVALID) == len(hostile)
    assert [f.xid for f in applied.findings if f.verdict is Verdict.APPLY] == [sound.xid]
    shown = await member.get("/replication/links/l")
    assert (shown["applied"], shown["cursor"]) == (1, "c")
    assert shown["conflicts"] > 5
    assert set(await digest_rows(member)) == {(AUTHORITY, sound.xid)}


async def test_a_conflict_leaves_when_its_origin_is_applied_after_all(member: Node) -> None:
    async with member.database.transaction() as connection:
        link = await links.create(connection, "l", LinkDefinition(source="http://x"))
    bad = replace(entity("/messagegroups/g"), digest=b"\0" * 32)
    await receive(member, bad, link=link, cursor="c")
    assert (await member.get("/replication/links/l"))["conflicts"] == 1
    [conflict] = (await member.get("/replication/links/l/conflicts"))["conflicts"]
    assert (conflict["verdict"], conflict["detail"]) == (
        "invalid",
        "its digest does not match its content",
    )
    await receive(member, entity("/messagegroups/g"), link=link, cursor="d")
    assert (await member.get("/replication/links/l"))["conflicts"] == 0


async def test_nothing_is_written_for_a_link_that_was_replaced(member: Node) -> None:
    async with member.database.transaction() as connection:
        link = await links.create(connection, "l", LinkDefinition(source="http://x"))
        assert link is not None
        await links.replace(connection, link, LinkDefinition(source="http://y"), None)
    with pytest.raises(LinkReplaced):
        await receive(member, entity("/messagegroups/g"), link=link, cursor="c")
    assert await digest_rows(member) == {}


async def test_a_batch_announces_itself_to_those_who_wait(member: Node) -> None:
    ticket = member.database.signal.ticket()
    await receive(member, entity("/messagegroups/g"))
    assert ticket.is_set()
    ticket = member.database.signal.ticket()
    await receive(member, entity("/messagegroups/g"))
    assert not ticket.is_set()


async def test_replicas_and_local_writes_at_the_same_time_lose_nothing(member: Node) -> None:
    async def replicate(number: int) -> None:
        await receive(member, *schema(f"theirs{number}"))

    async def write(number: int) -> None:
        await member.put(f"/messagegroups/ours{number}", {})

    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(replicate(number))
            group.create_task(write(number))
    listed = await member.get("/messagegroups")
    assert len(listed) == 20
    assert len(await digest_rows(member)) == 20 * 4
    registry = await member.get("/")
    assert registry["epoch"] == 41


async def test_a_local_client_cannot_write_a_replica(member: Node) -> None:
    await receive(member, entity("/messagegroups/g"))
    answer = await member.send("PUT", "/messagegroups/g", {"description": "mine"})
    assert (answer.status, answer.error) == (400, "readonly")


async def test_an_update_is_logged_with_the_names_of_what_changed(member: Node) -> None:
    await receive(member, entity("/messagegroups/g", description="old"))
    await receive(member, entity("/messagegroups/g", epoch=2, description="new"))
    last = (await member.changes())[-1].change
    assert (last.action, last.changed, last.epoch) == ("updated", ("description", "epoch"), 2)
    assert (last.authority, last.origin) == (AUTHORITY, "/messagegroups/g")


async def test_the_origin_of_a_row_that_was_damaged_does_not_stop_a_batch(member: Node) -> None:
    await receive(member, entity("/messagegroups/g"), entity("/messagegroups/h"))
    await execute(member, "UPDATE entities SET origin = '/x/y' WHERE xid = '/messagegroups/g'")
    applied = await receive(
        member, entity("/messagegroups/g", epoch=2), entity("/messagegroups/h", epoch=2)
    )
    assert sorted(finding.verdict for finding in applied.findings) == ["applied", "collided"]


@pytest.mark.parametrize("is_bulk", [False, True])
async def test_a_batch_of_many_groups_waits_for_no_writer_of_another(
    member: Node, is_bulk: bool
) -> None:
    await member.put("/messagegroups/mine")
    copies = [entity(f"/messagegroups/g{number}") for number in range(300)]
    mine = Touched(groups=frozenset({"/messagegroups/mine"}), groups_exclusive=True)
    async with member.database.transaction() as connection, asyncio.timeout(20):
        await lock_and_load(connection, mine)
        applied = await receive(member, *copies, is_bulk=is_bulk)
    assert applied.count(Verdict.APPLY) == len(copies)


async def test_bulk_is_fast_enough_for_a_bootstrap(member: Node) -> None:
    copies = [entity(f"/messagegroups/g{number}", description="x" * 200) for number in range(2000)]
    policy = Policy(own=member.database.node.authority, sender=AUTHORITY)
    began = time.monotonic()
    await apply_batch(
        member.context,
        Batch(copies=copies, policy=policy, is_bulk=True),
    )
    assert 2000 / (time.monotonic() - began) > 500
    assert Origin(AUTHORITY, "/messagegroups/g7").xid in {o for _, o in await digest_rows(member)}


@pytest.mark.parametrize(
    ("attributes", "fault"),
    [
        ({"xref": "/messagegroups/g/messages/other"}, ""),
        ({"xref": "/messagegroups/g/messages/other", "labels": {}}, "beside"),
        ({"xref": "/messagegroups/g/messages/m"}, "itself"),
        ({"xref": "/schemagroups/g/schemas/s"}, "another one"),
        ({"xref": "/nowhere/g/messages/m"}, "not in the model"),
        ({"xref": "../x"}, "xid"),
        ({"xref": 5}, "xid"),
        ({"defaultversionid": "1"}, "defaultversionsticky"),
    ],
)
def test_what_a_copy_of_a_resource_may_hold(attributes: dict[str, Any], fault: str) -> None:
    """A cross reference holds nothing else, and refers to what could be here."""
    reason = why_invalid(entity("/messagegroups/g/messages/m", **attributes), default_model())
    assert (fault in reason) if fault else reason == ""


@pytest.mark.parametrize(
    ("attributes", "is_right"),
    [
        ({"formatvalidated": True, "compatibilityvalidated": False}, True),
        ({"formatvalidated": False, "formatvalidatedreason": "so"}, True),
        ({"formatvalidated": "true"}, False),
        ({"compatibilityvalidatedreason": 5}, False),
        ({"isdefault": True}, False),
    ],
)
def test_what_a_copy_of_a_version_may_hold(attributes: dict[str, Any], is_right: bool) -> None:
    """What its authority found out about its document comes along."""
    xid = "/schemagroups/g/schemas/s/versions/1"
    reason = why_invalid(entity(xid, ancestorid="1", **attributes), default_model())
    assert (reason == "") == is_right


@pytest.mark.parametrize(
    ("xid", "attributes", "fault"),
    [
        (
            "/schemagroups/g/schemas/s/versions/1",
            {"ancestorid": "1", "contenttype": 5},
            '"contenttype": it must be a string',
        ),
        ("/schemagroups/g", {"labels": {"a": 5}}, '"labels.a": it must be a string'),
        ("/schemagroups/g", {"*": 5}, 'named "*"'),
        ("/schemagroups/g", {"authority": "urn:mine"}, 'named "authority"'),
        (
            "/messagegroups/g/messages/m",
            {"defaultversionid": "1", "defaultversionsticky": False, "deprecated": []},
            '"deprecated": it must be an object',
        ),
    ],
)
def test_a_value_of_another_type_than_a_client_may_write_is_refused(
    xid: str, attributes: dict[str, Any], fault: str
) -> None:
    assert fault in why_invalid(entity(xid, **attributes), default_model())


async def test_a_value_of_another_type_is_a_conflict_with_its_cause_and_the_rest_flows(
    member: Node,
) -> None:
    policy = Policy(own=member.database.node.authority, sender=AUTHORITY)
    group, resource, version = schema("g")
    bad = entity(version.xid, ancestorid="1", contenttype=5, document=b"{}")
    batch = Batch(copies=[group, resource, bad, *schema("h")], policy=policy)
    applied = await apply_batch(member.context, batch)
    [found] = [f for f in applied.findings if f.verdict is not Verdict.APPLY]
    assert (found.verdict, found.xid) == (Verdict.INVALID, version.xid)
    assert '"contenttype": it must be a string' in found.detail
    assert (await member.send("GET", "/export")).json["schemagroups"].keys() == {"g", "h"}
    corrected = await apply_batch(member.context, Batch(copies=schema("g"), policy=policy))
    assert {f.verdict for f in corrected.findings} == {Verdict.APPLY, Verdict.CURRENT}


async def test_a_copy_with_more_metadata_than_a_client_may_write_is_a_conflict_and_the_rest_flows(
    member: Node,
) -> None:
    large = entity("/messagegroups/g", name="n" * 15_000_000)
    allowed = entity("/messagegroups/h", labels={f"l{n}": "v" * 4000 for n in range(60)})
    applied = await receive(member, large, allowed)
    found = {finding.xid: finding for finding in applied.findings}
    assert found[large.xid].verdict is Verdict.INVALID
    assert "262144 bytes of metadata" in found[large.xid].detail
    assert found[allowed.xid].verdict is Verdict.APPLY
    assert (await member.send("GET", "/messagegroups/g")).status == 404


async def test_copies_that_another_model_has_checked_are_checked_again(member: Node) -> None:
    other = replace(default_model(), groups={})
    arrived = CheckedCopies(other)
    arrived.take(entity("/messagegroups/g"))
    assert isinstance(arrived.checked[0], MalformedCopy)
    policy = Policy(own=member.database.node.authority, sender=AUTHORITY)
    applied = await apply_batch(member.context, Batch(copies=arrived, policy=policy))
    assert [finding.verdict for finding in applied.findings] == [Verdict.APPLY]


async def test_a_spoilt_copy_of_its_own_entity_is_nothing_to_a_node(member: Node) -> None:
    own = member.database.node.authority
    spoilt = replace(entity("/messagegroups/g"), authority=own)
    assert why_invalid(spoilt, default_model()) == "its digest does not match its content"
    applied = await receive(member, spoilt)
    assert [finding.verdict for finding in applied.findings] == [Verdict.OWN]
