"""The keys that sign deliveries: made with a subscription, exchanged and ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import cast

from aiohttp import web

from catalog.context import CONTEXT, Context
from catalog.http.route import model_response
from catalog.model.concorderrors import UnresolvedConflict
from catalog.model.errors import NotFound
from catalog.model.sinkterms import SignatureScheme, SigningKey, origin_of
from catalog.operations.subscriptions import KeyExchange
from catalog.store.database import Connection
from catalog.store.signingkeys import end_keys, remove_key, remove_keys, save_key
from catalog.subscriptions.answers import key_answers, lock_addressed
from catalog.subscriptions.sinks.webhooksignature import make_key, public_key
from catalog.subscriptions.stored.subscriptions import (
    Subscription,
    SubscriptionDefinition,
    get,
    wake,
)

_MOST_KEYS = 2


async def ensure_keys(
    connection: Connection,
    context: Context,
    id: str,
    definition: SubscriptionDefinition,
    former: SubscriptionDefinition | None = None,
) -> tuple[SigningKey, ...]:
    """Make the key that a definition asks for, and return it; the caller writes the subscription.

    Existing keys stay while the signature scheme and the origin of the sink stay the same as in
    the `former` definition: each key is known to one receiver only.
    """
    scheme = _scheme_of(definition)
    if former is not None:
        if scheme == _scheme_of(former) and (
            scheme is None or origin_of(former.sink) == origin_of(definition.sink)
        ):
            return ()
        await remove_keys(connection, id)
    if scheme is None:
        return ()
    return (await _add_key(connection, context, id, scheme),)


async def add_signing_key(request: web.Request, wanted: KeyExchange) -> web.Response:
    """Make a key that signs beside the old one, until the old one's end.

    The answer has the new key, and is the only answer with the secret.
    """
    context, overlap = request[CONTEXT], wanted.overlapseconds
    async with context.database.transaction() as connection:
        subscription = await _lock_signed(request, connection)
        if overlap and len(subscription.storedkeys) >= _MOST_KEYS:
            fault = (
                f"it has {_MOST_KEYS} keys in use already; end the older one, "
                'or both with "overlapseconds": 0'
            )
            raise UnresolvedConflict(request.path, error_detail=fault)
        now = datetime.now(UTC)
        await end_keys(connection, subscription.id, now + timedelta(seconds=overlap), now=now)
        scheme = subscription.storedkeys[0].scheme
        made = await _add_key(connection, context, subscription.id, scheme)
        await wake(connection, subscription.id)
        found = await get(connection, subscription.id)
    assert found is not None, "it is locked"
    keys = key_answers(replace(found, newkeys=(made,)))
    shown = next(each for each in keys if each.id == made.id)
    base = f"{context.base_url(request)}{subscription.path}/signingkeys"
    return model_response(shown, status=201, headers={"Location": f"{base}/{made.id}"})


async def end_signing_key(request: web.Request) -> None:
    """Let an old key sign no more."""
    async with request[CONTEXT].database.transaction() as connection:
        subscription = await _lock_signed(request, connection)
        key = request.match_info["key"]
        ids = [each.id for each in subscription.storedkeys]
        if key not in ids:
            raise NotFound(request.path)
        # Without it, requests would be unsigned, and receivers that verify would refuse them.
        if key == ids[0]:
            fault = "it is the current key; make a new one before, by POST"
            raise UnresolvedConflict(request.path, error_detail=fault)
        await remove_key(connection, subscription.id, key)
        await wake(connection, subscription.id)


async def _lock_signed(request: web.Request, connection: Connection) -> Subscription:
    found = await lock_addressed(request, connection)
    if not found.storedkeys:
        fault = 'its deliveries are not signed; "protocolsettings.signature" asks for that'
        raise UnresolvedConflict(request.path, error_detail=fault)
    return found


async def _add_key(
    connection: Connection, context: Context, id: str, scheme: SignatureScheme
) -> SigningKey:
    key = make_key(scheme, datetime.now(UTC))
    await save_key(connection, context.keys, id, key, public_key(key))
    return key


def _scheme_of(definition: SubscriptionDefinition) -> SignatureScheme | None:
    scheme = definition.settings.get("signature", "none")
    return None if scheme == "none" else cast("SignatureScheme", scheme)
