"""The CloudEvents Subscriptions API (subscriptions-spec.md 3.2.5, subscriptions-openapi.yaml).

Answers mask secrets; a client may send masked values back to keep the stored values.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace as with_fields
from datetime import UTC, datetime
from urllib.parse import urlsplit

from aiohttp import web

from catalog.access.creatorrights import creator_of
from catalog.audit.auditlog import AUDIT_SOURCE
from catalog.context import CONTEXT, Context
from catalog.http.allowedaddresses import split_hosts, why_endpoint_refused, why_refused
from catalog.http.body import read_body
from catalog.http.flags import next_page, page_limit
from catalog.http.route import Route, checked, model_response
from catalog.keys.keyring import SecretUnreadable
from catalog.model.concorderrors import LimitExceeded, LimitReached
from catalog.model.credentials import (
    REFRESH_SECONDS,
    SinkCredential,
    TokenCredential,
    refresh_time,
    secrets_of,
)
from catalog.model.errors import InvalidAttribute
from catalog.model.masking import MASK, is_masked, unmasked_url
from catalog.operations import deliveries, subscriptions
from catalog.operations.subscriptions import (
    NewSubscription,
    NewSubscriptionQuery,
    SubscriptionAnswers,
    SubscriptionsQuery,
)
from catalog.store.changes import check_position
from catalog.store.database import Connection
from catalog.subscriptions import deliverycontrol
from catalog.subscriptions.answers import (
    OVER,
    answer_read,
    answer_write,
    demand_log,
    lock_addressed,
    only_of,
    read_addressed,
    subscription_answer,
)
from catalog.subscriptions.delivery.filters import FilterError, compile_filters, count_conditions
from catalog.subscriptions.preview import page_about, try_definition
from catalog.subscriptions.signingkeys import add_signing_key, end_signing_key, ensure_keys
from catalog.subscriptions.sinks.protocols import PROTOCOLS, why_missing
from catalog.subscriptions.stored import sinkcredentials
from catalog.subscriptions.stored import subscriptions as store
from catalog.subscriptions.stored.deadletters import count_dead_letters
from catalog.subscriptions.stored.sinkcredentials import StoredCredential
from catalog.subscriptions.stored.subscriptions import (
    SUBSCRIPTION_SOURCE,
    Subscription,
    SubscriptionDefinition,
)
from catalog.subscriptions.webhookconsent import first_state, post_consent, take_consent

_STARS = f"{MASK} keeps a stored value while the sink stays the same; here it stands for none"
_NONE_STORED = (
    f"{MASK} keeps a stored credential of this type while the sink stays the same; here it stands "
    "for none"
)
_CHANGED = f"{MASK} keeps the credential as shown: to change it, give the whole instead of {MASK}"


def credential_in(wanted: NewSubscription) -> SinkCredential | None:
    """The credential that a client gives."""
    return None if wanted.sinkcredential is None else wanted.sinkcredential.to_credential()


def definition_of(wanted: NewSubscription, subject: str) -> SubscriptionDefinition:
    """The definition that a client gives, with the settings of its protocol.

    Raises:
        XRegistryError: the definition is invalid; the error repeats no secret.
    """
    if wanted.config.start is not None:
        check_position(wanted.config.start, subject)
    filters = [*wanted.filters, *([] if wanted.filter is None else [wanted.filter])]
    try:
        compile_filters(filters)
    except FilterError as error:
        raise InvalidAttribute(subject, name="filters", error_detail=str(error)) from None
    _check_url(wanted.sink, subject)
    if wanted.protocol not in PROTOCOLS:
        fault = f"the protocols of this node are {', '.join(PROTOCOLS)}"
        raise InvalidAttribute(subject, name="protocol", error_detail=fault)
    return SubscriptionDefinition(
        sink=wanted.sink,
        protocol=wanted.protocol,
        source=wanted.source,
        types=tuple(wanted.types),
        filters=tuple(filters),
        settings=_settings(wanted, subject),
        config=wanted.config,
    )


def _check_url(sink: str, subject: str) -> None:
    for each in split_hosts(sink):
        try:
            urlsplit(each)
        except ValueError:
            # The message of the error repeats the URL, which may contain secrets.
            raise InvalidAttribute(subject, name="sink", error_detail="it is not a URL") from None


def _settings(wanted: NewSubscription, subject: str) -> dict[str, object]:
    """The settings, checked by the protocol together with the sink and the credential."""
    protocol, credential = PROTOCOLS[wanted.protocol], credential_in(wanted)
    if missing := why_missing(protocol):
        raise InvalidAttribute(subject, name="protocol", error_detail=missing)
    given = checked(protocol.settings, wanted.protocolsettings, subject, "protocolsettings")
    if not isinstance(credential, (*protocol.credentials, type(None))):
        fault = f"{wanted.protocol} cannot use a credential of this type"
        raise InvalidAttribute(subject, name="sinkcredential.credentialtype", error_detail=fault)
    unfit = given.why_unfit(urlsplit(split_hosts(wanted.sink)[0]), credential)
    if unfit is not None:
        name, fault = unfit
        raise InvalidAttribute(subject, name=name, error_detail=fault)
    return given.model_dump(exclude_none=True)


def unmasked(
    definition: SubscriptionDefinition, stored: SubscriptionDefinition | None, subject: str
) -> SubscriptionDefinition:
    """A definition with stored values in place of the stars that answers show.

    A stored value is kept only for the sink to which the value belongs. Otherwise a client that
    cannot read the value could have the value sent to its own sink.

    Raises:
        InvalidAttribute: stars stand where no value is stored for the sink.
    """
    masked = [
        (member, name)
        for member in PROTOCOLS[definition.protocol].masked
        for name, value in definition.settings[member].items()
        if value == MASK
    ]
    if not masked and not is_masked(definition.sink):
        return definition
    sink = None if stored is None else unmasked_url(definition.sink, stored.sink)
    if stored is None or sink is None:
        name = "sink" if is_masked(definition.sink) else f"protocolsettings.{masked[0][0]}"
        raise InvalidAttribute(subject, name=name, error_detail=_STARS)
    settings = dict(definition.settings)
    for member, name in masked:
        known = stored.settings.get(member, {})
        if name not in known:
            raise InvalidAttribute(subject, name=f"protocolsettings.{member}", error_detail=_STARS)
        settings[member] = {**settings[member], name: known[name]}
    return with_fields(definition, sink=sink, settings=settings)


def keeps_credential(
    wanted: SinkCredential | None,
    stored: StoredCredential | None,
    subject: str,
    *,
    is_same_sink: bool,
) -> bool:
    """Whether a client returns the stored credential as shown, to keep the credential.

    The credential is kept only for the sink to which it belongs: a client that does not know a
    secret cannot have the secret sent elsewhere.

    Raises:
        InvalidAttribute: stars stand where no credential is stored for the sink, or beside a value
            that would change the credential.
    """
    if wanted is None or MASK not in secrets_of(wanted):
        return False
    type, scheme, expiresat, endpoint = sinkcredentials.shown_columns(wanted)
    if stored is None or stored.type != type or not is_same_sink:
        raise InvalidAttribute(subject, name="sinkcredential", error_detail=_NONE_STORED)
    # A refresh may have changed the type and the expiry since the client read the credential.
    is_refreshed = endpoint is not None and endpoint == stored.endpoint
    known = stored.scheme, stored.expiresat, stored.endpoint
    is_as_shown = (scheme, expiresat, endpoint) == known
    if {*secrets_of(wanted)} != {MASK} or not (is_refreshed or is_as_shown):
        raise InvalidAttribute(subject, name="sinkcredential", error_detail=_CHANGED)
    return True


# Larger definitions take too much memory; more conditions take too much time for each event.
_MOST_BYTES = 16 * 1024
_MOST_CONDITIONS = 1000


async def list_subscriptions(request: web.Request, query: SubscriptionsQuery) -> web.Response:
    """List the subscriptions in pages: all, or those to changes of an entity."""
    limit, own = page_limit(request, query.limit), only_of(request)
    found = list[Subscription]()
    if query.about is not None:
        found = await page_about(request, query.about, query.after, limit + 1, createdby=own)
    async with request[CONTEXT].database.acquire() as connection:
        if query.about is None:
            found = await store.page(connection, query.after, limit + 1, createdby=own)
        counts = await count_dead_letters(connection, [each.id for each in found])
    shown = [subscription_answer(each, counts[each.id]) for each in found[:limit]]
    headers = next_page(request, limit=limit, after=shown[-1].id) if len(found) > limit else {}
    return model_response(SubscriptionAnswers(shown), headers=headers)


async def create_subscription(
    request: web.Request, wanted: NewSubscription, query: NewSubscriptionQuery
) -> web.Response:
    """Create a subscription, which receives changes from now on, or tell what it would receive.

    The status is 202 if the sink has yet to agree.
    """
    context = request[CONTEXT]
    definition = unmasked(await _read_definition(request, wanted), None, request.path)
    if query.dryrun:
        return model_response(await try_definition(request, definition))
    async with context.database.transaction() as connection:
        await _check_count(request, connection)
        id, credential = str(uuid.uuid4()), credential_in(wanted)
        made = await ensure_keys(connection, context, id, definition)
        state, reason = await first_state(connection, context.settings, id, definition)
        subscription = await store.create(
            connection, id, definition, state=state, reason=reason, creator=creator_of(request)
        )
        if credential is not None:
            keeps_credential(credential, None, request.path, is_same_sink=False)
            subscription = await _with_credential(connection, context, subscription, credential)
        subscription = with_fields(subscription, newkeys=made)
        context.caller.author.name_target(subscription.path)
        return await answer_write(
            connection,
            subscription,
            done=201,
            headers={"Location": f"{context.base_url(request)}{subscription.path}"},
        )


async def _check_count(request: web.Request, connection: Connection) -> None:
    """Raise `LimitReached` beyond the limit of the node or of the caller."""
    settings, creator = request[CONTEXT].settings, creator_of(request)
    kept, own = await store.count(connection, None if creator is None else creator.principal)
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
        is_over = stored.state in OVER or stored.lostat is not None
        if heir is None and keeps and not is_over and definition == stored.definition:
            return await answer_write(connection, stored)
        made = await ensure_keys(connection, context, stored.id, definition, stored.definition)
        state, reason = await first_state(connection, context.settings, stored.id, definition)
        subscription = await store.replace(
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
        await store.delete(connection, stored.id)
    return answer


def _heir(request: web.Request, stored: Subscription) -> store.Heir | None:
    """The new owner of a subscription that the caller replaces; `None` to keep the owner.

    The claims of the creator may have changed. Further callers take over only a suspended
    subscription.
    """
    creator = creator_of(request)
    is_own = creator is not None and creator.principal == stored.createdby
    changes_hands = str(creator) != str(stored.creator) if is_own else stored.state == "suspended"
    return store.Heir(creator) if changes_hands else None


def _opened(context: Context, subscription: Subscription) -> SinkCredential | None:
    """The stored credential; `None` if missing or impossible to decrypt."""
    if subscription.stored is None:
        return None
    try:
        return sinkcredentials.open_credential(context.keys, subscription.stored)
    except SecretUnreadable:
        return None


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
    roots = [each.root for each in context.shared.event_dialects]
    sources = [base, *(f"{base}{root}" for root in (*roots, SUBSCRIPTION_SOURCE, AUDIT_SOURCE))]
    if wanted.source is not None and wanted.source not in sources:
        fault = f"the only sources of events here are {' and '.join(sources)}"
        raise InvalidAttribute(request.path, name="source", error_detail=fault)
    demand_log(request, store.log_of(definition))
    protocol = PROTOCOLS[wanted.protocol]
    refusal = why_refused(
        wanted.sink,
        settings,
        schemes=protocol.schemes[wanted.protocol],
        most_hosts=protocol.most_hosts,
    )
    if refusal:
        raise InvalidAttribute(request.path, name="sink", error_detail=refusal)
    credential = credential_in(wanted)
    refresh = credential.refresh if isinstance(credential, TokenCredential) else None
    if refresh is not None and (refusal := why_endpoint_refused(refresh.endpoint, settings)):
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
        await sinkcredentials.remove_credential(connection, id)
    else:
        refreshat = None
        if isinstance(credential, TokenCredential) and credential.refresh is not None:
            assert credential.expiresat is not None
            now = datetime.now(UTC)
            refreshat = refresh_time(credential.expiresat, now, lead_seconds=REFRESH_SECONDS)
        await sinkcredentials.save_credential(
            connection, context.keys, id, credential, refreshat=refreshat
        )
    stored = await sinkcredentials.load_credentials(connection, [id])
    return with_fields(subscription, stored=stored.get(id))


routes: Sequence[Route] = (
    Route(subscriptions.LIST_SUBSCRIPTIONS, list_subscriptions),
    Route(subscriptions.CREATE_SUBSCRIPTION, create_subscription),
    Route(subscriptions.GET_SUBSCRIPTION, get_subscription),
    Route(subscriptions.REPLACE_SUBSCRIPTION, replace_subscription),
    Route(subscriptions.DELETE_SUBSCRIPTION, delete_subscription),
    Route(deliveries.GIVE_CONSENT, take_consent),
    Route(deliveries.POST_CONSENT, post_consent),
    Route(subscriptions.ADD_KEY, add_signing_key),
    Route(subscriptions.END_KEY, end_signing_key),
    Route(deliveries.CHANGE_SUBSCRIPTION, deliverycontrol.change_subscription),
    Route(deliveries.SEND_EXAMPLE, deliverycontrol.send_example),
    Route(deliveries.LIST_ATTEMPTS, deliverycontrol.list_attempts),
    Route(deliveries.LIST_DEAD_LETTERS, deliverycontrol.list_dead_letters),
    Route(deliveries.LIST_CAUSES, deliverycontrol.list_dead_letter_causes),
    Route(deliveries.DELETE_DEAD_LETTERS, deliverycontrol.delete_dead_letters),
    Route(deliveries.REDELIVER_DEAD_LETTERS, deliverycontrol.redeliver_dead_letters),
    Route(deliveries.GET_DEAD_LETTER, deliverycontrol.get_dead_letter),
    Route(deliveries.DELETE_DEAD_LETTER, deliverycontrol.delete_dead_letter),
)
