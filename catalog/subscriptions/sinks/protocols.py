"""The delivery protocols, and the connections of the protocols that a process uses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec

from catalog import install_command
from catalog.config import Settings
from catalog.config.keyfile import key_ring
from catalog.keys.keyring import KeyRing, SecretUnreadable
from catalog.store.signingkeys import open_key
from catalog.subscriptions.sinks.amqpsettings import AMQP
from catalog.subscriptions.sinks.expiringsink import ClosedSink, ExpiringSink
from catalog.subscriptions.sinks.httpsettings import HTTP
from catalog.subscriptions.sinks.kafkasettings import KAFKA
from catalog.subscriptions.sinks.mqttsettings import MQTT3, MQTT5
from catalog.subscriptions.sinks.natssettings import NATS
from catalog.subscriptions.sinks.protocol import DeliveryProtocol
from catalog.subscriptions.sinks.sink import Sink, SinkConnections
from catalog.subscriptions.stored.sinkcredentials import open_credential
from catalog.subscriptions.stored.subscriptions import Subscription

PROTOCOLS: Mapping[str, DeliveryProtocol] = {
    name: protocol
    for protocol in (HTTP, KAFKA, MQTT5, MQTT3, NATS, AMQP)
    for name in protocol.schemes
}
"""Every protocol by each of its identifiers."""


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
