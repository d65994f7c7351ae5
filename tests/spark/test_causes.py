"""The causes of differences, and the commands for findings that no repair settles."""

from __future__ import annotations

from typing import Any

import pytest

from replication.reconcile.job import ReconcileJob
from replication.reconcile.report import ReconcileSummary, render
from tests.spark.federation import Federation, three_catalogs

pytestmark = pytest.mark.slow

MESSAGE = "/messagegroups/eu0/messages/m1"
EVENT = {"at": "2026-01-02T03:04:05Z", "event": "paused", "detail": "maintenance"}


def reconcile(federation: Federation) -> ReconcileSummary:
    return ReconcileJob(
        inputs=federation.inputs(),
        report=None,
        repair=False,
        master="",
        verify=True,
        settle_seconds=0,
        progress=lambda line: None,
    ).run()


@pytest.mark.parametrize(
    ("link", "text", "command"),
    [
        (
            {"state": "paused", "reason": "maintenance", "history": [EVENT]},
            "Link from-eu is paused since 2026-01-02T03:04:05Z, never yet current: maintenance.",
            "concord link resume from-eu --url {hub}",
        ),
        (
            {"state": "waiting", "error": "It does not answer.", "currentat": EVENT["at"]},
            "Link from-eu is waiting, current last at 2026-01-02T03:04:05Z: It does not answer.",
            "concord link show from-eu --url {hub}",
        ),
        (
            {"state": "asking"},
            "Link from-eu is asking, never yet current.",
            "concord link allow from-eu --url {hub}",
        ),
        (
            {"state": "current", "conflicts": 3},
            "Link from-eu has conflicts about 3 entities.",
            "concord link show from-eu --url {hub}",
        ),
    ],
)
def test_the_state_of_a_link_explains_what_it_has_not_brought(
    federation: Federation, link: dict[str, Any], text: str, command: str
) -> None:
    eu, us, hub = three_catalogs(federation)
    for node in (eu, us, hub):
        for each in node.links:
            each["state"] = "current"
    [into] = [each for each in hub.links if each["id"] == "from-eu"]
    into |= link
    del hub.rows[eu.authority, MESSAGE]

    summary = reconcile(federation)

    [cause] = summary.causes
    assert (cause.catalog, cause.authority, cause.differences) == ("hub", eu.authority, 1)
    assert (cause.text, cause.command) == (text, command.format(hub=hub.url))
    page = render(summary)
    assert text in page
    assert cause.command in page
    assert not summary.is_equal


def test_links_that_are_current_explain_nothing(federation: Federation) -> None:
    eu, us, hub = three_catalogs(federation)
    for node in (eu, us, hub):
        for each in node.links:
            each["state"] = "current"
    del hub.rows[eu.authority, MESSAGE]

    assert reconcile(federation).causes == ()


def test_findings_for_a_person_come_with_the_command(federation: Federation) -> None:
    eu, us, hub = three_catalogs(federation)
    us.hold(eu.authority, "/messagegroups/eu0/messages/m2", epoch=8)
    hub.hold(us.authority, "/messagegroups/nobody", epoch=1)
    del us.rows[eu.authority, "/messagegroups/eu2"]
    us.own("/messagegroups/eu2")

    commands = reconcile(federation).commands

    assert commands["ahead"] == (f"concord recover --from {us.url} --url {eu.url}",)
    assert commands["orphaned"] == (f"concord link reset from-us --full --url {hub.url}",)
    assert f"concord link set from-hub --prefix NAME- --url {us.url}" in commands["collided"]
