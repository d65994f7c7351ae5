"""The delivery protocols, and the sinks that a process opens with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec

from catalog import install_command
from catalog.keys.keyring import KeyRing, SecretUnreadable
from catalog.settings import Settings
from catalog.settings.keyfile import key_ring
from catalog.store.signingkeys import open_key
from catalog.subscriptions.sinks.amqpsettings import AMQP
from catalog.subscriptions.sinks.httpsettings import HTTP
from catalog.subscriptions.sinks.kafkasettings import KAFKA
from catalog.subscriptions.sinks.mqttsettings import MQTT3, MQTT5
from catalog.subscriptions.sinks.natssettings import NATS
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.sink import (
    Delivered,
    DeliveryProtocol,
    Sink,
    SinkAnswer,
    SinkConnections,
    SinkRefused,
)
from catalog.subscriptions.stored.sinkcredentials import (
    BETWEEN_EARLY_REFRESHES,
    StoredCredential,
    open_credential,
)
from catalog.subscriptions.stored.subscriptions import Subscription

PROTOCOLS: Mapping[str, DeliveryProtocol] = {
    name: protocol
    for protocol in (HTTP, KAFKA, MQTT5, MQTT3, NATS, AMQP)
    for name in protocol.schemes
}
"""Every protocol by each of its identifiers."""


class ClosedSink(Sink):
    """Refuses each event for now, with a reason."""

    def __init__(self, reason: str, cause: str) -> None:
        self._refusal = SinkRefused(reason=reason, cause=cause, is_withheld=True)

    async def send(self, _: Sequence[OutgoingEvent]) -> Sequence[SinkAnswer]:
        return [self._refusal]


# A refresh rarely takes longer; a new token reopens the sink at once.
_REFRESH_SECONDS = 10.0


class ExpiringSink(Sink):
    """A sink that refuses events once the access token of its credential has expired.

    A token that the sink refuses before its expiry is refreshed as well, if the credential has a
    refresh token. The next early refresh needs an event that the sink has accepted in between: a
    sink that refuses every token causes no further refreshes.

    Args:
        deliveredat: the time at which the sink last accepted an event.
    """

    def __init__(
        self,
        sink: Sink,
        stored: StoredCredential,
        now: Callable[[], datetime],
        *,
        deliveredat: datetime | None = None,
    ) -> None:
        self.most_events = sink.most_events
        self._sink = sink
        self._stored = stored
        self._now = now
        self._deliveredat = deliveredat
        self._earlyat = stored.earlyat

    async def send(self, events: Sequence[OutgoingEvent]) -> Sequence[SinkAnswer]:
        stored = self._stored
        if stored.expiresat is not None and stored.expiresat <= self._now():
            reason = "the access token of the sink credential has expired"
            if stored.type == "REFRESHTOKEN":
                reason = f"{reason}: {stored.error or 'it is being refreshed'}"
            return [SinkRefused(reason=reason, is_withheld=True)]
        answers = await self._sink.send(events)
        if isinstance(answers[0], Delivered):
            self._deliveredat = self._now()
        last = answers[-1]
        if isinstance(last, SinkRefused) and last.is_unauthorized and self._may_refresh():
            self._earlyat = self._now()
            retry_after = max(last.retry_after, _REFRESH_SECONDS)
            refused = replace(
                last, is_withheld=True, retry_after=retry_after, refusedtoken=stored.revision
            )
            return [*answers[:-1], refused]
        return answers

    async def close(self) -> None:
        await self._sink.close()

    def _may_refresh(self) -> bool:
        if self._stored.type != "REFRESHTOKEN" or self._stored.failures:
            return False
        if self._earlyat is None:
            return True
        is_proven = self._deliveredat is not None and self._deliveredat > self._earlyat
        return is_proven and self._now() - self._earlyat >= BETWEEN_EARLY_REFRESHES


def why_missing(protocol: DeliveryProtocol) -> str | None:
    """A sentence that says how to install a protocol, or `None` if it is installed."""
    if protocol.extra is None or protocol.library is None or find_spec(protocol.library):
        return None
    name = next(iter(protocol.schemes))
    return f"{name} is not installed: {install_command(protocol.extra)}"


class Sinks:
    """Opens the sinks of subscriptions; loads each protocol when the first sink needs it."""

    def __init__(
        self,
        settings: Settings,
        keys: KeyRing | None = None,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._settings = settings
        self._keys = keys or key_ring(settings)
        self._now = now
        self._connections: dict[str, SinkConnections] = {}

    def open(self, subscription: Subscription) -> Sink:
        """The sink of a subscription; opening neither waits nor fails.

        A sink whose credential or signing key cannot be decrypted refuses every event.

        Raises:
            ImportError: the library of the protocol has been removed.
        """
        stored = subscription.stored
        try:
            keys = tuple(open_key(self._keys, each) for each in subscription.storedkeys)
            credential = (
                subscription.credential if stored is None else open_credential(self._keys, stored)
            )
        except SecretUnreadable as error:
            return ClosedSink(error.reason, error.cause)
        sink = self._open(replace(subscription, credential=credential, signingkeys=keys))
        if stored is None:
            return sink
        return ExpiringSink(sink, stored, self._now, deliveredat=subscription.deliveredat)

    def _open(self, subscription: Subscription) -> Sink:
        module = PROTOCOLS[subscription.definition.protocol].module
        if module not in self._connections:
            found = import_module(module)
            self._connections[module] = found.open_connections(self._settings, self._now)
        return self._connections[module].open(subscription)

    async def __aenter__(self) -> Sinks:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections."""
        await asyncio.gather(*(each.close() for each in self._connections.values()))
