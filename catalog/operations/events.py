"""The operation of `/-/events`: the events of changes, as a stream of server-sent events."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from catalog.model.roles import Permission
from catalog.operations.operation import Content, Operation, StrictQuery, Term

LAST_EVENT_ID = "Last-Event-ID"
EVENT_STREAM = "text/event-stream"
END = "end"
"""The name of the event that ends a stream, with the reason as its data."""
_MOST_CONDITIONS = 100


class EventsQuery(StrictQuery):
    """The events that a stream tells, and where the stream begins."""

    source: Term | None = Field(
        default=None,
        description="Only events of this source: the URL of the node, or of one of its dialects, "
        "whose events come in the terms of the dialect.",
    )
    type: list[Term] = Field(
        default=[],
        max_length=_MOST_CONDITIONS,
        description="Only events of one of these types. Repeatable.",
    )
    filter: list[Annotated[str, Field(min_length=2, max_length=8192)]] = Field(
        default=[],
        max_length=_MOST_CONDITIONS,
        description="A filter of the CloudEvents Subscriptions API as JSON, such as "
        '`{"prefix":{"subject":"/messagegroups/shop/"}}`. Repeatable: an event has to match each.',
    )
    start: Term = Field(
        default="now",
        alias="from",
        description="The first event: `now`, `earliest`, the `id` of an event that was read last, "
        "or a time. The header `Last-Event-ID` takes precedence.",
    )


READ_EVENTS = Operation(
    "GET",
    "/-/events",
    Permission.READ,
    query=EventsQuery,
    is_bounded=False,
    is_kept=False,
    has_head=False,
    given={LAST_EVENT_ID: "The `id` of the last event that was read: the stream resumes after it"},
    content=Content(
        answered={
            EVENT_STREAM: {
                "type": "string",
                "description": "Server-sent events: each has a CloudEvent in JSON as its `data`, "
                "and the position in the log as its `id`.",
            }
        }
    ),
    refuses=(429, 503),
    description="Blocks without `data` come every 15 seconds, and move the `id` on. The last block "
    "of a stream that the node ends is an event `end` with the reason: the credential is no longer "
    "valid or its rights have changed, the reader is too slow, the node stops. A client connects "
    "again with `Last-Event-ID` and misses nothing, as long as the log of changes reaches back.",
)
