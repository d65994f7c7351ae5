"""Laws of the rewriting of endpoints' addresses: it can be undone, and matches no other host."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.model.entity import Entity
from catalog.model.modelsource import default_model
from replication.deciding.placement import (
    NO_RULES,
    AddressRules,
    read_names,
    rewrite_copies,
    why_no_rules,
    write_names,
)
from replication.feed.feedlines import read_line, write_copy

NOW = datetime(2030, 1, 1, tzinfo=UTC)
schemes = st.sampled_from(["amqp", "https", "HTTPS"])
hosts = st.sampled_from(["a", "A", "a.internal", "b", "[::1]"])
ports = st.sampled_from(["", ":1", ":12"])
paths = st.lists(st.sampled_from(["", "x", "xy", "x=1"]), max_size=3).map(
    lambda steps: "".join(f"/{step}" for step in steps)
)
urls = st.builds(lambda s, h, port, path: f"{s}://{h}{port}{path}", schemes, hosts, ports, paths)
brokers = st.builds(lambda host, port: f"kafka://{host}{port}", hosts, ports)
tables = st.dictionaries(urls, urls, max_size=4) | st.dictionaries(brokers, brokers, max_size=2)
rules = tables.filter(lambda table: not why_no_rules(table)).map(AddressRules)
addresses = st.builds(
    lambda user, url, rest: url.replace("://", f"://{user}") + rest,
    st.sampled_from(["", "user@", "a:1@"]),
    urls,
    st.sampled_from(["", "?x", "#x", "{?x}", "{/x}", "{x}", "x", "@b", ".evil/"]),
)
anything = st.recursive(
    st.none() | st.integers(-5, 5) | addresses,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["uri", "bootstrap.servers", "x"]), inner, max_size=2)
    ),
    max_leaves=6,
)
entries = (
    st.builds(lambda uri: {"uri": uri}, addresses)
    | st.builds(
        lambda brokers: {"bootstrap.servers": brokers},
        st.lists(brokers.map(lambda url: url.removeprefix("kafka://")), max_size=3),
    )
    | anything
)
endpoints = st.fixed_dictionaries(
    {},
    optional={
        "protocoloptions": st.fixed_dictionaries(
            {"deployed": st.just(True)}, optional={"endpoints": st.lists(entries, max_size=3)}
        )
        | anything,
        "subscriptionurl": addresses | anything,
        "description": addresses,
    },
)


def endpoint(attributes: dict[str, Any]) -> Entity:
    return Entity(
        xid="/endpoints/e",
        kind="group",
        authority="urn:theirs",
        origin="/endpoints/e",
        epoch=1,
        attributes=attributes,
        createdat=NOW,
        modifiedat=NOW,
    ).sealed()


@given(endpoints, rules, rules)
def test_rewriting_is_undone_without_loss_and_leaves_the_digest(
    attributes: dict[str, Any], table: AddressRules, later: AddressRules
) -> None:
    came = endpoint(attributes)
    line = write_copy(came)
    read = read_line(line)
    assert isinstance(read, Entity)
    [placed] = rewrite_copies([read], table)
    assert isinstance(placed, Entity)
    assert placed.is_intact()
    assert placed.digest == came.digest
    assert placed.published == came.attributes
    assert write_copy(placed) == line
    assert placed.attributes.keys() == came.attributes.keys()
    assert placed.attributes.get("description") == came.attributes.get("description")
    assert table.apply(placed) == placed
    assert later.apply(placed) == later.apply(read)
    assert NO_RULES.apply(placed) == read


@given(urls, rules)
def test_the_rule_with_the_longest_path_and_then_a_port_is_taken(
    address: str, table: AddressRules
) -> None:
    """Standard parsing of the URLs, step by step, chooses the same rule."""

    def steps(url: str) -> list[str]:
        return urlsplit(url).path.rstrip("/").split("/")

    parts, fitting = urlsplit(address), []
    for there, here in table.rules.items():
        wanted = urlsplit(there)
        depth = len(steps(there))
        if (
            (wanted.scheme, wanted.hostname) == (parts.scheme, parts.hostname)
            and wanted.port in (None, parts.port)
            and parts.path.split("/")[:depth] == steps(there)
        ):
            length = len("/".join(steps(there)))
            fitting.append((length, wanted.port is not None, here))
    if not fitting:
        assert table.address(address) == address
        return
    length, has_port, here = max(fitting)
    shown, expected = urlsplit(table.address(address)), urlsplit(here)
    assert (shown.scheme, shown.hostname) == (expected.scheme, expected.hostname)
    assert shown.port == (expected.port or (None if has_port else parts.port))
    assert shown.path == expected.path.rstrip("/") + parts.path[length:]


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("amqp://broker.a:5672/queue", "amqps://bridge.b:5673/queue"),
        ("amqp://user@broker.a:5672", "amqps://user@bridge.b:5673"),
        ("amqp://broker.a:56721/queue", None),
        ("amqp://broker.a:5672@evil.example.com/", None),
        ("amqp://broker.a:5672\\@evil.example.com/", None),
        ("https://api.a", "https://bridge.b/a"),
        ("HTTPS://API.A/Orders", "https://bridge.b/a/Orders"),
        ("https://api.a:8443/x?y#z", "https://bridge.b:8443/a/x?y#z"),
        ("https://api.a.example.com/x", None),
        ("https://api.ab/x", None),
        ("http://api.a/x", None),
        ("https://api.a{/tenant}{?x}", "https://bridge.b/a{/tenant}{?x}"),
        ("https://api.a:{port}/{tenant}", "https://bridge.b:{port}/a/{tenant}"),
        ("https://api.a{domain}/x", None),
        ("https://{tenant}.api.a/x", None),
        ("https://api.a/v2/x", "https://two.b:444/x"),
        ("https://api.a/v2{?x}", "https://two.b:444{?x}"),
        ("https://api.a/v2x", "https://bridge.b/a/v2x"),
        ("api.a/v2", None),
    ],
)
def test_an_address_is_compared_part_by_part(address: str, shown: str | None) -> None:
    table = AddressRules(
        {
            "amqp://broker.a:5672": "amqps://bridge.b:5673",
            "https://api.a": "https://bridge.b/a/",
            "https://api.a/v2/": "https://two.b:444",
        }
    )
    assert table.address(address) == (address if shown is None else shown)


def test_the_addresses_of_all_protocols_are_rewritten() -> None:
    table = AddressRules({"kafka://a:1": "kafka://b:2", "x://a": "x://b"})
    types = default_model().groups["endpoints"].own_attributes["protocol"].ifvalues
    assert len(types) > 5
    for protocol, siblings in types.items():
        options = siblings["protocoloptions"].attributes["endpoints"]
        assert options.item is not None
        [name] = {"uri", "bootstrap.servers"} & options.item.attributes.keys()
        there: Any = {"uri": "x://a/q", "bootstrap.servers": ["a:1", "c:1"]}[name]
        here: Any = {"uri": "x://b/q", "bootstrap.servers": ["b:2", "c:1"]}[name]
        shown = table.apply(endpoint({"protocoloptions": {"endpoints": [{name: there, "k": 1}]}}))
        assert shown.attributes["protocoloptions"]["endpoints"] == [{name: here, "k": 1}], protocol


def test_only_the_first_hundred_entries_and_brokers_are_looked_at() -> None:
    table = AddressRules({"kafka://a": f"kafka://{'b' * 200}"})
    brokers = {"bootstrap.servers": ["a:1"] * 1000}
    came = endpoint({"protocoloptions": {"endpoints": [brokers] * 1000}})
    listed = table.apply(came).attributes["protocoloptions"]["endpoints"]
    assert listed[100:] == [brokers] * 900
    assert listed[99]["bootstrap.servers"][99].startswith("bbb")
    assert listed[99]["bootstrap.servers"][100:] == ["a:1"] * 900


@given(tables)
def test_a_table_of_rules_is_stored_without_loss(table: dict[str, str]) -> None:
    if not why_no_rules(table):
        assert read_names(write_names(table)) == table


@pytest.mark.parametrize(
    "table",
    [
        {"amqp://a": "b"},
        {"a:5672": "amqp://b"},
        {"amqp://": "amqp://b"},
        {"amqp://a/*": "amqp://b"},
        {"amqp://a:0": "amqp://b"},
        {"amqp://a:65536": "amqp://b"},
        {"amqp://user@a": "amqp://b"},
        {"https://a?x": "https://b"},
        {"https://a": "https://b#x"},
        {"https://a/x=y": "https://b"},
        {"https://a/{x}": "https://b"},
        {"https://a": "https://b/\n"},
        {"https://a": "https://b", "HTTPS://A/": "https://c"},
        {"https://a": f"https://{'b' * 248}"},
        {"kafka://a:9092": "https://b"},
        {"https://a": "kafka://b"},
        {"kafka://a:9092/x": "kafka://b:9092"},
    ],
)
def test_senseless_rules_are_refused(table: dict[str, str]) -> None:
    assert why_no_rules(table)
