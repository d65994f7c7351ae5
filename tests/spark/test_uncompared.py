"""Copies that are not compared are counted; those that cannot be fetched come by resets."""

from __future__ import annotations

from typing import Any

import pytest

from replication.reconcile.catalogs import survey
from replication.reconcile.explanations import find_uncompared
from replication.reconcile.findings import Difference, Findings
from replication.reconcile.repairplan import RepairOutcome, repair
from replication.reconcile.topology import topology_of
from tests.spark.federation import Federation, Node

pytestmark = pytest.mark.slow

WALKED, ABSENT = "https://walked.example.com", "https://absent.example.com"
TOPIC = "kafka://b1:9092/copies"


def listed(node: Node, id: str, mode: str, **more: Any) -> dict[str, Any]:
    shown = {"id": id, "mode": mode, "state": "current", "currentat": "2026-01-02T03:04:05Z"}
    node.links.append(shown | more)
    return node.links[-1]


def test_everything_that_is_not_compared_is_told_with_its_number_and_a_advice(
    federation: Federation,
) -> None:
    eu, us = federation.add("eu"), federation.add("us")
    for number in range(3):
        eu.own(f"/messagegroups/g{number}")
        us.hold(WALKED, f"/messagegroups/w{number}")
    us.hold(ABSENT, "/messagegroups/a", deleted=True)
    us.hold("https://gone.example.com", "/messagegroups/gone")
    listed(us, "walk", "walk", source=WALKED, authority=WALKED)
    listed(us, "topic", "kafka", source="kafka://b:9092/x", authority=ABSENT)
    listed(eu, "desk", "write", target="https://desk.example.com")
    listed(eu, "far", "push", target="https://far.example.com", authority="urn:far")
    listed(eu, "near", "push", target="http://another-name", authority=us.authority)
    listed(eu, "read", "publish", target=TOPIC)
    listed(us, "in", "kafka", source="kafka://other-name:9092/copies", authority=eu.authority)
    listed(eu, "unread", "publish", target="kafka://b:9092/unread", authorities=["*"])

    found = {(one.catalog, one.link): one for one in find_uncompared(survey(federation.inputs()))}

    assert {place: one.entities for place, one in found.items()} == {
        ("us", "walk"): 3,
        ("us", "topic"): 1,
        ("us", None): 1,
        ("eu", "desk"): 3,
        ("eu", "far"): 3,
        ("eu", "unread"): 3,
    }
    walked = found["us", "walk"]
    assert (walked.authority, walked.mode) == (WALKED, "walk")
    assert "at 2026-01-02T03:04:05Z" in walked.reason
    assert f"concord link reset walk --full --url {us.url}" in walked.advice
    assert "kafka://b:9092/x" in found["us", "topic"].reason
    assert "no link" in found["us", None].reason
    assert "https://desk.example.com" in found["eu", "desk"].reason
    assert found["eu", "unread"].authority is None


def test_links_that_cannot_be_asked_for_an_entity_are_reset_once(federation: Federation) -> None:
    eu, us, hub = federation.add("eu"), federation.add("us"), federation.add("hub")
    listed(eu, "out", "publish", target=TOPIC)
    topic = listed(us, "in", "kafka", source=TOPIC, authority=eu.authority)
    listed(us, "walk", "walk", source=WALKED, authority=WALKED)
    listed(us, "free", "walk", source="https://free.example.com", authority="urn:free")
    listed(eu, "there", "push", target=hub.url, authority=hub.authority)
    missing = [
        Difference(finding="missing", catalog=name, authority=authority, origin="/groups/g")
        for name, authority in (("us", eu.authority), ("us", WALKED), ("hub", eu.authority))
    ]

    def repaired(*more: Difference) -> dict[str, RepairOutcome]:
        surveyed = survey(federation.inputs())
        findings = Findings.of([*missing, *more])
        outcomes = repair(findings, topology_of(surveyed), surveyed, (), lambda line: None)
        return {outcome.catalog: outcome for outcome in outcomes}

    first = repaired()

    assert us.resets == [("in", False), ("walk", True)]
    assert eu.resets == [("there", False)]
    assert hub.resets == []
    assert first["us"].resets == (
        "in at us brings everything again",
        "walk at us brings everything again",
    )
    for state, told in (("copying", "copying everything already"), ("asking", "asks")):
        topic["state"] = state
        assert told in repaired()["us"].resets[0]
    spoilt = Difference(finding="forged", catalog="eu", authority="urn:x", origin="/groups/x")
    topic["state"] = "current"
    assert "unsigned, forged or damaged" in repaired(spoilt)["us"].resets[0]
    assert us.resets.count(("in", False)) == 1
    assert eu.resets == [("there", False)] * 3
