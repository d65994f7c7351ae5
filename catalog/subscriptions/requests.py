"""The CloudEvents Subscriptions API (subscriptions-spec.md 3.2.5, subscriptions-openapi.yaml)."""

from __future__ import annotations

import uuid
from dataclasses import replace as with_fields
from datetime import UTC, datetime

from aiohttp import web

from catalog.access.creatorrights import creator_of
from catalog.audit.auditlog import AUDIT_SOURCE
from catalog.context import CONTEXT, Context
from catalog.http.body import read_body
from catalog.http.flags import page_limit
from catalog.http.outboundaddress import why_endpoint_refused, why_refused
from catalog.http.route import model_response
from catalog.keys.keyring import SecretUnreadable
from catalog.model.concorderrors import LimitExceeded, LimitReached
from catalog.model.errors import InvalidAttribute
from catalog.model.sinkcredential import SinkCredential, TokenCredential
from catalog.model.tokenlifetime import REFRESH_SECONDS, refresh_time
from catalog.operations.operation import PageQuery
from catalog.operations.subscriptions import NewSubscription, SubscriptionAnswers
from catalog.store.database import Connection
from catalog.subscriptions.addressed import (
    OVER,
    answer_read,
    answer_write,
    demand_log,
    lock_addressed,
    next_page,
    only_of,
    read_addressed,
)
from catalog.subscriptions.consents import first_state
from catalog.subscriptions.definitions import (
    credential_in,
    definition_of,
    keeps_credential,
    unmasked,
)
from catalog.subscriptions.delivery.filters import count_conditions
from catalog.subscriptions.shown import subscription_answer
from catalog.subscriptions.signingkeys import ensure_keys
from catalog.subscriptions.sinks.protocols import PROTOCOLS
from catalog.subscriptions.stored.deadletters import count_dead_letters
from catalog.subscriptions.stored.sinkcredentials import (
    load_credentials,
    open_credential,
    remove_credential,
    save_credential,
)
from catalog.subscriptions.stored.subscriptions import (
    SUBSCRIPTION_SOURCE,
    Heir,
    Subscription,
    SubscriptionDefinition,
    count,
    create,
    delete,
    log_of,
    page,
    replace,
)

# Larger definitions take too much memory; more conditions take too much time for each event.
_MOST_BYTES = 16 * 1024
_MOST_CONDITIONS = 1000


async def list_subscriptions(request: web.Request, query: PageQuery) -> web.Response:
    """List the subscriptions in pages."""
    limit = page_limit(request, query.limit)
    async with request[CONTEXT].database.acquire() as connection:
        found = await page(connection, query.after, limit + 1, createdby=only_of(request))
        counts = await count_dead_letters(connection, [each.id for each in found])
    shown = [subscription_answer(each, counts[each.id]) for each in found[:limit]]
    headers = next_page(request, limit, shown[-1].id) if len(found) > limit else {}
    return model_response(SubscriptionAnswers(shown), headers=headers)


async def create_subscription(request: web.Request, wanted: NewSubscription) -> web.Response:
    """Create a subscription, which receives changes from now on.

    The status is 202 if the sink has yet to agree.
    """
    context = request[CONTEXT]
    definition = unmasked(await _read_definition(request, wanted), None, request.path)
    async with context.database.transaction() as connection:
        await _check_count(request, connection)
        id, credential = str(uuid.uuid4()), credential_in(wanted)
        made = await ensure_keys(connection, context, id, definition)
        state, reason = await first_state(connection, context.settings, id, definition)
        subscription = await create(
            connection, id, definition, state=state, reason=reason, creator=creator_of(request)
        )
        if credential is not None:
            keeps_credential(credential, None, request.path, is_same_sink=False)
            subscription = await _with_credential(connection, context, subscription, credential)
        subscription = with_fields(subscription, newkeys=made)
        context.caller.author.name_target(f"/subscriptions/{id}")
        return await answer_write(
            connection,
            subscription,
            done=201,
            headers={"Location": f"{context.base_url(request)}/subscriptions/{subscription.id}"},
        )


async def _check_count(request: web.Request, connection: Connection) -> None:
    """Refuse a subscription beyond the limit of the node or of the caller.

    Raises:
        LimitReached
    """
    settings, creator = request[CONTEXT].settings, creator_of(request)
    kept, own = await count(connection, None if creator is None else creator.principal)
    of_one, most = "subscriptions of one caller", settings.subscriptions_per_client
    for number, limit, things, setting in (
        (kept, settings.max_subscriptions, "subscriptions", "CONCORD_MAX_SUBSCRIPTIONS"),
        (own, most, of_one, "CONCORD_SUBSCRIPTIONS_PER_CLIENT"),
    ):
        if number >= limit:
            raise LimitReached(request.path, limit=str(limit), things=things, setting=setting)


async def get_subscription(request: web.Request) -> web.Response:
    """Show a subscription."""
    async with request[CONTEXT].database.acquire() as connection:
        found = await read_addressed(request, connection)
        return await answer_read(connection, found)


