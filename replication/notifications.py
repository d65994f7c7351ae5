"""Lets a source wake a link by its events, which are hints: the feed says what happened."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from aiohttp import web

from catalog.context import CONTEXT, Context
from catalog.http.body import read_body
from catalog.model.errors import XRegistryError
from catalog.model.ownerrors import CONCORD
from catalog.store import links
from catalog.store.links import Link
from replication.pull import Flow
from replication.remote import Missing, Rejected, Remote

HINT_SECONDS = 1
"""How much time a source leaves between two events that wake the same link."""


class LinkGone(XRegistryError):
    """Whoever sends events for a link that is no more is to stop."""

    name = "link_gone"
    status = 410
    home = CONCORD
    template = 'No link "<id>" of this node waits for events.'


async def post_notification(request: web.Request) -> web.Response:
    """`POST /notifications?link=ID`: look at the link's source now.

    What the event says is not read. For a link that is no more, 410 ends the subscription.
    """
    context, id = request.app[CONTEXT], request.query.get("link", "")
    await read_body(request)
    async with context.database.pool.acquire(timeout=30) as connection:
        link = await links.get(connection, id)
        if link is None or link.definition.mode != "events":
            raise LinkGone(request.path, id=id)
        await links.wake(connection, id)
    return web.Response(status=204)


async def grant_notifications(request: web.Request) -> web.Response:
    """`OPTIONS /notifications`: any catalog may wake a link (http-webhook.md 4.2)."""
    origin = request.headers.get("WebHook-Request-Origin", "*")
    return web.Response(
        headers={
            "Allow": "POST,OPTIONS",
            "WebHook-Allowed-Origin": origin,
            "WebHook-Allowed-Rate": "*",
        }
    )


async def ensure_subscription(flow: Flow, known: str | None) -> str:
    """See to it that the source has an active subscription that wakes this link.

    Args:
        flow: the link and its source.
        known: the subscription that there was, if any.

    Returns:
        the id of the subscription, which is saved with the link.

    Raises:
        RemoteError
    """
    context, link, remote = flow.context, flow.link, flow.remote
    if known is not None:
        if await _is_alive(remote, known, sink_of(context, link)):
            return known
        await forget_subscription(remote, known)
    created = await _subscribe(remote, _subscription(context, link))
    if not isinstance(created, dict) or not isinstance(created.get("id"), str):
        raise Rejected(f"{remote.url} did not say which subscription it created.")
    id: str = created["id"]
    async with context.database.pool.acquire(timeout=30) as connection:
        await links.save_subscription(connection, link, id)
    return id


async def forget_subscription(remote: Remote, id: str) -> None:
    """Remove a subscription at the source, if it is there.

    Raises:
        RemoteError
    """
    try:
        await remote.json("DELETE", f"/subscriptions/{quote(id, safe='')}")
    except Missing:
        return


def sink_of(context: Context, link: Link) -> str:
    """Where a source tells this node that a link has something to bring."""
    return f"{context.public_base}/notifications?link={quote(link.id, safe='')}"


async def _is_alive(remote: Remote, id: str, sink: str) -> bool:
    try:
        found = await remote.json("GET", f"/subscriptions/{quote(id, safe='')}")
    except Missing:
        return False
    if not isinstance(found, dict) or found.get("sink") != sink:
        return False
    status = found.get("status")
    return not isinstance(status, dict) or status.get("state") != "ended"


async def _subscribe(remote: Remote, wanted: dict[str, Any]) -> Any:
    """A link that is awake needs no further event: it asks for few where the source knows how."""
    try:
        return await remote.json(
            "POST", "/subscriptions", {**wanted, "config": {"interval": HINT_SECONDS}}
        )
    except Rejected:
        return await remote.json("POST", "/subscriptions", wanted)


def _subscription(context: Context, link: Link) -> dict[str, Any]:
    """Events about this node's own entities, which a ring brings back, wake nobody."""
    return {
        "sink": sink_of(context, link),
        "protocol": "HTTP",
        "filters": [
            {"prefix": {"type": "io.xregistry."}},
            {"not": {"exact": {"authority": context.database.node.authority}}},
        ],
    }
