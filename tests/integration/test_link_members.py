"""Links have the members of their mode, and no others: in requests, and in rows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Any, get_args

import orjson
import pytest

from catalog.model.linkterms import MODE_TERMS, Mode
from catalog.store import links
from tests.integration.conftest import Node
from tests.integration.federation import start_member

MODES: tuple[Mode, ...] = get_args(Mode)
URL, TOPIC = "http://127.0.0.1:9", "kafka://127.0.0.1:9/copies"
GIVEN: dict[str, Any] = {
    "source": URL,
    "target": URL,
    "authority": "urn:other",
    "authorities": ["urn:another"],
    "scope": ["/messagegroups/g"],
    "types": ["messagegroups"],
    "labels": ["team"],
    "prefix": "eu-",
    "map": {"messagegroups/a": "messagegroups/b"},
    "addresses": {"amqp://a:5672": "amqp://b:5673"},
    "trust": ["first"],
    "eventtopic": TOPIC,
    "dialect": "xregistry",
}


@pytest.fixture
async def node(database_url: str) -> AsyncIterator[Node]:
    async with start_member(database_url, allow_private_addresses=True) as node:
        yield node


def needed(mode: Mode) -> dict[str, Any]:
    name = MODE_TERMS[mode].needs
    return {name: TOPIC if MODE_TERMS[mode].is_topic else GIVEN[name]}


@pytest.mark.parametrize("mode", MODES)
async def test_members_that_a_mode_does_not_have_are_refused(node: Node, mode: Mode) -> None:
    for name in GIVEN.keys() - {"trust"}:
        body = {"id": f"{mode}-{name}", "mode": mode, name: GIVEN[name]} | needed(mode)
        answer = await node.send("POST", "/replication/links?force", body)
        is_one = MODE_TERMS[mode].has(name)
        assert answer.status == (201 if is_one else 400), (name, answer.body)
        if not is_one:
            assert f'"{mode}"'.encode() in answer.body.replace(b'\\"', b'"')
        else:
            assert (await node.send("DELETE", f"/replication/links/{mode}-{name}")).status == 200


@pytest.mark.parametrize("mode", MODES)
async def test_a_link_without_what_its_mode_needs_is_refused(node: Node, mode: Mode) -> None:
    answer = await node.send("POST", "/replication/links?force", {"mode": mode})
    assert answer.status == 400
    assert MODE_TERMS[mode].needs.encode() in answer.body


@pytest.mark.parametrize("mode", MODES)
async def test_rows_of_an_older_version_keep_what_their_mode_has(node: Node, mode: Mode) -> None:
    pairs = ["messagegroups/a=messagegroups/b"]
    older = {**GIVEN, "mode": mode, "map": None, "names": pairs, "addresses": []}
    del older["map"], older["authority"]
    migration = (files("catalog.store") / "migrations" / "0022_linkmembers.sql").read_text()
    async with node.database.transaction() as connection:
        await connection.execute(
            "INSERT INTO links (id, definition, authority) VALUES ('l', $1::jsonb, 'urn:other')",
            orjson.dumps(older).decode(),
        )
        await connection.execute(migration)
        link = await links.get(connection, "l")
        kept = orjson.loads(await connection.fetchval("SELECT definition::text FROM links"))
    assert link is not None
    terms = MODE_TERMS[mode]
    members = {n for n in GIVEN if terms.has(n)} - {"authority"} | {"mode"}
    # Walks had no dialect when rows were migrated.
    assert kept.keys() == members - ({"dialect"} if mode == "walk" else set())
    assert link.definition.peer == (URL if terms.needs != "authority" else "")
    assert link.definition.map == (tuple(pairs) if terms.has("map") else ())
