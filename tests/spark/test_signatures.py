"""The keys that count, and copies that are unsigned or forged: found, and never repaired from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from catalog.keys.entitysignature import EntitySigner, new_seed
from replication.reconcile import compare as compare_module
from replication.reconcile.catalogs import survey
from replication.reconcile.job import ReconcileJob
from replication.reconcile.report import ReconcileSummary
from replication.reconcile.signatures import REVOKED, survey_keys
from tests.spark.federation import Federation, history_of, signed, three_catalogs

pytestmark = pytest.mark.slow

GROUP, MESSAGE = "/messagegroups/eu1", "/messagegroups/eu1/messages/m2"


def reconcile(federation: Federation, spark: SparkSession, **more: Any) -> ReconcileSummary:
    options: dict[str, Any] = {
        "report": None,
        "repair": False,
        "master": "local[2]",
        "verify": True,
        "signatures": True,
        "settle_seconds": 0,
        "progress": lambda line: None,
        "sleep": lambda seconds: None,
        "spark": spark,
    }
    return ReconcileJob(inputs=federation.inputs(), **options | more).run()


def test_trusted_keys_go_on_and_an_authority_speaks_for_itself_without_them(
    federation: Federation,
) -> None:
    eu, us, hub = three_catalogs(federation, "eu", "us")
    first, second = eu.signer, EntitySigner.of(eu.authority, 2, new_seed())
    assert first is not None
    assert us.signer is not None
    stranger = EntitySigner.of(us.authority, 7, new_seed())
    us.histories += [history_of(second, first)]
    hub.histories = [history_of(stranger)]
    hub.trusted = {eu.authority: [first.public]}

    found = {each.authority: each for each in survey_keys(survey(federation.inputs()))}

    assert found[eu.authority].keys == {s.id: s.public.key for s in (first, second)}
    assert (found[eu.authority].origin, found[eu.authority].signs) == ("trusted by hub", True)
    assert found[us.authority].keys == {us.signer.id: us.signer.public.key}
    assert (found[us.authority].origin, found[us.authority].signs) == ("told by us", True)
    assert hub.authority not in found
    us.has_signed_all = False
    hub.trusted = {eu.authority: [replace(first.public, number=9)]}
    found = {each.authority: each for each in survey_keys(survey(federation.inputs()))}
    assert not found[us.authority].signs
    assert first.id not in found[eu.authority].keys
    assert REVOKED not in found[eu.authority].keys.values()


def test_what_is_unsigned_or_forged_is_found_and_is_never_the_source_of_a_repair(
    federation: Federation, spark: SparkSession, tmp_path: Path
) -> None:
    """The hub relays eu to us: what it forged may not come to us by the repair of us."""
    eu, us, hub = three_catalogs(federation, "eu")
    eu.own("/messagegroups/gone", epoch=4, deleted=True)
    for node in (us, hub):
        node.trusted = {eu.authority: [eu.signer.public]} if eu.signer else {}
        key = (eu.authority, "/messagegroups/gone")
        node.rows[key] = eu.rows[key]
    forged = hub.hold(eu.authority, MESSAGE, epoch=9, content="forged")
    hub.rows[eu.authority, MESSAGE] = signed(forged, EntitySigner.of(eu.authority, 1, new_seed()))
    del us.rows[eu.authority, MESSAGE]
    us.rows[eu.authority, GROUP] = replace(us.rows[eu.authority, GROUP], signature=b"")
    spoilt = eu.rows[eu.authority, "/messagegroups/eu0"]
    eu.rows[eu.authority, "/messagegroups/eu0"] = replace(spoilt, content="damaged")

    found = reconcile(federation, spark, repair=True, report=tmp_path)

    assert {
        (name, one.catalog, one.origin)
        for name in ("unsigned", "forged")
        for one in found.samples[name]
    } == {
        ("forged", "hub", MESSAGE),
        ("unsigned", "us", GROUP),
        ("forged", "eu", "/messagegroups/eu0"),
    }
    assert found.counts["ahead"] == {"hub": 1}
    assert found.counts["missing"] == {"us": 1}
    asked = {node.name: {o for batch in node.repairs for _, o in batch} for node in (eu, us, hub)}
    # The message of us could only come from the hub; eu can fetch nothing of its own.
    assert asked == {"eu": set(), "us": {GROUP}, "hub": {MESSAGE}}
    withheld = {one.catalog: one.withheld for one in found.repair or ()}
    assert withheld == {"hub": 0, "us": 1}
    assert "diverged" not in found.counts
    [told] = [one for one in found.signatures or () if one.authority == eu.authority]
    assert (told.unsigned, told.forged, told.keys) == (1, 2, "trusted by us and hub")
    page = (tmp_path / "report.html").read_text()
    assert "no key that counts" in page
    assert found.to_document()["counts"]["forged"] == {"eu": 1, "hub": 1}


def test_signatures_are_verified_though_all_fingerprints_are_the_same(
    federation: Federation, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare_module, "MOST_CONFIRMED", 0)
    eu, us, hub = three_catalogs(federation, "eu")
    key = (eu.authority, MESSAGE)
    hub.rows[key] = replace(hub.rows[key], signature=b"x" * 64)

    assert reconcile(federation, spark, verify=False, signatures=False).is_equal
    found = reconcile(federation, spark, verify=False, repair=True)

    assert found.counts == {"forged": {"hub": 1}}
    assert [batch for node in (eu, us, hub) for batch in node.repairs] == [[key]]
