"""The interface of the sinks of every protocol, and the sinks that a process opens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module

from catalog.keys.keyring import KeyRing, SecretUnreadable
from catalog.model.connectionfailure import why_unreachable
from catalog.model.masking import described
from catalog.operations.deliveries import AttemptOutcome
from catalog.settings import Settings
from catalog.settings.keyfile import key_ring
from catalog.store.signingkeys import open_key
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.protocols import PROTOCOLS
from catalog.subscriptions.stored import sinkcredentials
from catalog.subscriptions.stored.sinkcredentials import StoredCredential
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


class SinkFailed(OSError):
    """A server cannot be used, for the reason in `answer`."""

    def __init__(self, answer: SinkRefused) -> None:
        super().__init__(answer.reason)
        self.answer = answer


def connection_refused(reason: str, *, is_unauthorized: bool = False) -> SinkFailed:
    """The error for a server that was reached, and refused the connection.

    Args:
        reason: the answer of the server, in words of the protocol and without secrets.
        is_unauthorized: the server did not accept the credential.
    """
    told = f"the sink refused the connection: {reason}"
    return SinkFailed(SinkRefused(reason=told, is_unauthorized=is_unauthorized))


def connect_failure(error: OSError) -> SinkRefused:
    """The answer for the subscriber."""
    if isinstance(error, SinkFailed):
        return error.answer
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
        return is_proven and self._now() - self._earlyat >= sinkcredentials.BETWEEN_EARLY_REFRESHES


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
            credential = subscription.credential
            if stored is not None:
                credential = sinkcredentials.open_credential(self._keys, stored)
        except SecretUnreadable as error:
            return ClosedSink(error.reason, error.cause)
        sink = self._open(replace(subscription, credential=credential, signingkeys=keys))
        if stored is None:
            return sink
        return ExpiringSink(sink, stored, self._now, deliveredat=subscription.deliveredat)

    def _open(self, subscription: Subscription) -> Sink:
        module = PROTOCOLS[subscription.definition.protocol].module
        if module not in self._connections:
            found = import_module(f"catalog.subscriptions.sinks.{module}")
            self._connections[module] = found.open_connections(self._settings, self._now)
        return self._connections[module].open(subscription)

    async def __aenter__(self) -> Sinks:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections."""
        await asyncio.gather(*(each.close() for each in self._connections.values()))
