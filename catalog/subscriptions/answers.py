"""The subscription that a request addresses, and the answers that show it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from aiohttp import web

from catalog.access.creatorrights import creator_of
from catalog.access.identity import demand, identity_of
from catalog.http.conditions import check_tag
from catalog.http.route import model_response
from catalog.model.errors import NotFound
from catalog.model.masking import MASK, masked_url
from catalog.model.roles import Permission
from catalog.model.timestamps import format_time
from catalog.operations import subscriptions as operations
from catalog.operations.subscriptions import DeadLetterCounts, State, SubscriptionConfig
from catalog.store.changes import LogName
from catalog.store.database import Connection
from catalog.subscriptions.sinks.protocols import PROTOCOLS
from catalog.subscriptions.sinks.webhooksignature import shared_secret
from catalog.subscriptions.stored.deadletters import count_dead_letters
from catalog.subscriptions.stored.sinkcredentials import StoredCredential
from catalog.subscriptions.stored.subscriptions import Subscription, get, lock_subscription

OVER: frozenset[State] = frozenset({"ended", "expired", "suspended"})
"""The states of subscriptions that no longer deliver."""
_SECRETS = {
    "PLAIN": ("identifier", "secret"),
    "ACCESSTOKEN": ("accesstoken",),
    "REFRESHTOKEN": ("accesstoken", "refreshtoken"),
}
_SHOWN_AS_STORED = (
    *("state", "createdat", "lag", "failures", "failingsince", "error"),
    *("delivered", "deliveredat", "failed", "failedattempts", "failedat", "failedcause"),
)
_LOST = (
    "Changes left the log before they were delivered. Read from the catalog what their events "
    "would have told, then replace the subscription (PUT): this clears the notice."
)


async def lock_addressed(request: web.Request, connection: Connection) -> Subscription:
    """Lock the subscription of a write, and check the conditions of the request.

    Raises:
        NotFound, PreconditionFailed
        Unauthenticated, Forbidden: as `demand_log`.
    """
    id = request.match_info["id"]
    # Read after the lock, so that the conditions are checked on the row that the write changes.
    found = await get(connection, id) if await lock_subscription(connection, id) else None
    checked = _checked(request, found)
    check_tag(request, _tag_of(checked), checked.path)
    return checked


async def read_addressed(request: web.Request, connection: Connection) -> Subscription:
    """The subscription of a read; raises `NotFound`, and as `demand_log`."""
    return _checked(request, await get(connection, request.match_info["id"]))


def _checked(request: web.Request, found: Subscription | None) -> Subscription:
    """The subscription, if the caller may know of it and read its log."""
    principal = only_of(request)
    # A hidden subscription looks missing: the answer must not reveal the existence.
    if found is None or (principal is not None and principal != found.createdby):
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


def demand_log(request: web.Request, log: LogName) -> None:
    """Raise `Unauthenticated` or `Forbidden` for a caller that may not read a log."""
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
    """Answer a write; 202 replaces the status `done` if the sink has yet to agree."""
    status = 202 if subscription.state == "pending" else done
    return await answer_read(connection, subscription, status=status, headers=headers)


def _tag_of(subscription: Subscription) -> str:
    """The entity tag, for the definition and the commands on the subscription.

    It does not stand for the progress, so that a client can change what it has read meanwhile.
    """
    return f'"{subscription.revision}"'


def subscription_answer(
    subscription: Subscription, letters: DeadLetterCounts
) -> operations.SubscriptionAnswer:
    """A subscription as clients see it, with defaults applied.

    The secrets of signing keys are left out. Stars stand for the secrets of the credential, for the
    values in the sink's query, and for the values of headers, which may be secrets.
    """
    definition, stored = subscription.definition, subscription.stored
    config, masked = definition.config, PROTOCOLS[definition.protocol].masked
    is_default = config == SubscriptionConfig()
    return operations.SubscriptionAnswer(
        id=subscription.id,
        source=definition.source,
        types=list(definition.types) or None,
        config=None if is_default else operations.ConfigAnswer.model_construct(**dict(config)),
        filters=[dict(each) for each in definition.filters] or None,
        sink=masked_url(definition.sink),
        sinkcredential=None if stored is None else _credential(stored),
        protocol=definition.protocol,
        protocolsettings={
            name: dict.fromkeys(value, MASK) if name in masked else value
            for name, value in definition.settings.items()
        },
        signingkeys=key_answers(subscription) or None,
        status=_status(subscription, letters, datetime.now(UTC)),
    )


def key_answers(subscription: Subscription) -> list[operations.SigningKeyAnswer]:
    """The keys that sign deliveries, the current key first; only new keys come with secrets."""
    secrets = {key.id: shared_secret(key) for key in subscription.newkeys}
    return [
        operations.SigningKeyAnswer(
            id=key.id,
            signature=key.scheme,
            publickey=key.publickey,
            secret=secrets.get(key.id),
            createdat=key.createdat,
            endsat=key.endsat,
        )
        for key in subscription.storedkeys
    ]


def _credential(stored: StoredCredential) -> operations.SinkCredentialAnswer:
    return operations.SinkCredentialAnswer(
        credentialtype=stored.type,
        accesstokenexpiresutc=stored.expiresat,
        accesstokentype=stored.scheme,
        refreshtokenendpoint=stored.endpoint,
        **dict.fromkeys(_SECRETS[stored.type], MASK),
    )


def _status(
    subscription: Subscription, letters: DeadLetterCounts, now: datetime
) -> operations.DeliveryStatus:
    creator, stored, oldestat = subscription.creator, subscription.stored, subscription.oldestat
    # `nextattemptat` stays in the past if the event became a dead letter and no event followed.
    nextat = subscription.nextattemptat
    owner = creator and operations.SubscriptionOwner(
        kind=creator.kind, name=creator.name or None, issuer=creator.issuer or None
    )
    refresh = None
    if stored is not None and stored.error is not None:
        refresh = operations.TokenRefresh(failures=stored.failures, error=stored.error)
    return operations.DeliveryStatus(
        **{name: getattr(subscription, name) for name in _SHOWN_AS_STORED},
        reason=_reason_of(subscription, now),
        createdby=owner,
        nextattemptat=None if nextat is None or nextat < now else nextat,
        lagseconds=max(0.0, (now - oldestat).total_seconds()) if oldestat else 0.0,
        oldestundelivered=oldestat,
        deadletters=letters,
        initialevents=None if subscription.initial is None else "not all delivered yet",
        refresh=refresh,
        lost=subscription.lostat and operations.LostChanges(at=subscription.lostat, detail=_LOST),
    )


def _reason_of(subscription: Subscription, now: datetime) -> str | None:
    startsat = subscription.definition.config.startsat
    if subscription.state == "active" and startsat is not None and now < startsat:
        return f"it begins to deliver at {format_time(startsat)}"
    if subscription.pausereason is not None:
        return f"{subscription.reason}; after the consent it is paused: {subscription.pausereason}"
    return subscription.reason
