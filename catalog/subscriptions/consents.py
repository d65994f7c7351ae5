"""The state of a new or replaced subscription, by the consent that its sink has to give."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from catalog.config import Settings
from catalog.model.weborigin import origin_of
from catalog.sinks.consent import needs_consent
from catalog.store.database import Connection
from catalog.store.sinkconsents import AWAITS_CONSENT, forget, seek
from catalog.store.subscriptions import State, SubscriptionDefinition


async def first_state(
    connection: Connection, settings: Settings, id: str, definition: SubscriptionDefinition
) -> tuple[State, str | None]:
    """The state and the reason to write a subscription with, in the same transaction.

    It is pending while its sink has yet to consent. A consent stays with the origin of the sink:
    another path needs no other.
    """
    if not needs_consent(definition, settings):
        await forget(connection, id)
        return "active", None
    now = datetime.now(UTC)
    until = now + timedelta(hours=settings.consent_hours)
    if await seek(connection, id, origin_of(definition.sink), now=now, until=until):
        return "pending", AWAITS_CONSENT
    return "active", None
