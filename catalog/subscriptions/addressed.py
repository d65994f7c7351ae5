"""The subscription that a request addresses: the lock, the conditions and the answer.

The entity tag of a subscription stands for the definition and for the commands on the
subscription, not for the progress of the delivery: a client can change a subscription after
reading it, even while events are delivered.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from aiohttp import web

from catalog.access.creatorrights import creator_of
from catalog.access.identity import demand, identity_of
from catalog.context import CONTEXT
from catalog.http.conditions import check_tag
from catalog.http.route import model_response
from catalog.model.errors import NotFound
from catalog.model.roles import Permission
from catalog.operations.subscriptions import State
from catalog.store.database import Connection
from catalog.store.logpositions import LogName
from catalog.subscriptions.shown import subscription_answer
from catalog.subscriptions.stored.deadletters import count_dead_letters
from catalog.subscriptions.stored.subscriptioncommands import lock_subscription
from catalog.subscriptions.stored.subscriptions import Subscription, get

OVER: frozenset[State] = frozenset({"ended", "expired", "suspended"})
"""The states of subscriptions that no longer deliver."""


async def lock_addressed(request: web.Request, connection: Connection) -> Subscription:
    """Lock the subscription of a write, and check the conditions of the request.

    Raises:
        NotFound
        Unauthenticated, Forbidden: as `demand_log`.
        PreconditionFailed
    """
    id = request.match_info["id"]
    # Read after the lock, so that the conditions are checked on the row that the write changes.
    found = await get(connection, id) if await lock_subscription(connection, id) else None
    # A hidden subscription looks missing: the answer must not reveal the existence.
    if found is None or not _may_address(request, found):
        raise NotFound(request.path)
    demand_log(request, found.log)
    check_tag(request, _tag_of(found), path_of(found))
    return found


def path_of(subscription: Subscription) -> str:
    """The path of a subscription, which errors name even if a command was sent below the path."""
    return f"/subscriptions/{subscription.id}"


async def read_addressed(request: web.Request, connection: Connection) -> Subscription:
    """The subscription of a read.

    Raises:
        NotFound
        Unauthenticated, Forbidden: as `demand_log`.
    """
    found = await get(connection, request.match_info["id"])
    if found is None or not _may_address(request, found):
        raise NotFound(request.path)
    demand_log(request, found.log)
    return found


def only_of(request: web.Request) -> str | None:
    """The principal whose subscriptions alone the caller may know; `None` without a restriction.

    Callers with the permission to manage subscriptions in the whole catalog are not restricted.
    """
    if Permission.SUBSCRIBE in identity_of(request).permissions:
        return None
    creator = creator_of(request)
    return None if creator is None else creator.principal


def _may_address(request: web.Request, found: Subscription) -> bool:
    principal = only_of(request)
    return principal is None or principal == found.createdby


def demand_log(request: web.Request, log: LogName) -> None:
    """Refuse a caller that may not read the log of a subscription.

    Raises:
        Unauthenticated, Forbidden
    """
    if log == "audit":
        demand(request, Permission.ADMINISTER)


async def answer_read(
    connection: Connection,
    subscription: Subscription,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """Answer with a subscription and its tag."""
    counts = await count_dead_letters(connection, [subscription.id])
    shown = subscription_answer(subscription, counts[subscription.id])
    tagged = {"ETag": _tag_of(subscription), **(headers or {})}
    return model_response(shown, status=status, headers=tagged)


async def answer_write(
    connection: Connection,
    subscription: Subscription,
    *,
    done: int = 200,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """Answer a write with the subscription and its tag.

    Args:
        done: the status; 202 replaces the status if the sink has yet to agree.
    """
    status = 202 if subscription.state == "pending" else done
    return await answer_read(connection, subscription, status=status, headers=headers)


def next_page(request: web.Request, limit: int, after: object) -> dict[str, str]:
    """The header with the URL of the page after `after`."""
    here = f"{request[CONTEXT].base_url(request)}{request.rel_url.raw_path}"
    return {"Link": f"<{here}?limit={limit}&after={quote(str(after))}>;rel=next"}


def _tag_of(subscription: Subscription) -> str:
    return f'"{subscription.revision}"'
