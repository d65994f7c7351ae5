"""`GET /metrics` tells what a node does, and `/health` whether it does."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from catalog.http.body import BODY_MEMORY
from catalog.http.stream import STREAMS
from catalog.model.credentials import PeerCredential
from catalog.monitoring.health import routes as monitoring_routes
from catalog.monitoring.health import run_loop_delay
from replication.routes import routes as replication_routes
from replication.store.reconciliations import MOST_KEPT
from tests.brokers.certificates import write_certificates
from tests.documentchecks import validate
from tests.integration.conftest import Node, start_node
from tests.integration.federation import eventually, execute

Samples = Mapping[tuple[str, ...], float]


@pytest.fixture
async def node(database_url: str) -> AsyncIterator[Node]:
    routes = [*monitoring_routes, *replication_routes]
    async with start_node(database_url, routes=routes) as running:
        yield running


async def samples(node: Node) -> Samples:
    """Each sample's value, by its name and the values of its labels in the order of their names."""
    answer = await node.send("GET", "/metrics")
    assert answer.status == 200, answer.body
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


async def test_requests_are_counted_by_route_and_not_by_path(node: Node) -> None:
    for number in range(3):
        await node.put(f"/messagegroups/g{number}")
    assert (await node.send("GET", "/messagegroups/nothing")).status == 404
    assert (await node.send("PUT", "/messagegroups/g0", {"epoch": 7})).status == 400
    assert (await node.request("PROPFIND", "/model")).status == 405
    await node.get("/model")
    found = await samples(node)
    counted = {key[1:]: value for key, value in found.items() if key[0].endswith("seconds_count")}
    assert counted["PUT", "/{path}", "201"] == 3
    assert counted["GET", "/{path}", "404"] == 1
    assert counted["GET", "/model", "200"] == 1
    assert counted["other", "/model", "405"] == 1
    assert found["concord_http_problems_total", "not_found"] == 1
    assert found["concord_http_problems_total", "mismatched_epoch"] == 1
    assert found["concord_changes_total", "created", "group"] == 3
    assert not [key for key in found if "g0" in "".join(key)]


async def test_the_database_tells_sizes(node: Node) -> None:
    await node.put("/messagegroups/g", {"messages": {"m": {}}})
    found = await samples(node)
    assert found["concord_database_up",] == 1
    assert found["concord_database_bytes",] > 1_000_000
    assert found["concord_log_entries",] == await node.logged()
    assert 0 <= found["concord_log_newest_age_seconds",] <= found["concord_log_oldest_age_seconds",]
    assert found["process_resident_memory_bytes",] > 1_000_000


async def test_subscriptions_and_links_tell_how_far_behind_they_are(node: Node) -> None:
    await execute(
        node,
        """INSERT INTO subscriptions (id, definition, txid, seq)
        SELECT 's' || n, '{}', n, 0 FROM generate_series(0, 120) n""",
    )
    await execute(
        node,
        """INSERT INTO links (id, revision, definition, state, currentat, applied)
        VALUES ('late', 1, '{"mode": "pull"}', 'waiting', now() - interval '90 seconds', 5),
               ('fresh', 2, '{"mode": "pull"}', 'current', now(), 7),
               ('unmet', 3, '{"mode": "push"}', 'new', NULL, 0)""",
    )
    await execute(node, "UPDATE links SET differing = 2 WHERE id = 'fresh'")
    await node.put("/messagegroups/g")
    found = await samples(node)
    assert found["concord_subscriptions", "active"] == 121
    behind = [key for key in found if key[0] == "concord_subscription_lag_changes"]
    assert len(behind) == 100, "the number of time series is bounded"
    assert found["concord_subscription_lag_changes", "s0", "active"] == await node.logged()
    assert found["concord_subscription_lag_seconds", "s0", "active"] >= 0
    assert found["concord_links", "pull", "waiting"] == found["concord_links", "push", "new"] == 1
    assert found["concord_link_lag_seconds", "late", "pull", "waiting"] >= 90
    assert found["concord_link_lag_seconds", "fresh", "pull", "current"] == 0
    assert ("concord_link_lag_seconds", "unmet", "push", "new") not in found
    assert found["concord_link_applied_total", "fresh", "pull"] == 7
    assert found["concord_link_differing", "fresh", "pull"] == 2
    assert ("concord_link_differing", "late", "pull") not in found, "nothing was compared"


async def test_the_format_of_openmetrics_is_given_on_request(node: Node) -> None:
    answer = await node.send(
        "GET", "/metrics", Accept="application/openmetrics-text; version=1.0.0"
    )
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert answer.body.endswith(b"# EOF\n")


