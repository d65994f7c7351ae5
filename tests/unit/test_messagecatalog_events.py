"""How a change becomes an event of the Message Catalog API, and who hears of it so."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from catalog.dialects.messagecatalog.events import EVENTS, events_of
from catalog.model.change import Change
from catalog.store.changes import LoggedChange, Position
from catalog.subscriptions.delivery.eventdialects import wants_dialect
from catalog.subscriptions.sinks.httpsink import binary, structured
from catalog.subscriptions.stored.subscriptions import SubscriptionDefinition

BASE = "https://source.example.com"
AT = datetime(2020, 10, 30, 17, 31, tzinfo=UTC)


def logged(**change: Any) -> LoggedChange:
    defaults: dict[str, Any] = {
        "xid": "/messagegroups/5",
        "kind": "group",
        "action": "updated",
        "authority": "https://authority.example",
        "origin": "/messagegroups/5",
        "epoch": 3,
        "digest": b"\x01\xff",
    }
    return LoggedChange(
        position=Position(7, 9),
        interaction="interaction-1",
        at=AT,
        change=Change(**{**defaults, **change}),
    )


def rendered(**change: Any) -> list[CloudEvent]:
    return events_of(logged(**change), source=BASE, time=AT)


def test_an_event_says_what_the_api_says_and_carries_no_data() -> None:
    [event] = rendered(xid="/messagegroups/5/messages/1/versions/3", kind="version")
    attributes = dict(event.get_attributes())
    assert attributes.pop("id")
    assert attributes == {
        "specversion": "1.0",
        "type": "io.cloudevents.messagecatalog.updated.v1",
        "source": BASE,
        "subject": "/messagecatalog/5/messagedefinitions/1/versions/3",
        "time": AT,
        "sequence": str(Position(7, 9)),
        "epoch": "3",
        "authority": "https://authority.example",
        "digest": "01ff",
    }
    assert event.get_data() is None


@pytest.mark.parametrize(
    ("action", "verb"), [("created", "updated"), ("updated", "updated"), ("deleted", "deleted")]
)
def test_what_is_created_counts_as_updated(action: Any, verb: str) -> None:
    [event] = rendered(xid="/messagegroups/5/messages/78", kind="resource", action=action)
    assert event.get_type() == f"io.cloudevents.messagecatalog.{verb}.v1"
    assert event.get_subject() == "/messagecatalog/5/messagedefinitions/78"


@pytest.mark.parametrize(
    "xid",
    [
        "/",
        "/schemagroups/5",
        "/endpoints/e/messages/m",
        "/messagegroups/5/messages/m/versions/v1",
        "/messagegroups/5/others/m",
    ],
)
def test_what_the_api_does_not_show_has_no_event(xid: str) -> None:
    assert rendered(xid=xid) == []


@pytest.mark.parametrize("encode", [binary, structured])
def test_an_event_without_data_survives_the_wire(
    encode: Callable[[CloudEvent], HTTPMessage],
) -> None:
    [event] = rendered()
    message = encode(event)
    assert not message.body or encode is structured
    back = from_http(message, JSONFormat(), CloudEvent)
    assert back.get_attributes() == event.get_attributes()
    assert not back.get_data()


PREFIX = {"prefix": {"subject": "/messagecatalog/5"}}


@pytest.mark.parametrize(
    "definition",
    [
        {"source": f"{BASE}/messagecatalog"},
        {"source": BASE, "filters": (PREFIX,)},
        {"filters": ({"any": [{"exact": {"subject": "/messagecatalog/g"}}]},)},
        {"types": ("io.cloudevents.messagecatalog.deleted.v1",)},
    ],
)
def test_who_can_only_mean_the_message_catalog_hears_its_events(definition: Any) -> None:
    subscription = SubscriptionDefinition(sink="https://s.example", **definition)
    assert wants_dialect(subscription, EVENTS, BASE)


@pytest.mark.parametrize(
    "definition",
    [
        {},
        {"source": BASE},
        {"filters": ({"not": PREFIX},)},
        {"filters": ({"suffix": {"subject": "/messagecatalog"}},)},
        {"types": ("io.cloudevents.messagecatalog.deleted.v1", "io.xregistry.group.created")},
    ],
)
def test_everybody_else_hears_those_of_the_registry(definition: Any) -> None:
    subscription = SubscriptionDefinition(sink="https://s.example", **definition)
    assert not wants_dialect(subscription, EVENTS, BASE)
