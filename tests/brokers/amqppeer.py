"""A receiver without a broker, made with proton, that answers messages as a test says."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from proton import Condition, Delivery, Event
from proton.handlers import MessagingHandler
from proton.reactor import ApplicationEvent, Container, EventInjector

from tests.e2e.nodes import free_port

Outcome = tuple[int, str | None]
"""A terminal state of a delivery, and the name of the condition that explains it."""


@dataclass
class Peer:
    """A receiver at a port of the loopback address, and the ids of the events that it got."""

    port: int
    received: list[str] = field(default_factory=list)


@contextlib.contextmanager
def receive_as_peer(outcomes: Mapping[str, Outcome]) -> Iterator[Peer]:
    """Receive events in binary content mode, and accept all that `outcomes` do not name."""
    peer = Peer(port=free_port())
    listening = threading.Event()
    handler = _Handler(peer, outcomes, listening)
    container = Container(handler)
    injector = EventInjector()
    container.selectable(injector)
    thread = threading.Thread(target=container.run)
    thread.start()
    assert listening.wait(30)
    try:
        yield peer
    finally:
        injector.trigger(ApplicationEvent("finish"))
        injector.close()
        thread.join(30)
        assert not thread.is_alive()


class _Handler(MessagingHandler):
    def __init__(
        self, peer: Peer, outcomes: Mapping[str, Outcome], listening: threading.Event
    ) -> None:
        super().__init__(auto_accept=False)
        self._peer = peer
        self._outcomes = outcomes
        self._listening = listening
        self._acceptor = None
        self._connections: list[object] = []

    def on_start(self, event: Event) -> None:
        self._acceptor = event.container.listen(f"127.0.0.1:{self._peer.port}")
        self._listening.set()

    def on_connection_opening(self, event: Event) -> None:
        self._connections.append(event.connection)

    def on_message(self, event: Event) -> None:
        id = event.message.properties["cloudEvents_id"]
        self._peer.received.append(id)
        state, condition = self._outcomes.get(id, (Delivery.ACCEPTED, None))
        if condition is not None:
            event.delivery.local.condition = Condition(condition, "because of a test")
        event.delivery.update(state)
        event.delivery.settle()

    def on_finish(self, _: Event) -> None:
        self._acceptor.close()
        for connection in self._connections:
            connection.close()
