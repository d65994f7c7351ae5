"""The events that wake a link: posted by the source, or read from a topic."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import structlog
from aiohttp import web

from catalog.client import BadAnswer, Client, ClientError, JsonObject, Refused
from catalog.context import CONTEXT, Context
from catalog.http.body import read_body
from catalog.http.route import Route
from catalog.model.concorderrors import CONCORD
from catalog.model.errors import XRegistryError
from catalog.model.masking import masked_url
from catalog.operations.feed import GRANT_NOTIFICATIONS, NOTIFY, NotificationQuery
from catalog.settings import Settings
from catalog.store import links
from catalog.store.links import Link
from replication.peers.linkerrors import may_pass
from replication.transfer.linkrun import LinkRun
from replication.transfer.topicrecords import TopicLost, TopicUnusable, open_topic

_log = structlog.get_logger(__name__)

HINT_SECONDS = 1
"""The shortest time in seconds between two events of a source for a link."""
_WAIT_SECONDS = 30.0
_PAUSE_SECONDS = 5.0


class LinkGone(XRegistryError):
    """The id is not the id of a link that follows by events: the sender has to stop."""

    name = "link_gone"
    status = 410
    home = CONCORD
    template = 'No link "<id>" of this node waits for events.'


async def post_notification(request: web.Request, query: NotificationQuery) -> None:
    """Wake a link.

    The content of the event is not read. If the link does not exist, 410 ends the subscription.
    """
    context, id = request[CONTEXT], query.link
    await read_body(request)
    async with context.database.acquire() as connection:
        link = await links.get(connection, id)
        if link is None or link.definition.mode != "events":
            raise LinkGone(request.path, id=id)
        await links.wake(connection, id)


async def grant_notifications(request: web.Request) -> web.Response:
    """Let any catalog wake a link that follows by events.

    Without such a link, consent is not given (http-webhook.md 4.2): a stranger cannot direct events
    to this node that no link has requested.
    """
    headers = {"Allow": "POST,OPTIONS"}
    context, id = request[CONTEXT], request.query.get("link", "")
    async with context.database.acquire() as connection:
        link = await links.get(connection, id)
    if link is not None and link.definition.mode == "events":
        headers |= {"WebHook-Allowed-Origin": "*", "WebHook-Allowed-Rate": "*"}
    return web.Response(headers=headers)


async def ensure_subscription(run: LinkRun, subscription: str | None) -> str:
    """Ensure that the source has an active subscription for this link, and save its id.

    `subscription` is the id of the former subscription, if any.
    """
    context, link, peer = run.context, run.link, run.peer
    wanted = _definition(context, link)
    if subscription is not None:
        if await _is_active(peer, subscription, wanted["sink"]):
            return subscription
        await forget_subscription(peer, subscription)
    created = (await _subscribe(peer, wanted)).get("id")
    if not isinstance(created, str):
        raise BadAnswer(f"{peer.url}/subscriptions", "a subscription without an id")
    async with context.database.acquire() as connection:
        await links.save_subscription(connection, link, created)
    return created


async def forget_subscription(peer: Client, id: str) -> None:
    """Remove a subscription at the source, if it exists."""
    try:
        await peer.request("DELETE", _path_of(id))
    except Refused as error:
        if error.problem.status != HTTPStatus.NOT_FOUND:
            raise


async def _is_active(peer: Client, id: str, sink: str) -> bool:
    try:
        found = await peer.get(_path_of(id))
    except Refused as error:
        if error.problem.status != HTTPStatus.NOT_FOUND:
            raise
        return False
    status = found.get("status")
    has_ended = isinstance(status, dict) and status.get("state") == "ended"
    # A Concord node masks values in the URL with stars.
    return found.get("sink") in (sink, masked_url(sink)) and not has_ended


def _path_of(id: str) -> str:
    return f"/subscriptions/{quote(id, safe='')}"


async def _subscribe(peer: Client, definition: Mapping[str, Any]) -> JsonObject:
    """Subscribe with few events, since an awake link needs none; not every source supports that."""
    try:
        return await peer.post(
            "/subscriptions", {**definition, "config": {"interval": HINT_SECONDS}}
        )
    except ClientError as error:
        if may_pass(error):
            raise
        return await peer.post("/subscriptions", definition)


def _definition(context: Context, link: Link) -> JsonObject:
    """A subscription to all events, except events about this node's entities in a ring of links."""
    topic = link.definition.eventtopic
    return {
        "sink": topic or f"{context.public_base}/notifications?link={quote(link.id, safe='')}",
        "protocol": "KAFKA" if topic else "HTTP",
        "filters": [
            {"prefix": {"type": "io.xregistry."}},
            {"not": {"exact": {"authority": context.database.node.authority}}},
        ],
    }


routes: Sequence[Route] = (
    Route(NOTIFY, post_notification),
    Route(GRANT_NOTIFICATIONS, grant_notifications),
)


async def wake_by_topic(topic: str, run: LinkRun) -> None:
    """Wake a link at the events in a topic, for ever.

    The events are hints. If the topic cannot be read, the link still reads the feed periodically.
    """
    told = ""
    while True:
        try:
            await _wake_at_events(topic, run.settings, run.wakeup)
        except (TopicUnusable, TopicLost) as error:
            if error.message != told:
                told = error.message
                _log.warning("no events from the topic", link=run.link.id, cause=told)
        except Exception:
            _log.exception("listening to a topic failed", link=run.link.id)
        await asyncio.sleep(_PAUSE_SECONDS)


async def _wake_at_events(url: str, settings: Settings, wakeup: asyncio.Event) -> None:
    """Set `wakeup` at each new record, whatever its content, and once at first."""
    async with open_topic(url, settings) as topic:
        partitions = await topic.partitions()
        if not partitions:
            raise TopicUnusable("There is no topic of this name.")
        bounds = await topic.bounds(partitions)
        topic.seek(dict(enumerate(bounds.ends)))
        # Events from before the connection were missed.
        wakeup.set()
        while True:
            if await topic.read(_WAIT_SECONDS):
                wakeup.set()
