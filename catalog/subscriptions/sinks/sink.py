"""The interface of every protocol to deliveries: sinks take events and answer for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.stored.subscriptions import Subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The sink accepted the event; `detail` is its answer in a few words, such as "204"."""

    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRefused:
    """The sink did not accept the event.

    Args:
        reason: a sentence for the subscriber, without secrets and without addresses.
        cause: details for the log only, since they would tell which hosts a network has.
        retry_after: the least seconds until the next attempt.
        is_final: this event can never succeed, whenever and however often it is sent.
        is_unauthorized: the sink did not accept the credential.
        is_withheld: nothing was sent, or in vain, for lack of a credential that can be used. It is
            no attempt: the event waits, however few attempts are wanted.
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

    `most_events` is how many events it takes at a time. The delivery bounds the time of `send`
    by cancelling it.
    """

    most_events: int

    async def send(self, events: Sequence[OutgoingEvent]) -> Sequence[SinkAnswer]:
        """Send events in their order; of protocols with requests, one request.

        No event is accepted after one of the same subject that was not.

        Args:
            events: at least one, and no more than `most_events`.

        Returns:
            an answer for each of the first events, at least one, up to the first that was not
            delivered, that one included. What comes after them is sent again. A failure to reach
            the sink is `SinkRefused`.
        """
        ...

    async def close(self) -> None:
        """Release what this sink alone holds; it is idle."""
        ...


class SinkConnections(Protocol):
    """The connections of one protocol in a process, which its sinks share where they can."""

    def open(self, subscription: Subscription) -> Sink:
        """The sink of a subscription; it connects when it sends first, and now does not fail."""
        ...

    async def close(self) -> None:
        """Close all connections; no sink sends any more."""
        ...
