"""Services as endpoints: what is written is read back, whatever was there before."""

from __future__ import annotations

import string
import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.dialects.bodypath import BodyPath
from catalog.dialects.discovery.attributechecks import faults
from catalog.dialects.discovery.composer import ExistingService, Operation, Put, Remove, process
from catalog.dialects.discovery.events import StoredService
from catalog.dialects.discovery.translate import (
    NAMESPACE,
    from_entities,
    is_service_id,
    service_id,
    to_entities,
)
from catalog.model.attributes import check_attributes
from catalog.model.concorderrors import ServiceNameTaken
from catalog.model.errors import NotFound
from catalog.model.modelsource import default_model
from catalog.model.xid import is_valid_id

BASE = "https://catalog.example"
MODEL = default_model()
ENDPOINT = MODEL.groups["endpoints"].own_attributes
MESSAGE_TYPE = MODEL.resource_type("endpoints", "messages")
assert MESSAGE_TYPE is not None
MESSAGE = MESSAGE_TYPE.version_attributes

words = st.text(string.ascii_letters + string.digits + " .-ä", min_size=1, max_size=12)
urls = st.from_regex(r"https?://[a-z]{1,8}\.example/[a-z]{0,5}", fullmatch=True)
uris = urls | st.just("urn:example:schema")
media_types = st.sampled_from(["application/json", "text/plain; charset=utf-8", "a/b+c"])
extensions = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.from_regex(r"[a-z0-9]{3,8}x", fullmatch=True),
            "type": st.sampled_from(["String", "string", "URI-reference", "Boolean", "Timestamp"]),
        },
        optional={"specurl": uris, "note": words},
    ),
    max_size=3,
    unique_by=lambda one: one["name"],
)
schemas = st.sampled_from(['{"type":  "object", "a": 1.0}', "<schema/>", "{", '{"b":1,"a":2}'])
events = st.fixed_dictionaries(
    {"type": st.sampled_from(["a", "b", "com.example.a", "with space", "ü", "-"]) | words},
    optional={
        "description": words,
        "specversions": st.lists(st.sampled_from(["1.0", "0.3"]), min_size=1, max_size=2),
        "datacontenttype": media_types,
        "dataschematype": media_types,
        "dataschemacontent": schemas,
        "sourcetemplate": st.sampled_from(["https://a.example/{id}", "{a}{b.c}", "plain"]),
        "extensions": extensions,
        "unknown": st.integers(0, 3) | words,
    },
) | st.fixed_dictionaries({"type": words, "dataschema": uris})
services = st.fixed_dictionaries(
    {
        "name": words,
        "protocols": st.lists(
            st.sampled_from(["HTTP", "AMQP", "MQTT3", "X", "amqp/1.0"]), min_size=1, max_size=3
        ),
    },
    optional={
        "description": words,
        "docsurl": uris,
        "specversions": st.lists(
            st.sampled_from(["1.0", "0.3", "1.x-wip"]), min_size=1, max_size=3
        ),
        "subscriptionurl": uris,
        "subscriptionconfig": st.dictionaries(words, words, max_size=2),
        "subscriptiondialects": st.lists(words, max_size=2),
        "authscope": words,
        "deprecated": st.fixed_dictionaries({}, optional={"alternative": urls, "docsurl": urls}),
        "events": st.lists(events, max_size=4),
        "x-unknown": st.lists(words, max_size=2),
    },
)

