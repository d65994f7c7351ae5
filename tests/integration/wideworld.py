"""A federation of many catalogs for pages: their cards, their links and a node that knows them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from catalog.operations.authoritycards import Card
from catalog.operations.federation import SharedLink
from replication.store import linkstates, peerauthorities
from replication.store.peerauthorities import PeerAuthority
from tests.integration.conftest import Node

REGIONS = ("eu-central", "eu-north", "us-east", "us-west", "ap-south", "ap-east", "sa-east")
_TEAMS = ("Orders", "Billing", "Weather", "Grid", "Transit", "Claims", "Ledger", "Stock", "Fleet")
_OTHER: dict[str, Any] = {"direction": "in", "mode": "events", "lag": 0.0, "conflicts": 0}


async def fill(node: Node, authorities: int, links: int) -> list[str]:
    """Let a node know authorities with links among them; returns the authorities.

    A tenth of the links has a fault: it fails, is late, is paused or has conflicts.
    """
    random, now = Random(7), datetime.now(UTC)
    named = [f"https://team{number}.example" for number in range(authorities)]
    own = node.context.database.node.authority
    pairs: set[tuple[str, str]] = set()
    while len(pairs) < links:
        source, target = random.sample([own, *named], 2)
        pairs.add((source, target))
    told: dict[str, list[dict[str, Any]]] = {name: [] for name in named}
    for source, target in sorted(pairs):
        if target == own:
            await _follow(node, source)
        else:
            told[target].append({"authority": source, **_state(random)})
    async with node.database.acquire() as connection:
        await peerauthorities.save(
            connection,
            [
                PeerAuthority(
                    authority=name,
                    card=_card(number),
                    cardat=now,
                    links=[SharedLink.model_validate(each) for each in told[name]],
                    readat=now - timedelta(seconds=40),
                    triedat=now,
                )
                for number, name in enumerate(named)
            ],
        )
    return named


def _card(number: int) -> Card:
    region = REGIONS[number % len(REGIONS)]
    name = f"{_TEAMS[number % len(_TEAMS)]} {region.upper()}"
    return Card(name=name, region=region, contact=f"#{name.split()[0].lower()}")


def _state(random: Random) -> dict[str, Any]:
    faults: list[dict[str, Any]] = [
        {"state": "waiting", "failures": 4, "lag": 900.0},
        {"state": "behind", "lag": 190.0},
        {"state": "paused", "lag": 7200.0},
        {"state": "current", "conflicts": 2},
    ]
    if random.random() < 0.1:
        return {**_OTHER, **random.choice(faults)}
    return {**_OTHER, "state": "current"}


async def _follow(node: Node, authority: str) -> None:
    link = {"source": "http://127.0.0.1:9", "mode": "pull", "authority": authority}
    made = await node.send("POST", "/replication/links?force", link)
    assert made.status == 201, made.body
    async with node.database.acquire() as connection:
        await connection.execute(
            "UPDATE links SET state = 'current', currentat = now() WHERE id = $1", made.json["id"]
        )


async def draw_figures(node: Node, link: str) -> None:
    """Give a link the figures of a day: quiet, then a load, then a source that is away."""
    async with node.database.acquire() as connection:
        await linkstates.note_figures(connection)
        await connection.execute(
            """INSERT INTO link_figures (link, step, at, lag, copies, errors)
            SELECT $1, 60, now() - minute * interval '1 minute',
                CASE WHEN minute BETWEEN 300 AND 340 THEN (341 - minute) * 60
                    WHEN minute % 97 < 4 THEN 300 ELSE 0 END,
                sum(CASE WHEN minute BETWEEN 300 AND 340 THEN 0
                    ELSE 20 + 200 * abs(sin(minute / 90.0)) END) OVER (ORDER BY minute DESC),
                sum(CASE WHEN minute BETWEEN 300 AND 340 THEN 1 ELSE 0 END)
                    OVER (ORDER BY minute DESC)
            FROM generate_series(1, 1439) AS minute ON CONFLICT DO NOTHING""",
            link,
        )
        await connection.execute(
            "UPDATE links SET applied = (SELECT max(copies) FROM link_figures WHERE link = $1) "
            "WHERE id = $1",
            link,
        )
