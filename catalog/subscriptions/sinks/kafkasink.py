"""Delivers events to topics of Kafka, following kafka-protocol-binding.md."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from aiokafka import errors

from catalog.http.listener import most_outbound_connections
from catalog.model.connectionfailure import why_unreachable
from catalog.model.masking import described
from catalog.settings import Settings
from catalog.subscriptions.sinks.kafkaconnection import BATCH_BYTES, KafkaProducer, partition_of
from catalog.subscriptions.sinks.kafkarecords import (
    KafkaRecord,
    batches_of,
    by_partition,
    record_of,
)
from catalog.subscriptions.sinks.kafkasettings import (
    KafkaCluster,
    KafkaSettings,
    servers_of,
    topic_of,
)
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.sharedconnections import SharedConnections
from catalog.subscriptions.sinks.sink import (
    Delivered,
    Sink,
    SinkAnswer,
    SinkConnections,
    SinkRefused,
    up_to_first_failure,
)
from catalog.subscriptions.stored.subscriptions import Subscription

KafkaProducers = SharedConnections[KafkaCluster, KafkaProducer]

# A producer has a connection to each broker, and briefly a further connection to start with.
_CONNECTIONS_EACH = 4
# Ends before the delivery cancels, which would lose the cause and the acknowledgements.
_SHARE_OF_TIME = 0.95
_TOO_LARGE = (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError)
_TOGETHER_TOO_LARGE = SinkRefused(reason="the broker takes no batch of records as large as this")
_NOT_TRIED = SinkRefused(reason="an event before this one was not accepted")


def open_connections(settings: Settings, _: Callable[[], datetime]) -> SinkConnections:
    """The producers of one process for Kafka clusters, which Kafka sinks share."""
    seconds = settings.delivery_timeout_seconds * _SHARE_OF_TIME
    producers: KafkaProducers = SharedConnections(
        partial(KafkaProducer.connect, settings=settings),
        connect_seconds=seconds,
        most_idle=most_outbound_connections(settings) // _CONNECTIONS_EACH,
    )
    return SinkConnections(open=partial(KafkaSink, producers, seconds), close=producers.close)


class KafkaSink(Sink):
    """The topic of one subscription.

    Batches of different partitions are sent concurrently, batches of one partition in order.
    """

    most_events = 500

    def __init__(
        self, producers: KafkaProducers, seconds: float, subscription: Subscription
    ) -> None:
        sink = subscription.definition.sink
        settings = KafkaSettings.model_validate(subscription.definition.settings)
        self._producers = producers
        self._seconds = seconds
        self._topic = topic_of(sink, settings)
        self._key_attribute = settings.partitionkeyextractor
        self._structured = settings.contentmode == "structured"
        self._batch_bytes = BATCH_BYTES
        self._cluster = KafkaCluster(
            servers=tuple(servers_of(sink)),
            clientid=settings.clientid,
            acks=settings.acks,
            tls=sink.lower().startswith("kafkas:"),
            cacertificate=settings.cacertificate,
            saslmechanism=settings.saslmechanism,
            credential=subscription.credential,
        )

    async def send(self, events: Sequence[OutgoingEvent]) -> Sequence[SinkAnswer]:
        answers: list[SinkAnswer] = []
        while True:
            answers += await self._send(events[len(answers) :])
            if answers[-1] is not _TOGETHER_TOO_LARGE:
                return answers
            # The next batches are smaller; in the end, each batch has one record.
            answers.pop()

    async def _send(self, events: Sequence[OutgoingEvent]) -> list[SinkAnswer]:
        records = [
            record_of(event, number, key_attribute=self._key_attribute, structured=self._structured)
            for number, event in enumerate(events)
        ]
        answers: list[SinkAnswer | None] = [None] * len(events)
        refused = _NOT_TRIED
        lent: KafkaProducer | None = None
        try:
            async with asyncio.timeout(self._seconds), self._producers.hold(self._cluster) as lent:
                await self._append_all(lent, records, answers)
        except (errors.KafkaError, OSError) as error:
            refused = _refused(error if lent is None else lent.cause_of(error))
        return up_to_first_failure(answer or refused for answer in answers)

    async def _append_all(
        self,
        producer: KafkaProducer,
        records: Sequence[KafkaRecord],
        answers: list[SinkAnswer | None],
    ) -> None:
        partitions = await producer.partitions(self._topic)
        await asyncio.gather(
            *(
                self._append(producer, partition, found, answers)
                for partition, found in by_partition(records, partitions, partition_of).items()
            )
        )

    async def _append(
        self,
        producer: KafkaProducer,
        partition: int,
        records: Sequence[KafkaRecord],
        answers: list[SinkAnswer | None],
    ) -> None:
        """Append records to a partition up to the first failure, and note the answers."""
        for batch in batches_of(records, self._batch_bytes):
            try:
                offset = await producer.append(self._topic, partition, batch)
            except (errors.KafkaError, OSError) as error:
                cause = producer.cause_of(error)
                answers[batch[0].number] = self._why_not_appended(batch, cause)
                return
            for place, record in enumerate(batch):
                where = "not acknowledged" if offset < 0 else f"offset {offset + place}"
                answers[record.number] = Delivered(detail=f"partition {partition}, {where}")

    def _why_not_appended(self, batch: Sequence[KafkaRecord], error: BaseException) -> SinkRefused:
        if isinstance(error, _TOO_LARGE) and len(batch) > 1:
            self._batch_bytes = sum(each.size for each in batch) // 2
            return _TOGETHER_TOO_LARGE
        return _refused(error)


def _refused(error: BaseException) -> SinkRefused:
    return SinkRefused(
        reason=_reason_of(error),
        cause=described(error),
        is_final=isinstance(error, _TOO_LARGE),
        is_unauthorized=isinstance(error, errors.SaslAuthenticationFailed),
    )


def _reason_of(error: BaseException) -> str:
    late = "the sink did not acknowledge in time"
    match error:
        case errors.MessageSizeTooLargeError() | errors.RecordListTooLargeError():
            return "the broker takes no record as large as this event"
        case errors.SaslAuthenticationFailed():
            return "the broker refused the sink credential"
        case errors.UnsupportedSaslMechanismError():
            return "the broker does not offer this SASL mechanism"
        case errors.UnknownTopicOrPartitionError() | errors.InvalidTopicError():
            return "the broker has no topic of this name"
        case errors.TopicAuthorizationFailedError() | errors.ClusterAuthorizationFailedError():
            return "the broker does not permit this client to write to the topic"
        case errors.NotEnoughReplicasError() | errors.NotEnoughReplicasAfterAppendError():
            return "too few replicas of the partition are in step"
        case TimeoutError() | errors.KafkaTimeoutError():
            return late
        case errors.RequestTimedOutError() | errors.NodeNotReadyError():
            return late
        case errors.KafkaConnectionError():
            return (
                "the sink ended the connection: it may want TLS (kafkas://), or a sink credential"
            )
        case OSError():
            return f"the sink {why_unreachable(error)}"
        case _:
            return f"the broker answered {type(error).__name__}"
