"""A node that recovers believes what it has signed itself, and asks before it deletes much."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from catalog.keys.entitysignature import EntitySigner
from catalog.model.authoritykey import KeyEntry, KeyHistory, PublicKey
from replication.store.trustedkeys import save_history
from tests.integration.commandline import concord
from tests.integration.conftest import Node
from tests.integration.federation import (
    databases,
    eventually,
    execute,
    own_rows,
    running,
    start_member,
    write_some,
)
from tests.integration.test_recovery import (
    AUTHORITY,
    MESSAGE,
    copy_own,
    follow,
    forge,
    recovery_is,
    start_as,
    write_history,
)
from tests.integration.test_signed_entities import rotate, sign, signatures

VERSION = f"{MESSAGE}/versions/1"


@pytest.fixture
async def urls(postgres_url: str, template: str) -> AsyncIterator[list[str]]:
    async with databases(postgres_url, template, 4) as made:
        yield made


async def begin(node: Node, *sources: Node, **terms: Any) -> None:
    body = {"sources": [source.url for source in sources], **terms}
    answer = await node.send("POST", "/replication/recovery", body)
    assert answer.status == 202, answer.body


async def findings(node: Node) -> list[Any]:
    return list((await node.get("/replication/recovery/findings"))["findings"])


async def know_keys(node: Node) -> None:
    """Wait until a replica knows the keys of the lost authority."""

    async def is_so() -> bool:
        return bool((await node.get(f"/replication/keys?authority={AUTHORITY}"))["keys"])

    await eventually(is_so)


async def show_other_keys(node: Node) -> None:
    """Let a replica show keys of the lost authority that it has made itself."""
    signer = EntitySigner.of(AUTHORITY, 7, b"7" * 32)
    now = datetime.now(UTC)
    entry = KeyEntry(public=signer.public, createdat=now)
    history = KeyHistory(authority=AUTHORITY, keys=[entry], at=now)
    async with node.database.acquire() as connection:
        signature = signer.sign(history.signed())
        await save_history(connection, replace(history, signature=signature))


async def test_an_authority_that_signs_is_not_deceived_by_a_replica(urls: list[str]) -> None:
    """The liar raises an epoch, and makes up an entity; the honest replica has what was signed."""
    made_up = "/messagegroups/g/messages/m1"
    async with start_member(urls[1]) as honest, start_member(urls[2]) as liar:
        async with start_as(urls[0]) as lost:
            await write_some(lost, "g")
            key = PublicKey.parse(await sign(lost))
            await write_history(lost)
            await follow(honest, lost)
            await know_keys(honest)
            expected, signed = await own_rows(lost), await signatures(lost)
            await lost.put(f"{made_up}/versions/2", {"description": "seen by the liar only"})
            await follow(liar, lost)
        await forge(liar, VERSION, raised=9)
        await forge(liar, f"{made_up}/versions/2", raised=9)
        async with start_as(urls[3]) as fresh, running(fresh):
            await begin(fresh, liar, honest)
            blocked = await recovery_is(fresh, "blocked")
            assert blocked["keys"] == [key.id]
            assert [source["unproven"] for source in blocked["sources"]] == [2, 0]
            assert blocked["refused"] == 1
            [finding] = [each for each in await findings(fresh) if each["state"] == "refused"]
            assert finding["origin"] == f"{made_up}/versions/2"
            assert "it was not signed by the key" in finding["detail"]
            assert (await own_rows(fresh))[AUTHORITY, VERSION] == expected[AUTHORITY, VERSION]
            assert (await signatures(fresh))[VERSION] == signed[VERSION]
            await begin(fresh, honest)
            await recovery_is(fresh, "done")


async def test_a_backup_knows_its_keys_and_follows_them_to_later_ones(urls: list[str]) -> None:
    """The operator of an authority that has no keys any more may name one, or check none."""
    async with start_member(urls[1]) as replica:
        async with start_as(urls[0]) as node, start_as(urls[2]) as backup:
            await write_some(node, "g")
            await sign(node)
            await copy_own(node, backup)
            async with node.database.acquire() as connection:
                [entry] = await connection.fetch("SELECT * FROM authority_keys")
            await execute(
                backup,
                "INSERT INTO authority_keys (number, publickey, createdat) VALUES (1, $1, now())",
                entry["publickey"],
            )
            await execute(backup, "UPDATE node SET signingkey = 1")
            later = PublicKey.parse(await rotate(node))
            await node.put(MESSAGE, {"description": "signed by the later key"})
            await follow(replica, node)
            await know_keys(replica)
            expected = await own_rows(node)
        async with start_as(urls[2]) as restored, running(restored):
            await begin(restored, replica)
            done = await recovery_is(restored, "done")
            assert (later.id in done["keys"], await own_rows(restored)) == (True, expected)
        stranger = f"ed25519:1:{'A' * 43}"
        async with start_as(urls[3]) as fresh, running(fresh):
            refused = await concord(fresh, "recover", "--from", replica.url, "--trust", stranger)
            assert refused.exit_code == 1, refused.output
            assert "which this node does not trust" in refused.output.replace("\n", " ")
            assert (await own_rows(fresh)) == {}
            taken = await concord(fresh, "recover", "--from", replica.url, "--unsigned")
            assert (taken.exit_code, await own_rows(fresh)) == (0, expected), taken.output


async def test_replicas_that_show_different_keys_are_told(urls: list[str]) -> None:
    async with start_member(urls[1]) as honest, start_member(urls[2]) as liar:
        async with start_as(urls[0]) as lost:
            await write_some(lost, "g")
            key = await sign(lost)
            await follow(honest, lost)
            await know_keys(honest)
            expected = await own_rows(lost)
            await follow(liar, lost)
        await show_other_keys(liar)
        async with start_as(urls[3]) as fresh, running(fresh):
            await begin(fresh, honest, liar)

            async def is_told() -> bool:
                error = (await fresh.get("/replication/recovery")).get("error")
                return "do not belong together" in (error or "")

            await eventually(is_told)
            assert await own_rows(fresh) == {}
            await begin(fresh, honest, trust=[key])
            await recovery_is(fresh, "done")
            assert await own_rows(fresh) == expected


async def test_a_recovery_asks_before_it_deletes_much(urls: list[str]) -> None:
    """A whole group went while the backup was old; its tombstones alone would do."""
    async with start_member(urls[1]) as replica:
        async with start_as(urls[0]) as node, start_as(urls[2]) as backup:
            await write_some(node, "g")
            for number in range(12):
                await node.put(f"/messagegroups/large/messages/m{number}")
            await copy_own(node, backup)
            assert (await node.send("DELETE", "/messagegroups/large")).status == 204
            await follow(replica, node)
            expected = await own_rows(node)
        async with start_as(urls[2]) as restored, running(restored):
            before = await own_rows(restored)
            asked = await concord(restored, "recover", "--from", replica.url)
            assert asked.exit_code == 1, asked.output
            told = " ".join(asked.output.split())
            assert "It is about to delete 25 of the" in told
            assert "concord recover resume --allow 25" in told
            assert await own_rows(restored) == before
            body = {"state": "burying"}
            buried = await restored.send("PATCH", "/replication/recovery", body)
            assert (buried.status, buried.error) == (409, "conflict")
            again = await concord(restored, "recover", "resume", "--allow", "24")
            assert again.exit_code == 1, again.output
            done = await concord(restored, "recover", "resume", "--allow", "25")
            assert (done.exit_code, await own_rows(restored)) == (0, expected), done.output
