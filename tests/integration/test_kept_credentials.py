"""A client keeps the credential of a sink by giving it back as it is shown, for this sink only."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from catalog.model.credentials import SinkCredential
from catalog.subscriptions.stored.sinkcredentials import load_credentials, open_credential
from tests.integration.conftest import Node, fresh_node
from tests.integration.federation import execute
from tests.integration.test_subscriptions_api import ACCESS, MINIMAL, PLAIN, REFRESH, SINK

CREDENTIALS = [PLAIN, ACCESS, REFRESH]

node = fresh_node(allow_private_addresses=False, validate_sinks=False)


async def created(node: Node, credential: dict[str, Any]) -> dict[str, Any]:
    answer = await node.send("POST", "/subscriptions", {**MINIMAL, "sinkcredential": credential})
    assert answer.status in (201, 202), answer.body
    shown: dict[str, Any] = answer.json
    return shown


async def stored(node: Node, id: str) -> SinkCredential | None:
    async with node.database.acquire() as connection:
        found = await load_credentials(connection, [id])
    return open_credential(node.context.keys, found[id]) if found else None


@pytest.mark.parametrize("credential", CREDENTIALS)
async def test_what_is_shown_can_be_given_back(node: Node, credential: dict[str, Any]) -> None:
    shown = await created(node, credential)
    before = await stored(node, shown["id"])
    again = await node.put(f"/subscriptions/{shown['id']}", {**shown, "types": ["a"]})
    assert again["types"] == ["a"]
    assert again["sinkcredential"] == shown["sinkcredential"]
    assert await stored(node, shown["id"]) == before
    assert "s3cret" in str([getattr(before, name) for name in before.__slots__])  # type: ignore[union-attr]


@pytest.mark.parametrize("credential", CREDENTIALS)
async def test_a_credential_that_is_not_given_again_is_gone(
    node: Node, credential: dict[str, Any]
) -> None:
    shown = await created(node, credential)
    again = await node.put(f"/subscriptions/{shown['id']}", MINIMAL)
    assert "sinkcredential" not in again
    assert await stored(node, shown["id"]) is None


async def test_a_credential_that_cannot_be_decrypted_is_gone_all_the_same(node: Node) -> None:
    shown = await created(node, PLAIN)
    await execute(node, "UPDATE sink_credentials SET sealed = sha256(sealed)")
    again = await node.put(f"/subscriptions/{shown['id']}", {**MINIMAL, "sink": f"{SINK}/other"})
    assert "sinkcredential" not in again
    async with node.database.acquire() as connection:
        assert not await load_credentials(connection, [shown["id"]])


@pytest.mark.parametrize("credential", CREDENTIALS)
@pytest.mark.parametrize(
    "sink", ["https://evil.example/events", f"{SINK}/other", SINK.replace("https", "http")]
)
async def test_no_credential_is_kept_for_another_sink(
    node: Node, credential: dict[str, Any], sink: str
) -> None:
    shown = await created(node, credential)
    before = await stored(node, shown["id"])
    answer = await node.send("PUT", f"/subscriptions/{shown['id']}", {**shown, "sink": sink})
    assert answer.status == 400
    assert "*** keeps a stored credential" in answer.json["title"]
    assert await stored(node, shown["id"]) == before


@pytest.mark.parametrize(
    ("credential", "changes"),
    [
        (PLAIN, {"identifier": "other"}),
        (PLAIN, {"secret": "other"}),
        (ACCESS, {"accesstokenexpiresutc": "2031-01-01T00:00:00Z"}),
        (ACCESS, {"accesstokentype": "Basic"}),
        (REFRESH, {"refreshtoken": "other"}),
        (REFRESH, {"accesstoken": "other"}),
        (REFRESH, {"refreshtokenendpoint": "https://evil.example/token?client=***"}),
        (REFRESH, {"refreshtokenendpoint": "https://id.example/other?client=***"}),
    ],
)
async def test_a_part_of_a_credential_is_not_changed_beside_stars(
    node: Node, credential: dict[str, Any], changes: dict[str, Any]
) -> None:
    shown = await created(node, credential)
    before = await stored(node, shown["id"])
    given = {**shown, "sinkcredential": {**shown["sinkcredential"], **changes}}
    answer = await node.send("PUT", f"/subscriptions/{shown['id']}", given)
    assert answer.status == 400, answer.body
    assert "***" in answer.json["title"]
    assert await stored(node, shown["id"]) == before


@pytest.mark.parametrize("credential", CREDENTIALS)
async def test_stars_stand_for_no_credential_where_none_is_stored(
    node: Node, credential: dict[str, Any]
) -> None:
    other = PLAIN if credential is not PLAIN else ACCESS
    masked = (await created(node, credential))["sinkcredential"]
    bodies = {**MINIMAL, "sinkcredential": masked}
    assert (await node.send("POST", "/subscriptions", bodies)).status == 400
    answer = await node.send("POST", "/subscriptions", MINIMAL)
    path = f"/subscriptions/{answer.json['id']}"
    assert (await node.send("PUT", path, bodies)).status == 400
    path = f"/subscriptions/{(await created(node, other))['id']}"
    assert (await node.send("PUT", path, bodies)).status == 400


async def test_no_row_of_the_database_holds_a_secret(node: Node, database_url: str) -> None:
    """Every value of every table is searched, as a dump would show it."""
    for credential in CREDENTIALS:
        shown = await created(node, credential)
        await node.put(f"/subscriptions/{shown['id']}", shown)
    connection = await asyncpg.connect(database_url)
    try:
        names = await connection.fetch(
            "SELECT oid::regclass::text FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        )
        found = {}
        for [name] in names:
            rows = await connection.fetch(f"SELECT t::text FROM {name} AS t")
            found[name] = "\n".join(row[0] for row in rows)
    finally:
        await connection.close()
    assert found["sink_credentials"].count("\n") == 2
    text = "".join(found.values())
    assert "s3cret" not in text
    assert b"s3cret".hex() not in text
