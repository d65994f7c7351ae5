"""What a delivery remembers of the event that is next."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from catalog.store.changes import Position
from catalog.subscriptions.delivery.progress import DeliveryRecord
from catalog.subscriptions.stored.subscriptions import Subscription, SubscriptionDefinition

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("is_next", [True, False])
def test_only_the_next_event_has_its_attempts_counted(is_next: bool) -> None:
    """A dead letter that is delivered again is not the next one."""
    subscription = Subscription(
        id="s",
        revision=1,
        definition=SubscriptionDefinition(sink="http://127.0.0.1/"),
        cursor=Position(0, 0),
        state="active",
        failures=0,
        delivered=0,
        deliveredat=None,
        error=None,
        lostat=None,
        lag=0,
    )
    record = DeliveryRecord.of(subscription)
    record.refused("no", AT)
    record.accepted(1, AT, is_next=is_next)
    assert (record.failures, record.total) == (0, 1)
    assert (record.tried, record.triedsince) == ((0, None) if is_next else (1, AT))
