from __future__ import annotations

from typing import Any

from replication.reconcile.catalogs import ReportedLink, SurveyedCatalog, expected_paths
from replication.reconcile.inputs.nodeinput import NodeInput
from replication.reconcile.topology import Topology, covers, topology_of

GROUP = "/messagegroups/g"


def catalog(name: str, *links: ReportedLink) -> SurveyedCatalog:
    return SurveyedCatalog(
        input=NodeInput(name=name, url=f"http://{name}:8080"),
        authority=f"https://{name}.example.com",
        instance=name,
        links=links,
        fingerprints={},
    )


def link(source: str, target: str, *authorities: str, scope: tuple[str, ...] = ()) -> ReportedLink:
    return ReportedLink(
        source=f"http://{source}:8080/",
        target=f"http://{target}:8080",
        authorities=authorities,
        scope=scope,
    )


def carries(topology: Topology, name: str, authority: str, origin: str = GROUP) -> bool:
    catalog = topology.coverage[topology.names.index(name)]
    coverage = catalog.get(f"https://{authority}.example.com")
    return coverage is not None and any(covers(path, origin) for path in coverage.subtrees)


def test_a_link_without_authorities_carries_what_its_source_owns() -> None:
    topology = topology_of([catalog("eu"), catalog("us"), catalog("hub", link("eu", "hub"))])

    assert carries(topology, "hub", "eu")
    assert not carries(topology, "hub", "us")
    assert not carries(topology, "us", "eu")


def test_a_relay_carries_on_what_it_carries_itself() -> None:
    topology = topology_of(
        [
            catalog("edge", link("hub", "edge", "*")),
            catalog("hub", link("eu", "hub")),
            catalog("eu"),
        ]
    )

    assert carries(topology, "edge", "eu")
    assert carries(topology, "edge", "hub")
    places = {name: place for place, name in enumerate(topology.names)}
    authority = "https://eu.example.com"
    assert [topology.hops(places[name], authority) for name in ("eu", "hub", "edge")] == [0, 1, 2]


def test_a_link_that_names_authorities_carries_no_others() -> None:
    hub = catalog("hub", link("eu", "hub"), link("us", "hub"))
    edge = catalog("edge", link("hub", "edge", "https://us.example.com"))
    topology = topology_of([catalog("eu"), catalog("us"), hub, edge])

    assert carries(topology, "edge", "us")
    assert not carries(topology, "edge", "eu")
    assert not carries(topology, "edge", "hub")


def test_a_scope_is_a_path_with_all_below_it_and_no_lookalikes() -> None:
    topology = topology_of([catalog("eu"), catalog("hub", link("eu", "hub", scope=(GROUP,)))])

    assert carries(topology, "hub", "eu", GROUP)
    assert carries(topology, "hub", "eu", f"{GROUP}/messages/m")
    assert not carries(topology, "hub", "eu", f"{GROUP}2")


def test_scopes_along_a_chain_leave_what_all_of_them_admit() -> None:
    hub = catalog("hub", link("eu", "hub", scope=("/messagegroups", "/endpoints/e")))
    edge = catalog("edge", link("hub", "edge", "*", scope=(GROUP, "/endpoints", "/schemagroups")))
    topology = topology_of([catalog("eu"), hub, edge])

    assert carries(topology, "edge", "eu", GROUP)
    assert carries(topology, "edge", "eu", "/endpoints/e")
    assert not carries(topology, "edge", "eu", "/messagegroups/other")
    assert not carries(topology, "edge", "eu", "/endpoints/f")
    assert not carries(topology, "edge", "eu", "/schemagroups/s")


def test_a_ring_of_relays_settles() -> None:
    ring = ["a", "b", "c"]
    topology = topology_of(
        [catalog(name, link(ring[place - 1], name, "*")) for place, name in enumerate(ring)]
    )

    assert all(carries(topology, name, owner) for name in ring for owner in ring)


def test_a_source_is_also_found_by_its_authority() -> None:
    told = ReportedLink(
        source="https://eu.example.com", target="http://hub:8080", authorities=(), scope=()
    )

    assert carries(topology_of([catalog("eu"), catalog("hub", told)]), "hub", "eu")


def test_a_relay_that_is_not_given_carries_what_it_was_asked_for() -> None:
    topology = topology_of([catalog("eu"), catalog("us", link("hub", "us", "*"))])

    assert carries(topology, "us", "eu")
    assert not carries(topology, "eu", "us")


def test_a_link_out_of_a_catalog_counts_for_its_target() -> None:
    topology = topology_of([catalog("eu", link("eu", "hub")), catalog("hub")])

    assert carries(topology, "hub", "eu")


def test_a_link_has_to_bring_what_its_types_and_its_scope_select() -> None:
    scope, types = ["/messagegroups/g", "/endpoints/e"], ["endpoints"]
    assert expected_paths([], [], []) == ()
    assert expected_paths(scope, [], []) == tuple(scope)
    assert expected_paths([], ["messagegroups/messages"], []) == ("/messagegroups",)
    assert expected_paths(scope, types, []) == ("/endpoints/e",)
    for nothing in (
        expected_paths(["/schemagroups"], types, []),
        expected_paths(scope, [], ["public"]),
    ):
        assert nothing
        assert not any(covers(path, xid) for path in nothing for xid in (*scope, "/endpoints"))


def told(mode: str, **more: Any) -> ReportedLink:
    ends = {"source": "http://elsewhere", "target": "http://elsewhere"}
    return ReportedLink(**ends | {"authorities": (), "scope": (), "mode": mode, **more})


def test_a_topic_carries_what_its_publisher_publishes_there() -> None:
    out = told("publish", source="http://eu:8080", target="kafka://a:9092/copies", scope=(GROUP,))
    other = told("publish", source="http://eu:8080", target="kafka://a:9092/other")
    into = told(
        "kafka",
        source="kafka://b:9092/copies",
        target="http://us:8080",
        pinned="https://eu.example.com",
    )
    topology = topology_of([catalog("eu", out, other), catalog("us", into)])

    assert carries(topology, "us", "eu", f"{GROUP}/messages/m")
    assert not carries(topology, "us", "eu", "/messagegroups/other")
    assert topology.sources == (frozenset(), frozenset({"eu"}))


def test_the_other_end_of_a_link_is_found_by_its_pin() -> None:
    pull = told("pull", target="http://us:8080", pinned="https://eu.example.com")
    push = told("push", source="http://eu:8080", pinned="https://hub.example.com")
    topology = topology_of([catalog("eu", push), catalog("us", pull), catalog("hub")])

    assert carries(topology, "us", "eu")
    assert carries(topology, "hub", "eu")
    assert topology.sources == (frozenset(), frozenset({"eu"}), frozenset({"eu"}))


def test_a_walk_or_a_write_between_catalogs_carries_nothing_of_theirs() -> None:
    walk = told(
        "walk",
        source="http://eu:8080",
        target="http://us:8080",
        pinned="https://walked.example.com",
    )
    write = told("write", source="http://eu:8080", target="http://us:8080")
    topology = topology_of([catalog("eu", write), catalog("us", walk)])

    assert not carries(topology, "us", "eu")
    assert carries(topology, "us", "walked")
