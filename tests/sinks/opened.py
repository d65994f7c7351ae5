"""Sinks that a test opens itself, and events to send to them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from cloudevents.core.v1.event import CloudEvent

from catalog.model.credentials import SinkCredential
from catalog.settings import Settings
from catalog.store.changes import Position
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.protocols import PROTOCOLS
from catalog.subscriptions.sinks.sink import Sink, Sinks
from catalog.subscriptions.stored.subscriptions import Subscription, SubscriptionDefinition

OPEN = Settings(allow_private_addresses=True, delivery_timeout_seconds=10)
GUARDED = Settings(allow_private_addresses=False, delivery_timeout_seconds=10)


def subscription_to(
    protocol: str, sink: str, credential: SinkCredential | None = None, **settings: Any
) -> Subscription:
    model = PROTOCOLS[protocol].settings
    checked = model.model_validate(settings).model_dump()
    return Subscription(
        id="a",
        revision=1,
        definition=SubscriptionDefinition(sink=sink, protocol=protocol, settings=checked),
        credential=credential,
        cursor=Position(0, 0),
        state="active",
        failures=0,
        delivered=0,
        deliveredat=None,
        error=None,
        lostat=None,
        lag=0,
    )


@asynccontextmanager
async def open_sink(subscription: Subscription, settings: Settings = OPEN) -> AsyncIterator[Sink]:
    async with Sinks(settings) as sinks:
        sink = sinks.open(subscription)
        yield sink
        await sink.close()


def event(
    number: int, *, subject: str = "/a", data: Any = None, **attributes: Any
) -> OutgoingEvent:
    named = {
        "id": f"event-{number}",
        "source": "urn:a",
        "type": "an.event",
        "specversion": "1.0",
        "subject": subject,
        "datacontenttype": "application/json",
        **attributes,
    }
    return OutgoingEvent(CloudEvent(named, {"number": number} if data is None else data))
