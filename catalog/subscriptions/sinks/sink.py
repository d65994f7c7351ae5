"""The interface of every protocol to deliveries: its description, its sinks and their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from catalog.model.connectionfailure import why_unreachable
from catalog.model.credentials import PlainCredential, SinkCredential, TokenCredential
from catalog.model.masking import described
from catalog.operations.deliveries import AttemptOutcome
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.stored.subscriptions import Subscription


class ProtocolSettings(BaseModel):
    """The `protocolsettings` of one protocol, checked (subscriptions-spec.md 3.2.2).

    The docstring of each setting is one line for users.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True
    )


Unfit = tuple[str, str]
"""The name of an attribute of a subscription, and a sentence that describes the fault."""


def _fits_always(_: str, __: Mapping[str, Any], ___: SinkCredential | None) -> Unfit | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryProtocol:
    """A protocol that subscriptions can name.

    Args:
        schemes: the identifiers in the Subscriptions API, each with the URL schemes of sinks.
        settings: the model of the `protocolsettings`.
        module: the module with the function `open_connections(settings, now) -> SinkConnections`.
        extra: the extra of the distribution that installs `library`; `None` if not needed.
        library: the name of the module that the protocol needs.
        credentials: the types of credentials that the protocol can use.
        masked: the maps among the settings whose values are never shown.
        most_hosts: the largest number of hosts in the URL of a sink, separated by commas.
        why_unfit: takes a sink's URL, the protocol's settings and the credential, and returns
            the attribute that does not fit the rest, or `None`.
    """

    schemes: Mapping[str, tuple[str, ...]]
    settings: type[ProtocolSettings]
    module: str
    extra: str | None = None
    library: str | None = None
    credentials: tuple[type[SinkCredential], ...] = (PlainCredential, TokenCredential)
    masked: tuple[str, ...] = ()
    most_hosts: int = 1
    why_unfit: Callable[[str, Mapping[str, Any], SinkCredential | None], Unfit | None] = (
        _fits_always
    )


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


class Sink:
    """The destination of one subscription.

    `most_events` is the largest number of events for one call. The delivery bounds the time of
    `send` by cancelling the call.
    """

    most_events: int = 1

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
        raise NotImplementedError

    async def close(self) -> None:
        """Release the resources that the sink does not share; the sink is idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkConnections:
    """The connections of a protocol in a process, shared between sinks where possible.

    Args:
        open: makes the sink of a subscription; the first `send` connects. Opening does not fail.
        close: closes all connections; no sink sends any more.
    """

    open: Callable[[Subscription], Sink]
    close: Callable[[], Awaitable[None]]


class ConnectionRefusedByServer(OSError):
    """A server was reached, and refused the connection.

    Args:
        reason: the answer of the server, in words of the protocol and without secrets.
        is_unauthorized: the server did not accept the credential.
    """

    def __init__(self, reason: str, *, is_unauthorized: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_unauthorized = is_unauthorized


def connect_failure(error: OSError) -> SinkRefused:
    """The answer for the subscriber."""
    if isinstance(error, ConnectionRefusedByServer):
        return SinkRefused(
            reason=f"the sink refused the connection: {error.reason}",
            is_unauthorized=error.is_unauthorized,
        )
    return SinkRefused(reason=f"the sink {why_unreachable(error)}", cause=described(error))


def up_to_first_failure(answers: Iterable[SinkAnswer]) -> list[SinkAnswer]:
    """The first answers, up to and including the first event that was not delivered."""
    found: list[SinkAnswer] = []
    for answer in answers:
        found.append(answer)
        if not isinstance(answer, Delivered):
            break
    return found


def outcome_of(answer: SinkAnswer) -> tuple[AttemptOutcome, str]:
    """The outcome of an attempt, and the answer of the sink in a few words."""
    match answer:
        case Delivered():
            return "delivered", answer.detail
        case SinkRefused():
            return "refused", answer.reason
        case SinkGone():
            return "gone", answer.reason


async def send_by_subject(
    events: Sequence[OutgoingEvent], send_one: Callable[[OutgoingEvent], Awaitable[SinkAnswer]]
) -> list[SinkAnswer]:
    """Send many events at a time, but each after the delivery of the previous event of its subject.

    A server may refuse one message and accept the next, so the order of a subject holds only if
    each of its events is sent after the server has answered for the previous event.

    Returns:
        an answer for each event up to the first event that was not delivered.
    """
    answers: dict[int, SinkAnswer] = {}
    latest: dict[str, asyncio.Task[None]] = {}

    async def send_after(before: asyncio.Task[None] | None, number: int) -> None:
        if before is not None:
            await before
        # Events after a failure are sent again anyway, and would arrive twice.
        failed = (each for each, answer in answers.items() if not isinstance(answer, Delivered))
        if number < min(failed, default=len(events)):
            answers[number] = await send_one(events[number])

    async with asyncio.TaskGroup() as group:
        for number, event in enumerate(events):
            subject = event.texts.get("subject", "")
            latest[subject] = group.create_task(send_after(latest.get(subject), number))
    return up_to_first_failure(answers[number] for number in range(len(events)))