async def test_the_delay_of_the_event_loop_is_measured(node: Node) -> None:
    measuring = asyncio.create_task(run_loop_delay(node.context))

    async def is_measured() -> bool:
        found = await samples(node)
        return found["concord_event_loop_delay_seconds_count",] > 0

    await eventually(is_measured)
    measuring.cancel()
    await asyncio.wait([measuring])


async def test_a_node_without_its_database_is_alive_and_not_ready(node: Node) -> None:
    assert (await node.send("GET", "/health/live")).json == {"status": "alive"}
    assert (await node.send("GET", "/health/ready")).json == {"status": "ready"}
    node.database.shared.availability.lose("a test")
    assert (await node.send("GET", "/health/live")).status == 200
    ready = await node.send("GET", "/health/ready")
    assert ready.status == 503
    assert ready.json == {"status": "waiting", "reason": "the database is away"}
    assert ready.headers["Retry-After"] == "1"
    found = await samples(node)
    assert found["concord_database_up",] == 0
    assert ("concord_database_bytes",) not in found
    assert ("concord_http_problems_total",) not in found


async def test_totals_do_not_fall_when_subscriptions_and_links_go(node: Node) -> None:
    await execute(
        node,
        """INSERT INTO subscriptions (id, definition, txid, seq, delivered, failed, failedattempts)
        VALUES ('a', '{}', 1, 0, 7, 2, 5), ('b', '{}', 1, 0, 1, 0, 0)""",
    )
    await execute(
        node,
        """INSERT INTO links (id, revision, definition, applied, errors, behind) VALUES
        ('l', 1, '{"mode": "pull"}', 11, '{"unreachable": 3, "faulty": 1}', 9),
        ('m', 2, '{"mode": "pull"}', 1, '{}', NULL)""",
    )
    before = await samples(node)
    assert before["concord_subscription_delivered_total", "a"] == 7
    assert before["concord_subscription_failed_total", "a"] == 2
    assert before["concord_link_errors_total", "l", "pull"] == 4
    assert before["concord_link_lag_changes", "l", "pull"] == 9
    totals = {
        "concord_events_delivered_total": 8,
        "concord_events_failed_total": 2,
        "concord_delivery_attempts_failed_total": 5,
        "concord_copies_applied_total": 12,
        "concord_links_errors_total": 4,
    }
    assert {name: before[name,] for name in totals} == totals
    await execute(node, "DELETE FROM subscriptions WHERE id = 'a'")
    await execute(node, "DELETE FROM links")
    after = await samples(node)
    assert {name: after[name,] for name in totals} == totals
    assert ("concord_link_errors_total", "l", "pull") not in after


async def test_the_head_of_the_log_stays_when_the_log_is_pruned(node: Node) -> None:
    await node.put("/messagegroups/g")
    head = (await samples(node))["concord_log_head",]
    assert head == await node.logged()
    await execute(node, "DELETE FROM changes")
    await execute(node, "UPDATE node SET dropped_seq = $1", int(head))
    found = await samples(node)
    assert found["concord_log_head",] == head
    assert found["concord_log_entries",] == 0


async def test_what_clients_have_under_way_is_told_with_its_limit(node: Node) -> None:
    assert node.client.app[STREAMS].take_now("192.0.2.1")
    node.client.app[BODY_MEMORY].take("192.0.2.1", 1000)
    found = await samples(node)
    limits = node.context.settings
    assert found["concord_share_used", "streams"] == 1
    assert found["concord_share_limit", "streams"] == limits.streams
    assert found["concord_share_used", "body_bytes"] == 1000
    assert found["concord_share_limit", "body_bytes"] == limits.max_body_memory_bytes
    assert found["concord_share_used", "long_polls"] == 0


async def test_writes_reads_and_checks_are_counted_where_they_are_done(node: Node) -> None:
    await node.put("/messagegroups/g")
    assert (await node.send("PUT", "/messagegroups/g", {"epoch": 7})).status == 400
    assert (await node.send("DELETE", "/messagegroups/nothing")).status == 404
    for _ in range(4):
        await node.get("/messagegroups/g")
    found = await samples(node)
    assert found["concord_writes_total", "written"] == 1
    assert found["concord_writes_total", "refused"] == 2
    hits, misses = (found["concord_cache_reads_total", each] for each in ("hit", "miss"))
    assert hits + misses == 4
    assert hits >= 1
    assert found["concord_cache_bytes",] > 0
    assert found["concord_pool_limit", "requests"] >= 1
    assert found["concord_pool_waiting", "requests"] == 0
    assert await validate(node.context.shared.checker, "JsonSchema/draft-07", b"{}") == ""
    await validate(node.context.shared.checker, "JsonSchema/draft-07", b"{}")
    found = await samples(node)
    assert found["concord_checks_total", "done"] == found["concord_checks_total", "known"] == 1
    assert found["concord_check_seconds_total",] > 0