async def replace_subscription(request: web.Request, wanted: NewSubscription) -> web.Response:
    """Replace the whole of a subscription, its credential included.

    A credential is removed if the client does not give the credential again, so that no sink
    receives a credential meant for a different sink. Masked values, credentials included, may be
    given back as shown. The cursor stays; an ended subscription becomes active again. An unchanged
    definition changes nothing. The status is 202 if the sink has yet to agree.
    """
    context = request[CONTEXT]
    given = await _read_definition(request, wanted)
    async with context.database.transaction() as connection:
        stored = await lock_addressed(request, connection)
        definition = unmasked(given, stored.definition, request.path)
        credential = credential_in(wanted)
        is_same_sink = definition.sink == stored.definition.sink
        keeps = keeps_credential(credential, stored.stored, request.path, is_same_sink=is_same_sink)
        opened = _opened(context, stored)
        # A credential that cannot be decrypted may be of a different sink: only "****" keeps it.
        is_unreadable = opened is None and stored.stored is not None
        keeps = keeps or (credential == opened and not is_unreadable)
        heir = _heir(request, stored)
        if heir is None and _is_the_same(stored, definition, keeps_credential=keeps):
            return await answer_write(connection, stored)
        made = await ensure_keys(connection, context, stored.id, definition, stored.definition)
        state, reason = await first_state(connection, context.settings, stored.id, definition)
        subscription = await replace(
            connection, stored.id, definition, state=state, reason=reason, heir=heir
        )
        assert subscription is not None, "it is locked"
        if not keeps:
            subscription = await _with_credential(connection, context, subscription, credential)
        return await answer_write(connection, with_fields(subscription, newkeys=made))


async def delete_subscription(request: web.Request) -> web.Response:
    """Delete a subscription, and answer with it."""
    async with request[CONTEXT].database.transaction() as connection:
        stored = await lock_addressed(request, connection)
        answer = await answer_read(connection, stored)
        await delete(connection, stored.id)
    return answer


def _heir(request: web.Request, stored: Subscription) -> Heir | None:
    """The new owner of a subscription that the caller replaces; `None` to keep the owner.

    The claims of the creator may have changed. Further callers take over only a suspended
    subscription.
    """
    creator = creator_of(request)
    is_own = creator is not None and creator.principal == stored.createdby
    changes_hands = str(creator) != str(stored.creator) if is_own else stored.state == "suspended"
    return Heir(creator) if changes_hands else None


def _opened(context: Context, subscription: Subscription) -> SinkCredential | None:
    """The stored credential; `None` if missing or impossible to decrypt."""
    if subscription.stored is None:
        return None
    try:
        return open_credential(context.keys, subscription.stored)
    except SecretUnreadable:
        return None


def _is_the_same(
    stored: Subscription, definition: SubscriptionDefinition, *, keeps_credential: bool
) -> bool:
    """Whether a replacement would change neither the definition, the credential nor the state."""
    is_over = stored.state in OVER or stored.lostat is not None
    return keeps_credential and not is_over and definition == stored.definition


async def _read_definition(request: web.Request, wanted: NewSubscription) -> SubscriptionDefinition:
    """The definition that a client gives, if the node and the caller's rights permit it."""
    context, settings = request[CONTEXT], request[CONTEXT].settings
    filters = [wanted.filter, wanted.filters]
    for number, most, things in (
        (len(await read_body(request)), _MOST_BYTES, "bytes"),
        (count_conditions(filters), _MOST_CONDITIONS, "expressions and attributes"),
    ):
        if number > most:
            raise LimitExceeded(request.path, limit=str(most), things=things, setting="fixed")
    definition = definition_of(wanted, request.path)
    base = context.public_base
    roots = [each.root for each in context.event_dialects]
    sources = [base, *(f"{base}{root}" for root in (*roots, SUBSCRIPTION_SOURCE, AUDIT_SOURCE))]
    if wanted.source is not None and wanted.source not in sources:
        fault = f"the only sources of events here are {' and '.join(sources)}"
        raise InvalidAttribute(request.path, name="source", error_detail=fault)
    demand_log(request, log_of(definition))
    protocol = PROTOCOLS[wanted.protocol]
    refusal = why_refused(
        wanted.sink,
        settings,
        schemes=protocol.schemes[wanted.protocol],
        most_hosts=protocol.most_hosts,
    )
    if refusal is not None:
        raise InvalidAttribute(request.path, name="sink", error_detail=refusal)
    credential = credential_in(wanted)
    refresh = credential.refresh if isinstance(credential, TokenCredential) else None
    refusal = None if refresh is None else why_endpoint_refused(refresh.endpoint, settings)
    if refusal is not None:
        name = "sinkcredential.refreshtokenendpoint"
        raise InvalidAttribute(request.path, name=name, error_detail=refusal)
    return definition


async def _with_credential(
    connection: Connection,
    context: Context,
    subscription: Subscription,
    credential: SinkCredential | None,
) -> Subscription:
    """A subscription with its new credential."""
    id = subscription.id
    if credential is None:
        await remove_credential(connection, id)
    else:
        refreshat = _refresh_time(credential)
        await save_credential(connection, context.keys, id, credential, refreshat=refreshat)
    stored = await load_credentials(connection, [id])
    return with_fields(subscription, stored=stored.get(id))


def _refresh_time(credential: SinkCredential) -> datetime | None:
    if not isinstance(credential, TokenCredential) or credential.refresh is None:
        return None
    assert credential.expiresat is not None
    return refresh_time(credential.expiresat, datetime.now(UTC), lead_seconds=REFRESH_SECONDS)
