"""What replication offers over HTTP: who this node is, and all routes under /replication."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.responses import json_response
from catalog.model.digest import DIGEST_VERSION
from catalog.store.changes import read_head
from catalog.store.digests import count_entities
from replication import digests, feed, links, notifications

_OFFERS = ("changes", "snapshot", "digests", "repair")


async def get_handshake(request: web.Request) -> web.Response:
    """`GET /replication`: who is here, and what the log holds; `?count` how many entities."""
    database = request.app[CONTEXT].database
    counted: dict[str, int] = {}
    async with database.pool.acquire(timeout=30) as connection:
        head = await read_head(connection)
        if "count" in request.query:
            counted["entities"] = await count_entities(connection)
    return json_response(
        {
            "instance": str(database.node.instance),
            "authority": database.node.authority,
            "base": request.app[CONTEXT].public_base,
            "software": f"concord/{_version()}",
            "digestversion": DIGEST_VERSION,
            "log": {
                "dropped": str(head.dropped),
                "now": str(head.now),
            },
            "offers": _OFFERS,
            **counted,
        }
    )


def _version() -> str:
    try:
        return version("concord")
    except PackageNotFoundError:
        return "0"


routes: list[web.RouteDef] = [
    web.get("/replication", get_handshake),
    web.get("/replication/changes", feed.get_changes),
    web.get("/replication/snapshot", feed.get_snapshot),
    web.get("/replication/digests", digests.get_digests),
    web.post("/replication/fetch", feed.post_fetch),
    web.post("/replication/repair", links.post_repair),
    web.get("/replication/links", links.list_links),
    web.post("/replication/links", links.create_link),
    web.get("/replication/links/{id}", links.get_link),
    web.put("/replication/links/{id}", links.replace_link),
    web.delete("/replication/links/{id}", links.delete_link),
    web.get("/replication/links/{id}/conflicts", links.list_conflicts),
    web.post("/notifications", notifications.post_notification),
    web.options("/notifications", notifications.grant_notifications),
]
