"""Answers which events a subscriber may receive."""

from __future__ import annotations

from catalog.sinks.outgoing import OutgoingEvent
from catalog.store.subscriptions import Subscription


def may_know(_: Subscription, __: OutgoingEvent) -> bool:
    """Whether the owner of a subscription may know of the entity that an event is about.

    Every event passes here before its delivery. There are no access rules yet: all may know all.
    """
    return True
