"""Subscriptions as answers show them, without secrets, and how clients send these back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from catalog.model.errors import InvalidAttribute
from catalog.model.masking import MASK, is_masked, masked_url, unmasked_url
from catalog.model.timestamps import format_time
from catalog.sinks.protocols import PROTOCOLS
from catalog.store.subscriptions import Subscription, SubscriptionDefinition

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
    """A subscription as clients see it: defaults applied, without its credential.

    Stars stand for the values in the sink's query and for those of headers, which may be secrets.
    """
    definition = subscription.definition
    interval = definition.config.interval
    masked = PROTOCOLS[definition.protocol].masked
    shown = {
        "id": subscription.id,
        "source": definition.source,
        "types": list(definition.types) or None,
        "config": None if interval is None else {"interval": interval},
        "filters": list(definition.filters) or None,
        "sink": masked_url(definition.sink),
        "protocol": definition.protocol,
        "protocolsettings": {
            name: dict.fromkeys(value, MASK) if name in masked else value
            for name, value in definition.settings.items()
        },
        "status": {
            "state": subscription.state,
            "failures": subscription.failures,
            "delivered": subscription.delivered,
            "deliveredat": subscription.deliveredat and format_time(subscription.deliveredat),
            "error": subscription.error,
            "lag": subscription.lag,
            **_loss_of(subscription),
        },
    }
    return {name: value for name, value in shown.items() if value is not None}


def _loss_of(subscription: Subscription) -> dict[str, Any]:
    if subscription.lostat is None:
        return {}
    detail = (
        "Changes left the log before they were delivered. Read from the catalog what their events "
        "would have told, then replace the subscription (PUT): this clears the notice."
    )
    return {"lost": {"at": format_time(subscription.lostat), "detail": detail}}
