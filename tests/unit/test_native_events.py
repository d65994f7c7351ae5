"""How a change becomes CloudEvents."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import orjson
import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from catalog.model.change import REMOVED, Change
from catalog.store.changes import LoggedChange, Position
from catalog.subscriptions.delivery.eventdialects import events_of
from catalog.subscriptions.sinks.httpsink import binary, structured
from catalog.subscriptions.sinks.outgoing import texts_of

SOURCE = "https://catalog.example"
AT = datetime(2026, 3, 4, 5, 6, 7, 890000, tzinfo=UTC)


def logged(*, at: datetime = AT, seq: int = 9, **change: Any) -> LoggedChange:
    defaults: dict[str, Any] = {
        "xid": "/gs/g",
        "kind": "group",
        "action": "updated",
        "authority": "https://authority.example",
        "origin": "/gs/g",
        "epoch": 3,
        "digest": b"\x01\xff",
    }
    return LoggedChange(
        position=Position(7, seq),
        interaction="interaction-1",
        at=at,
        change=Change(**{**defaults, **change}),
    )


def test_an_event_says_what_happened_to_whom_and_when() -> None:
    [event] = events_of(logged(changed=("epoch", "name")), source=SOURCE)
    attributes = dict(event.get_attributes())
    assert attributes.pop("id")
    assert attributes == {
        "specversion": "1.0",
        "type": "io.xregistry.group.updated",
        "source": SOURCE,
        "subject": "/gs/g",
        "time": AT,
        "datacontenttype": "application/json",
        "xregcorrelationid": "interaction-1",
        "sequence": str(Position(7, 9)),
        "epoch": "3",
        "authority": "https://authority.example",
        "digest": "01ff",
    }
    assert event.get_data() == {"changed": ["epoch", "name"]}


@pytest.mark.parametrize("kind", ["registry", "group", "resource", "version"])
@pytest.mark.parametrize("action", ["created", "updated", "deleted"])
def test_the_type_names_kind_and_action(kind: Any, action: Any) -> None:
    [event] = events_of(logged(kind=kind, action=action), source=SOURCE)
    assert event.get_type() == f"io.xregistry.{kind}.{action}"


@pytest.mark.parametrize("action", ["created", "deleted"])
def test_only_updates_name_what_changed(action: Any) -> None:
    [event] = events_of(logged(action=action), source=SOURCE)
    assert event.get_data() == {}


def test_a_deprecation_is_a_second_event_with_an_id_of_its_own() -> None:
    change = logged(changed=("deprecated", "epoch"), deprecation=("alternative",))
    updated, deprecation = events_of(change, source=SOURCE)
    assert updated.get_data() == {"changed": ["deprecated", "epoch"]}
    assert deprecation.get_type() == "io.xregistry.group.deprecation"
    assert deprecation.get_subject() == "/gs/g"
    assert deprecation.get_data() == {"changed": ["alternative"]}
    assert updated.get_id() != deprecation.get_id()


def test_parts_of_the_registry_have_events_of_their_own() -> None:
    change = logged(kind="registry", xid="/", changed=("epoch", "model", "modelsource"))
    shown = [(e.get_type(), e.get_subject()) for e in events_of(change, source=SOURCE)]
    assert shown == [
        ("io.xregistry.registry.updated", "/"),
        ("io.xregistry.model.updated", "/model"),
        ("io.xregistry.modelsource.updated", "/modelsource"),
    ]


def test_the_event_of_the_capabilities_names_each_that_changed() -> None:
    """core/events.md, "capabilities Events"."""
    changed = ("capabilities", "capabilities.flags", "capabilities.pagination", "epoch")
    change = logged(kind="registry", xid="/", changed=changed)
    registry, capabilities = events_of(change, source=SOURCE)
    assert registry.get_data() == {"changed": ["capabilities", "epoch"]}
    assert capabilities.get_type() == "io.xregistry.capabilities.updated"
    assert capabilities.get_subject() == "/capabilities"
    assert capabilities.get_data() == {"changed": ["flags", "pagination"]}


def test_a_model_event_names_nothing_that_changed() -> None:
    change = logged(kind="registry", xid="/", changed=("model",))
    _, model = events_of(change, source=SOURCE)
    assert model.get_data() == {}


@pytest.mark.parametrize(
    ("names", "marks", "action"),
    [
        ("rc4", (), "deprecation"),
        ("rc4", (REMOVED,), "deprecation"),
        ("next", (), "deprecated"),
        ("next", (REMOVED,), "undeprecated"),
    ],
)
def test_deprecations_are_named_as_the_operator_wants(
    names: Any, marks: tuple[str, ...], action: str
) -> None:
    change = logged(changed=("deprecated",), deprecation=(*marks, "removal"))
    _, deprecation = events_of(change, source=SOURCE, names=names)
    assert deprecation.get_type() == f"io.xregistry.group.{action}"
    assert deprecation.get_data() == {"changed": ["removal"]}


def test_ids_are_stable_and_differ_between_changes() -> None:
    ids = [events_of(logged(seq=seq), source=SOURCE)[0].get_id() for seq in (1, 2, 1)]
    assert ids[0] == ids[2] != ids[1]


def test_times_are_shown_in_utc_exactly_as_recorded() -> None:
    eastern = AT.astimezone(timezone(timedelta(hours=-5)))
    [event] = events_of(logged(at=eastern), source=SOURCE)
    assert texts_of(event)["time"] == "2026-03-04T05:06:07.890000Z"


@pytest.mark.parametrize("encode", [binary, structured])
def test_both_content_modes_carry_the_same_event(
    encode: Callable[[CloudEvent], HTTPMessage],
) -> None:
    [event] = events_of(logged(xid="/gs/g", changed=("name",)), source=SOURCE)
    read = from_http(encode(event), JSONFormat(), CloudEvent)
    assert read.get_attributes() == event.get_attributes()
    assert read.get_data() == event.get_data()


def test_the_two_content_modes_look_as_their_binding_says() -> None:
    [event] = events_of(logged(action="created"), source=SOURCE)
    parts, whole = binary(event), structured(event)
    assert parts.headers["content-type"] == "application/json"
    assert parts.headers["ce-time"] == "2026-03-04T05:06:07.890000Z"
    assert parts.body == b"{}"
    assert whole.headers == {"content-type": "application/cloudevents+json"}
    assert orjson.loads(whole.body)["subject"] == "/gs/g"
