"""Subscriptions as answers show them, without secrets."""

from __future__ import annotations

from datetime import UTC, datetime

from catalog.model.masking import MASK, masked_url
from catalog.model.timestamps import format_time
from catalog.operations.subscriptions import (
    ConfigAnswer,
    DeadLetterCounts,
    DeliveryStatus,
    LostChanges,
    SigningKeyAnswer,
    SinkCredentialAnswer,
    SubscriptionAnswer,
    SubscriptionConfig,
    SubscriptionOwner,
    TokenRefresh,
)
from catalog.subscriptions.sinks.protocols import PROTOCOLS
from catalog.subscriptions.sinks.signature import shared_secret
from catalog.subscriptions.stored.sinkcredentials import StoredCredential
from catalog.subscriptions.stored.subscriptions import Subscription

_SECRETS = {
    "PLAIN": ("identifier", "secret"),
    "ACCESSTOKEN": ("accesstoken",),
    "REFRESHTOKEN": ("accesstoken", "refreshtoken"),
}
_LOST = (
    "Changes left the log before they were delivered. Read from the catalog what their events "
    "would have told, then replace the subscription (PUT): this clears the notice."
)


def subscription_answer(
    subscription: Subscription, letters: DeadLetterCounts
) -> SubscriptionAnswer:
    """A subscription as clients see it, with defaults applied.

    The secrets of signing keys are left out. Stars stand for the secrets of the credential, for the
    values in the sink's query, and for the values of headers, which may be secrets.
    """
    definition, stored = subscription.definition, subscription.stored
    config, masked = definition.config, PROTOCOLS[definition.protocol].masked
    is_default = config == SubscriptionConfig()
    return SubscriptionAnswer(
        id=subscription.id,
        source=definition.source,
        types=list(definition.types) or None,
        config=None if is_default else ConfigAnswer.model_construct(**dict(config)),
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


def key_answers(subscription: Subscription) -> list[SigningKeyAnswer]:
    """The keys that sign deliveries, the current key first; only new keys come with secrets."""
    secrets = {key.id: shared_secret(key) for key in subscription.newkeys}
    return [
        SigningKeyAnswer(
            id=key.id,
            signature=key.scheme,
            publickey=key.publickey,
            secret=secrets.get(key.id),
            createdat=key.createdat,
            endsat=key.endsat,
        )
        for key in subscription.storedkeys
    ]


def _credential(stored: StoredCredential) -> SinkCredentialAnswer:
    return SinkCredentialAnswer(
        credentialtype=stored.type,
        accesstokenexpiresutc=stored.expiresat,
        accesstokentype=stored.scheme,
        refreshtokenendpoint=stored.endpoint,
        **dict.fromkeys(_SECRETS[stored.type], MASK),
    )


def _status(subscription: Subscription, letters: DeadLetterCounts, now: datetime) -> DeliveryStatus:
    creator, stored, oldestat = subscription.creator, subscription.stored, subscription.oldestat
    # `nextattemptat` stays in the past if the event became a dead letter and no event followed.
    nextat = subscription.nextattemptat
    owner = creator and SubscriptionOwner(
        kind=creator.kind, name=creator.name or None, issuer=creator.issuer or None
    )
    refresh = None
    if stored is not None and stored.error is not None:
        refresh = TokenRefresh(failures=stored.failures, error=stored.error)
    return DeliveryStatus(
        state=subscription.state,
        reason=_reason_of(subscription, now),
        createdat=subscription.createdat,
        createdby=owner,
        failures=subscription.failures,
        failingsince=subscription.failingsince,
        error=subscription.error,
        nextattemptat=None if nextat is None or nextat < now else nextat,
        delivered=subscription.delivered,
        deliveredat=subscription.deliveredat,
        failed=subscription.failed,
        failedattempts=subscription.failedattempts,
        failedat=subscription.failedat,
        failedcause=subscription.failedcause,
        lag=subscription.lag,
        lagseconds=max(0.0, (now - oldestat).total_seconds()) if oldestat else 0.0,
        oldestundelivered=oldestat,
        deadletters=letters,
        initialevents=None if subscription.initial is None else "not all delivered yet",
        refresh=refresh,
        lost=subscription.lostat and LostChanges(at=subscription.lostat, detail=_LOST),
    )


def _reason_of(subscription: Subscription, now: datetime) -> str | None:
    startsat = subscription.definition.config.startsat
    if subscription.state == "active" and startsat is not None and now < startsat:
        return f"it begins to deliver at {format_time(startsat)}"
    if subscription.pausereason is not None:
        return f"{subscription.reason}; after the consent it is paused: {subscription.pausereason}"
    return subscription.reason