# Anything that native clients can store, as far as services look at it.
junk = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | words | st.just("HTTP"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "type", "value", "events", "extensions", "attributes", "uri"])
            | st.sampled_from(["without", "dataschemacontent", "specurl", "source", "endpoints"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
native_messages = st.dictionaries(
    st.sampled_from(["a", "b", "A1", "com.example.a", "_"]),
    st.dictionaries(
        st.sampled_from(["envelopemetadata", "description", "discovery", "dataschema"])
        | st.sampled_from(["dataschemauri", "datacontenttype", "specversions"]),
        junk,
        max_size=4,
    ).flatmap(
        lambda held: st.sampled_from(["CloudEvents/1.0", "AMQP/1.0"]).map(
            lambda envelope: {**held, "envelope": envelope}
        )
    ),
    max_size=4,
)
natives = st.builds(
    StoredService,
    id=st.just("native"),
    attributes=st.dictionaries(
        st.sampled_from(["description", "documentation", "discovery", "protocol", "protocols"])
        | st.sampled_from(["envelope", "specversions", "subscriptionurl", "protocoloptions"])
        | st.sampled_from(["deprecated", "subscriptionconfig", "authscope", "channel"]),
        junk,
        max_size=5,
    ).map(lambda held: {**held, "usage": ["subscriber", "consumer"]}),
    messages=native_messages,
    shared=native_messages.map(
        lambda held: {f"/messagegroups/g/messages/{id}": one for id, one in held.items()}
    ),
)


def patched(held: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """What the engine makes of a patch."""
    return {name: value for name, value in {**held, **patch}.items() if value is not None}


def written(service: Mapping[str, Any], held: StoredService) -> StoredService:
    patch = to_entities(service, held, BASE)
    assert not {*patch.deleted} & {*patch.messages}
    messages = {id: one for id, one in held.messages.items() if id not in patch.deleted}
    for id, message in patch.messages.items():
        assert is_valid_id(id)
        messages[id] = patched(messages.get(id, {}), message)
    assert len({id.lower() for id in messages}) == len(messages)
    return StoredService(
        id=held.id,
        attributes=patched(held.attributes, patch.endpoint),
        messages=messages,
        shared=held.shared,
    )


@given(service=services)
@settings(max_examples=150)
def test_a_service_is_stored_as_the_model_has_endpoints_and_reads_back(service: Any) -> None:
    assert not [*faults(service, BodyPath("/services"))]
    held = written(service, StoredService(id="new"))
    stored, violations = check_attributes(
        held.attributes, ENDPOINT, subject="/endpoints/new", model=MODEL
    )
    assert not violations, violations
    messages = {}
    for id, message in held.messages.items():
        messages[id], violations = check_attributes(
            message, MESSAGE, subject=f"/endpoints/new/messages/{id}", model=MODEL
        )
        assert not violations, violations
    assert (
        from_entities(StoredService(id="new", attributes=stored, messages=messages), BASE)
        == service
    )


@given(first=services, second=services)
@settings(max_examples=200)
def test_a_service_that_is_replaced_reads_back(first: Any, second: Any) -> None:
    held = written(second, written(first, StoredService(id="new")))
    assert from_entities(held, BASE) == second


@given(held=natives)
@settings(max_examples=200)
def test_whatever_is_stored_can_be_shown_and_what_is_shown_fulfils_the_constraints(
    held: StoredService,
) -> None:
    shown = from_entities(held, BASE)
    shown.setdefault("protocols", ["HTTP"])
    assert not [*faults(shown, BodyPath("/services"))]


@given(held=natives, service=services)
@settings(max_examples=200)
def test_a_native_endpoint_that_is_replaced_as_a_service_reads_back(
    held: StoredService, service: Any
) -> None:
    after = written(service, held)
    assert {**service, "events": service.get("events", [])} == {
        "events": [],
        **from_entities(after, BASE),
    }
    assert after.attributes.get("channel") == held.attributes.get("channel")
    assert after.attributes["usage"] == held.attributes["usage"]


@given(held=natives)
@settings(max_examples=150)
def test_what_is_written_as_it_was_read_changes_nothing(held: StoredService) -> None:
    held = written({"name": "n", "protocols": ["HTTP"], **from_entities(held, BASE)}, held)
    patch = to_entities(from_entities(held, BASE), held, BASE)
    assert patch.endpoint == {}
    assert patch.messages == {}
    assert patch.deleted == []


def test_what_an_endpoint_and_a_service_both_have_is_in_the_native_place() -> None:
    service = {
        "name": "widgets",
        "description": "Things",
        "docsurl": "https://example.com/docs",
        "specversions": ["1.0"],
        "protocols": ["HTTP"],
        "subscriptionurl": "https://example.com/subscriptions",
        "events": [
            {
                "type": "com.example.made",
                "description": "One was made",
                "datacontenttype": "application/json",
                "dataschemacontent": '{"type": "object"}',
                "sourcetemplate": "https://example.com/{id}",
                "extensions": [{"name": "dataref", "type": "URI-reference"}],
            },
            {"type": "com.example.gone", "dataschema": "https://example.com/schema"},
        ],
    }
    held = written(service, StoredService(id="new"))
    assert held.attributes == {
        "usage": ["subscriber"],
        "name": "widgets",
        "description": "Things",
        "documentation": "https://example.com/docs",
        "envelope": "CloudEvents/1.0",
        "protocol": "HTTP",
        "protocoloptions": {"endpoints": [{"uri": "https://example.com/subscriptions"}]},
        "discovery": {"events": ["com.example.made", "com.example.gone"]},
    }
    assert held.messages["com.example.gone"] == {
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": {"type": {"value": "com.example.gone"}},
        "dataschemauri": "https://example.com/schema",
    }
    made = dict(held.messages["com.example.made"])
    del made["discovery"]
    assert made == {
        "envelope": "CloudEvents/1.0",
        "description": "One was made",
        "datacontenttype": "application/json",
        "dataschema": {"type": "object"},
        "envelopemetadata": {
            "type": {"value": "com.example.made"},
            "source": {"type": "uritemplate", "value": "https://example.com/{id}"},
            "dataref": {"type": "uri-reference"},
        },
    }


def test_messages_that_are_no_events_are_left_alone() -> None:
    other = {"envelope": "AMQP/1.0", "description": "no event"}
    held = StoredService(id="e", attributes={"usage": ["subscriber"]}, messages={"m": other})
    after = written({"name": "n", "protocols": ["X"], "events": [{"type": "m"}]}, held)
    assert after.messages["m"] == other
    assert len(after.messages) == 2


def test_messages_of_an_endpoints_groups_are_events_that_a_service_can_do_without() -> None:
    shared = {
        f"/messagegroups/g/messages/{id}": {"envelope": "CloudEvents/1.0"} for id in ("a", "b")
    }
    held = StoredService(id="e", attributes={"usage": ["subscriber"]}, shared=shared)
    assert from_entities(held, BASE)["events"] == [{"type": "a"}, {"type": "b"}]
    service = {"name": "n", "protocols": ["X"], "events": [{"type": "b"}]}
    after = written(service, held)
    assert after.messages == {}
    assert from_entities(after, BASE) == service


GOOD: dict[str, Any] = {"name": "n", "protocols": ["HTTP"]}


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ({"name": None}, "name"),
        ({"name": ""}, "name"),
        ({"name": 5}, "name"),
        ({"name": "x" * 1001}, "name"),
        ({"description": ""}, "description"),
        ({"docsurl": ""}, "docsurl"),
        ({"docsurl": "docs/here"}, "docsurl"),
        ({"specversions": []}, "specversions"),
        ({"specversions": [""]}, "specversions"),
        ({"specversions": "1.0"}, "specversions"),
        ({"subscriptionurl": "/subscriptions"}, "subscriptionurl"),
        ({"subscriptionconfig": {"a": 1}}, "subscriptionconfig"),
        ({"subscriptionconfig": []}, "subscriptionconfig"),
        ({"subscriptiondialects": "basic"}, "subscriptiondialects"),
        ({"authscope": ""}, "authscope"),
        ({"protocols": None}, "protocols"),
        ({"protocols": []}, "protocols"),
        ({"protocols": [1]}, "protocols"),
        ({"deprecated": 1}, "deprecated"),
        ({"events": {}}, "events"),
        ({"events": [1]}, "events[0]"),
        ({"events": [{}]}, "events[0].type"),
        ({"events": [{"type": ""}]}, "events[0].type"),
        ({"events": [{"type": "t", "description": ""}]}, "events[0].description"),
        ({"events": [{"type": "t", "datacontenttype": "json"}]}, "events[0].datacontenttype"),
        ({"events": [{"type": "t", "dataschema": ""}]}, "events[0].dataschema"),
        ({"events": [{"type": "t", "dataschematype": "x y/z"}]}, "events[0].dataschematype"),
        ({"events": [{"type": "t", "dataschemacontent": ""}]}, "events[0].dataschemacontent"),
        ({"events": [{"type": "t", "dataschemacontent": {}}]}, "events[0].dataschemacontent"),
        (
            {"events": [{"type": "t", "dataschema": "a:b", "dataschemacontent": "c"}]},
            "events[0].dataschemacontent",
        ),
        ({"events": [{"type": "t", "sourcetemplate": "{+id}"}]}, "events[0].sourcetemplate"),
        ({"events": [{"type": "t", "sourcetemplate": "{a,b}"}]}, "events[0].sourcetemplate"),
        ({"events": [{"type": "t", "sourcetemplate": "{id"}]}, "events[0].sourcetemplate"),
        ({"events": [{"type": "t", "extensions": {}}]}, "events[0].extensions"),
        ({"events": [{"type": "t", "extensions": [1]}]}, "events[0].extensions[0]"),
        (
            {"events": [{"type": "t", "extensions": [{"type": "String"}]}]},
            "events[0].extensions[0].name",
        ),
        (
            {"events": [{"type": "t", "extensions": [{"name": "Abc", "type": "String"}]}]},
            "events[0].extensions[0].name",
        ),
        (
            {"events": [{"type": "t", "extensions": [{"name": "source", "type": "String"}]}]},
            "events[0].extensions[0].name",
        ),
        (
            {"events": [{"type": "t", "extensions": [{"name": "abc"}]}]},
            "events[0].extensions[0].type",
        ),
        (
            {"events": [{"type": "t", "extensions": [{"name": "abc", "type": "Decimal"}]}]},
            "events[0].extensions[0].type",
        ),
        (
            {
                "events": [
                    {"type": "t", "extensions": [{"name": "a", "type": "String", "specurl": "{"}]}
                ]
            },
            "events[0].extensions[0].specurl",
        ),
        (
            {"events": [{"type": "t", "extensions": [{"name": "a", "type": "String"}] * 2}]},
            "events[0].extensions[1].name",
        ),
    ],
)
def test_what_breaks_a_constraint_is_named(part: Any, name: str) -> None:
    assert not [*faults(GOOD, BodyPath("/services"))]
    found = [*faults({**GOOD, **part}, BodyPath("/services"))]
    assert [error.arguments.get("name") or error.arguments.get("list") for error in found] == [name]


def test_an_endpoint_that_was_created_as_a_service_has_the_services_id() -> None:
    id = "cbdd62e8-c095-11ea-b3de-0242ac130004"
    assert service_id("urn:a", f"/endpoints/{id}") == id


@given(authority=words, gid=words)
def test_any_other_id_is_derived_from_the_endpoints_origin(authority: str, gid: str) -> None:
    id = service_id(authority, f"/endpoints/{gid}")
    assert is_service_id(id)
    assert id == str(uuid.uuid5(NAMESPACE, f"{authority}\n/endpoints/{gid}"))


IDS = ["1", "2", "3"]
NAMES = ["x", "X", "y", "z"]
operations = st.lists(
    st.builds(
        Put,
        id=st.sampled_from(IDS),
        service=st.sampled_from(NAMES).map(lambda name: {"name": name}),
        must_exist=st.booleans(),
        least_epoch=st.integers(0, 5),
    )
    | st.builds(Remove, id=st.sampled_from(IDS)),
    max_size=6,
)
catalogs = st.dictionaries(st.sampled_from(IDS), st.sampled_from(["x", "y", "z"])).filter(
    lambda names: len({*names.values()}) == len(names)
)


def one_by_one(names: dict[str, str], asked: list[Operation]) -> dict[str, str] | None:
    """What a server would have in the end that did each of these for itself."""
    names = dict(names)
    for one in asked:
        if isinstance(one, Remove):
            if names.pop(one.id, None) is None:
                return None
            continue
        if one.must_exist and one.id not in names:
            return None
        if any(id != one.id and name == one.name.lower() for id, name in names.items()):
            return None
        names[one.id] = one.name.lower()
    return names


@given(names=catalogs, asked=operations)
@settings(max_examples=500)
def test_processing_ends_as_if_each_service_was_processed_alone_or_refuses_all(
    names: dict[str, str], asked: list[Operation]
) -> None:
    expected = one_by_one(names, asked)
    folded = {name: name.lower() for name in NAMES}
    held = {id: ExistingService(name=name, xid=f"/endpoints/{id}") for id, name in names.items()}
    if expected is None:
        with pytest.raises((ServiceNameTaken, NotFound)):
            process(asked, held, folded, {})
        return
    done = process(asked, held, folded, {})
    after = dict(names)
    for id, operation in done.items():
        after.pop(id, None)
        if isinstance(operation, Put):
            after[id] = operation.name.lower()
    assert after == expected


@given(held=st.integers(0, 200), copies=st.lists(st.integers(0, 200), min_size=1, max_size=4))
def test_a_service_that_is_imported_repeatedly_has_the_epoch_of_one_import_after_another(
    held: int, copies: list[int]
) -> None:
    epoch = held
    for copy in copies:
        epoch = max(epoch, copy) + 1
    puts = [Put(id="1", service={"name": "x"}, least_epoch=copy) for copy in copies]
    done = process(puts, {}, {"x": "x"}, {"1": held})["1"]
    assert isinstance(done, Put)
    assert max(held, done.least_epoch) + 1 == epoch


def test_a_name_that_is_taken_is_refused_on_behalf_of_who_has_it() -> None:
    held = {"1": ExistingService(name="x", xid="/endpoints/one")}
    with pytest.raises(ServiceNameTaken) as refusal:
        process([Put(id="2", service={"name": "X"})], held, {"X": "x"}, {})
    assert refusal.value.subject == "/endpoints/one"
    twice = [Put(id=id, service={"name": "X"}) for id in ("2", "3")]
    with pytest.raises(ServiceNameTaken) as refusal:
        process(twice, {}, {"X": "x"}, {})
    assert refusal.value.subject == "/services"
