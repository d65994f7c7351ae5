"""Sends and receives a weather station by generated code, in an environment of its own.

Run as a program with the way of a CloudEvent, `structured` or `binary`. The record that the
generated producer sends goes to the generated consumer. Prints both as JSON: the record, and the
station that the consumer's handler was given.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import weather_data
from weather_kafka_consumer.dispatcher import DEDWDCDCEventDispatcher
from weather_kafka_producer.producer import DEDWDCDCEventProducer


class Broker:
    """Keeps the record that a producer sends, as a consumer would receive the record."""

    def __init__(self) -> None:
        self.record: dict[str, Any] = {}

    def produce(self, topic: str, **record: Any) -> None:
        self.record = {"topic": topic, **record}

    def flush(self) -> None:
        """Nothing waits."""

    def topic(self) -> str:
        return str(self.record["topic"])

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 0

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def error(self) -> None:
        """There is no error."""

    def key(self) -> bytes:
        key = self.record["key"]
        return key.encode() if isinstance(key, str) else key

    def value(self) -> bytes:
        value = self.record["value"]
        return value.encode() if isinstance(value, str) else value

    def headers(self) -> list[tuple[str, bytes]]:
        return [*self.record["headers"].items()]


async def main(mode: str) -> None:
    broker, received = Broker(), []
    producer = DEDWDCDCEventProducer(broker, "dwd", mode)
    station = weather_data.StationMetadata(
        station_id="00044",
        station_name="Großenkneten",
        latitude=52.9,
        longitude=8.2,
        elevation=44.0,
        state="Niedersachsen",
        from_date="1991-01-01",
        to_date="2026-01-01",
    )
    producer.send_de_dwd_cdc_station_metadata("00044", station)
    dispatcher = DEDWDCDCEventDispatcher()

    async def handle(consumer: Any, message: Any, event: Any, data: Any) -> None:
        received.append(data)

    dispatcher.de_dwd_cdc_station_metadata_async = handle
    await dispatcher.process_message(None, broker)
    headers = {name: value.decode() for name, value in broker.headers()}
    record = {"headers": headers, "key": broker.key().decode(), "value": broker.value().decode()}
    [data] = received
    print(json.dumps({"record": record, "station": data.station_name, "id": data.station_id}))


asyncio.run(main(sys.argv[1]))
