"""Subscriptions as answers show them, without secrets, and how clients send these back."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from catalog.model.errors import InvalidAttribute
from catalog.model.masking import MASK, is_masked, masked_url, unmasked_url
from catalog.model.timestamps import format_time
from catalog.sinks.protocols import PROTOCOLS
from catalog.sinks.signature import shared_secret
from catalog.store.subscriptions import (
    Subscription,
    SubscriptionConfig,
    SubscriptionDefinition,
)
from catalog.subscriptions.showncredential import show_credential

_STARS = f"{MASK} keeps a stored value while the sink stays the same; here it stands for none"


def unmasked(
    definition: SubscriptionDefinition, stored: SubscriptionDefinition | None, subject: str
) -> SubscriptionDefinition:
    """A definition with stored values in place of stars, as an answer shows them.

    A value is kept only while it goes to the sink that it was stored for: nobody who cannot read
    it can have it sent elsewhere.

    Raises:
        InvalidAttribute: stars stand where no value is stored for this sink.
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
    return replace(definition, sink=sink, settings=settings)


def show_subscription(subscription: Subscription) -> dict[str, Any]:
    """A subscription as clients see it, with defaults applied.

    The secrets of its keys are left out. Stars stand for those of its credential, for the values in
    the sink's query and for those of headers, which may be secrets.
    """
    definition, stored = subscription.definition, subscription.stored
    masked = PROTOCOLS[definition.protocol].masked
    shown = {
        "id": subscription.id,
        "source": definition.source,
        "types": list(definition.types) or None,
        "config": _config_of(definition.config) or None,
        "filters": list(definition.filters) or None,
        "sink": masked_url(definition.sink),
        "sinkcredential": stored and show_credential(stored),
        "protocol": definition.protocol,
        "protocolsettings": {
            name: dict.fromkeys(value, MASK) if name in masked else value
            for name, value in definition.settings.items()
        },
        "signingkeys": show_keys(subscription) or None,
        "status": _status_of(subscription, datetime.now(UTC)),
    }
    return _without_none(shown)


def show_keys(subscription: Subscription) -> list[dict[str, Any]]:
    """The keys that sign deliveries, the current one first; secrets only of those just made."""
    secrets = {key.id: shared_secret(key) for key in subscription.newkeys}
    return [
        _without_none(
            {
                "id": key.id,
                "signature": key.scheme,
                "publickey": key.publickey,
                "secret": secrets.get(key.id),
                "createdat": format_time(key.createdat),
                "endsat": _time(key.endsat),
            }
        )
        for key in subscription.storedkeys
    ]


def _config_of(config: SubscriptionConfig) -> dict[str, Any]:
    """The settings as they were given, without those that have their defaults."""
    shown = {
        "from": config.start,
        "startsAt": config.startsat and format_time(config.startsat),
        "expiresAt": config.expiresat and format_time(config.expiresat),
        "maxEvents": config.maxevents,
        "initialEvents": config.initialevents or None,
        "interval": config.interval,
        "batch": config.batch and asdict(config.batch),
        "retry": config.retry and _without_none(asdict(config.retry)),
        "order": None if config.order == "continue" else config.order,
    }
    return _without_none(shown)


def _status_of(subscription: Subscription, now: datetime) -> dict[str, Any]:
    """The state of the delivery. What is `None` stands there as null, so that each member has a
    place, save for those that most subscriptions never have."""
    oldestat = subscription.oldestat
    return {
        "state": subscription.state,
        **_without_none({"reason": _reason_of(subscription, now)}),
        "createdat": format_time(subscription.createdat),
        **_creator_of(subscription),
        "failures": subscription.failures,
        "failingsince": _time(subscription.failingsince),
        "error": subscription.error,
        "nextattemptat": _next_attempt_of(subscription, now),
        "delivered": subscription.delivered,
        "deliveredat": _time(subscription.deliveredat),
        "failed": subscription.failed,
        "failedattempts": subscription.failedattempts,
        "failedat": _time(subscription.failedat),
        "failedcause": subscription.failedcause,
        "lag": subscription.lag,
        "lagseconds": max(0.0, (now - oldestat).total_seconds()) if oldestat else 0.0,
        "oldestundelivered": _time(oldestat),
        **({} if subscription.initial is None else {"initialevents": "not all delivered yet"}),
        **_refresh_of(subscription),
        **_loss_of(subscription),
    }


def _creator_of(subscription: Subscription) -> dict[str, Any]:
    creator = subscription.creator
    if creator is None:
        return {}
    shown = {"kind": creator.kind, "name": creator.name, "issuer": creator.issuer}
    return {"createdby": {name: value for name, value in shown.items() if value}}


def _reason_of(subscription: Subscription, now: datetime) -> str | None:
    startsat = subscription.definition.config.startsat
    if subscription.state == "active" and startsat is not None and now < startsat:
        return f"it begins to deliver at {format_time(startsat)}"
    if subscription.pausereason is not None:
        return f"{subscription.reason}; after the consent it is paused: {subscription.pausereason}"
    return subscription.reason


def _next_attempt_of(subscription: Subscription, now: datetime) -> str | None:
    """None where the event that failed last has become a dead letter, and no other has come."""
    moment = subscription.nextattemptat
    return None if moment is None or moment < now else format_time(moment)


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)


def _without_none(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _refresh_of(subscription: Subscription) -> dict[str, Any]:
    """Why the access token could not be refreshed."""
    stored = subscription.stored
    if stored is None or stored.error is None:
        return {}
    return {"refresh": {"failures": stored.failures, "error": stored.error}}


def _loss_of(subscription: Subscription) -> dict[str, Any]:
    if subscription.lostat is None:
        return {}
    detail = (
        "Changes left the log before they were delivered. Read from the catalog what their events "
        "would have told, then replace the subscription (PUT): this clears the notice."
    )
    return {"lost": {"at": format_time(subscription.lostat), "detail": detail}}