def _result(number: int, **more: object) -> dict[str, object]:
    return {
        "run": f"00000000-0000-4000-8000-{number:012}",
        "startedat": "2030-01-01T00:00:00Z",
        "endedat": "2030-01-01T00:01:00+00:00",
        "outcome": "equal",
        "name": "eu",
        "catalogs": ["eu", "us"],
        **more,
    }


async def test_comparisons_tell_what_they_found_and_how_long_ago(node: Node) -> None:
    path = "/replication/reconciliations"
    found = await samples(node)
    assert not [key for key in found if key[0].startswith("concord_reconciliation")]
    differs = _result(1, outcome="different", findings={"missing": 3, "stale": 1}, repaired=4)
    for body in (differs, differs, _result(2, outcome="failed", error="us did not answer")):
        assert (await node.send("POST", path, body)).status == 204
    found = await samples(node)
    assert found["concord_reconciliation_differences", "missing"] == 3
    assert 0 <= found["concord_reconciliation_age_seconds", "different"] < 600
    assert 0 <= found["concord_reconciliation_age_seconds", "failed"] < 600
    assert ("concord_reconciliation_age_seconds", "equal") not in found
    assert (await node.send("POST", path, _result(3))).status == 204
    shown = (await node.get(path))["reconciliations"]
    assert [each["outcome"] for each in shown] == ["equal", "failed", "different"]
    assert shown[2]["findings"] == {"missing": 3, "stale": 1}
    assert shown[1]["error"] == "us did not answer"
    assert ("concord_reconciliation_differences", "missing") not in await samples(node)


async def test_reports_of_comparisons_are_checked_and_bounded(node: Node) -> None:
    path = "/replication/reconciliations"
    for wrong in (
        {"run": "1"},
        {"startedat": "now"},
        {"outcome": "fine"},
        {"findings": {"wrong": 1}},
        {"findings": {"missing": -1}},
        {"catalogs": ["x"] * 101},
        {"name": "a\0b"},
        {"error": "x" * 1025},
    ):
        assert (await node.send("POST", path, _result(1, **wrong))).status == 400, wrong
    assert (await node.send("POST", path, _result(1, outcome="failed"))).status == 204
    for run in range(2, MOST_KEPT + 5):
        assert (await node.send("POST", path, _result(run))).status == 204
    shown = (await node.get(path))["reconciliations"]
    assert len(shown) == MOST_KEPT + 1
    assert shown[0]["run"] == _result(MOST_KEPT + 4)["run"]
    assert shown[-1]["outcome"] == "failed"


async def test_the_ages_of_a_backup_and_of_what_ends_are_told(
    database_url: str, tmp_path: Path
) -> None:
    write_certificates(tmp_path)
    files = {
        "tls_cert": tmp_path / "server.pem",
        "tls_key": tmp_path / "server.key",
        "data_dir": tmp_path,
    }
    async with start_node(database_url, routes=monitoring_routes, **files) as node:
        found = await samples(node)
        assert not [key for key in found if key[0] == "concord_backup_age_seconds"]
        assert 0 < found["concord_disk_free_bytes",] < found["concord_disk_bytes",]
        left = found["concord_certificate_left_seconds", "CONCORD_TLS_CERT"]
        await execute(node, "UPDATE node SET backedupat = now() - interval '90 seconds'")
        in_a_minute = datetime.now(UTC) + timedelta(minutes=1)
        claims = base64.urlsafe_b64encode(orjson.dumps({"exp": in_a_minute.timestamp()})).decode()
        token = f"header.{claims.rstrip('=')}.signature"
        for id, credential in (
            ("dated", PeerCredential(token=token)),
            ("undated", PeerCredential(token="concord_token")),
        ):
            await execute(
                node,
                """INSERT INTO links (id, revision, definition, credential)
                VALUES ($1, nextval('links_revision_seq'), '{"mode": "pull"}', $2::jsonb)""",
                id,
                orjson.dumps(dict(credential.shown)).decode(),
            )
        found = await samples(node)
        assert 90 <= found["concord_backup_age_seconds",] < 120
        ends = {
            k[1:]: v for k, v in found.items() if k[0] == "concord_link_credential_left_seconds"
        }
        assert ends.keys() == {("dated", "token")}
        assert 0 < ends["dated", "token"] <= 60
        assert left > 0
