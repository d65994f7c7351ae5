"""The routes of replication."""

from __future__ import annotations

from aiohttp import web

from replication import digests, feed, handshake, links, notifications

routes: list[web.RouteDef] = [
    web.get("/replication", handshake.get_handshake),
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
    web.post("/replication/links/{id}/pin", links.pin_link),
    web.post("/replication/links/{id}/reset", links.reset_link),
    web.get("/replication/links/{id}/conflicts", links.list_conflicts),
    web.post("/notifications", notifications.post_notification),
    web.options("/notifications", notifications.grant_notifications),
]
