"""Events as a node renders them, for what is measured without one."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from cloudevents.core.v1.event import CloudEvent

from catalog.subscriptions.sinks.outgoing import OutgoingEvent


def event_about(subject: str, number: int = 0) -> OutgoingEvent:
    """An event about an update of an entity, with an id of its own.

    Args:
        number: its place in the log.
    """
    interaction = str(uuid.uuid4())
    return OutgoingEvent(
        CloudEvent(
            {
                "id": f"{interaction}-{number}.message.updated",
                "source": "http://127.0.0.1:8080",
                "type": "io.xregistry.resource.updated",
                "subject": subject,
                "time": datetime.now(UTC),
                "datacontenttype": "application/json",
                "xregcorrelationid": interaction,
                "sequence": f"{number:020}",
                "epoch": "7",
                "authority": "urn:uuid:7f0c1dbe-8d1c-4f6e-9f7a-1d1a5d2f9c11",
                "digest": "00" * 32,
            },
            {"changed": ["description", "envelopemetadata"]},
        )
    )
