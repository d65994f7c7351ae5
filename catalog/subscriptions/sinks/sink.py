"""The interface of every protocol to deliveries: sinks take events and answer for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.stored.subscriptions import Subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The sink accepted the event; `detail` is the answer in a few words, such as "204"."""

    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRefused:
    """The sink did not accept the event.

    Args:
        reason: a sentence for the subscriber, without secrets and without addresses.
        cause: details for the log only, since they would reveal which hosts a network has.
        retry_after: the least seconds until the next attempt.
        is_final: the event can never succeed, no matter when and how often it is sent.
        is_unauthorized: the sink did not accept the credential.
        is_withheld: the event was not sent, or in vain, for lack of a usable credential. The call
            does not count as an attempt: the event waits even if few attempts are wanted.
        refusedtoken: the revision of the credential whose access token is to be refreshed early.
    """

    reason: str
    cause: str = ""
    retry_after: float = 0.0
    is_final: bool = False
    is_unauthorized: bool = False
    is_withheld: bool = False
    refusedtoken: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkGone:
    """The sink wants no further events."""

    reason: str


SinkAnswer = Delivered | SinkRefused | SinkGone


class Sink(Protocol):
    """The destination of one subscription.

    `most_events` is the largest number of events for one call. The delivery bounds the time of
    `send` by cancelling the call.
    """

    most_events: int

    async def send(self, events: Sequence[OutgoingEvent]) -> Sequence[SinkAnswer]:
        """Send events in their order; in protocols with requests, send one request.

        Once an event was refused, later events of its subject are not accepted.

        Args:
            events: at least one event, and no more than `most_events`.

        Returns:
            an answer for each of the first events, at least one, up to and including the first
            event that was not delivered. The caller sends the remaining events again. A failure to
            reach the sink is `SinkRefused`.
        """
        ...

    async def close(self) -> None:
        """Release the resources that the sink does not share; the sink is idle."""
        ...


class SinkConnections(Protocol):
    """The connections of a protocol in a process, shared between sinks where possible."""

    def open(self, subscription: Subscription) -> Sink:
        """The sink of a subscription; the first `send` connects, and opening does not fail."""
        ...

    async def close(self) -> None:
        """Close all connections; no sink sends any more."""
        ...
