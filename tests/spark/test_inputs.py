"""Catalogs that are compared from their databases and from snapshots, beside running nodes."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import asyncpg
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from typer.testing import CliRunner

from catalog.cli import app
from replication.reconcile.digestrows import ALL_BUCKETS, BucketRange
from replication.reconcile.errors import CatalogUnread
from replication.reconcile.inputs.databaseinput import DatabaseInput
from replication.reconcile.inputs.input import Input, parse_inputs
from replication.reconcile.inputs.nodeinput import NodeInput
from tests.brokers.kafka import KafkaBroker
from tests.integration.conftest import Node
from tests.integration.federation import (
    carries,
    databases,
    digest_rows,
    eventually,
    link,
    link_is,
    running,
    start_member,
)
from tests.integration.foreignserver import fill, foreign_server
from tests.integration.test_topic_links import follow, publish

pytestmark = pytest.mark.slow

OLD = "2026-01-01T00:00:00Z"
Pair = tuple[Node, Node, str, str]


@pytest.fixture
async def pair(postgres_url: str, template: str) -> AsyncIterator[Pair]:
    """The nodes eu and us, which follows eu and has everything, and the URLs of their databases."""
    async with (
        databases(postgres_url, template, 2) as [first, second],
        start_member(first) as eu,
        start_member(second) as us,
    ):
        for number in range(30):
            await eu.put(f"/messagegroups/g{number}", {"description": f"group {number}"})
            await eu.put(f"/messagegroups/g{number}/messages/m", {"name": f"Message {number}, £"})
        for number in range(3):
            assert (await eu.send("DELETE", f"/messagegroups/g{number}")).status == 204
        await link(us, eu)
        async with running(us):
            await eventually(lambda: carries(us, eu))
        yield eu, us, first, second


async def concord(*arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, app, arguments)


async def execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(statement)
    await connection.close()


def rows_of(given: Input, tmp_path: Path, buckets: BucketRange = ALL_BUCKETS) -> list[str]:
    with given.opened(tmp_path, print) as opened:
        batches = opened.read(buckets, verify=False, is_signed=True)
        return sorted(str(row) for batch in batches for row in batch.to_pylist())


async def test_a_node_its_database_and_its_snapshot_have_the_same_rows(
    pair: Pair, tmp_path: Path
) -> None:
    eu, _, dsn, _ = pair
    directory = tmp_path / "snapshot"
    written = await concord("snapshot", "--of", dsn, "--to", str(directory), "--json")
    assert written.exit_code == 0, written.stderr
    assert json.loads(written.stdout)["rows"] == 90

    def all_rows() -> None:
        inputs = [
            NodeInput(name="node", url=eu.url),
            *parse_inputs([f"base={dsn}", f"kept={directory}"], {}),
        ]
        for part in (ALL_BUCKETS, BucketRange(0, 20_000), BucketRange(20_000, 65_536)):
            node, base, kept = (rows_of(each, tmp_path, part) for each in inputs)
            assert node == base == kept
        surveyed = [each.survey() for each in inputs]
        assert len({(each.authority, each.instance) for each in surveyed}) == 1
        assert len({str(sorted(each.fingerprints.items())) for each in surveyed}) == 1
        assert surveyed[2].moment is not None

    await asyncio.to_thread(all_rows)


async def test_catalogs_of_three_kinds_are_compared_and_damage_is_found(
    pair: Pair, tmp_path: Path
) -> None:
    eu, us, first, second = pair
    for node in (eu, us):
        directory = str(tmp_path / ("eu" if node is eu else "us"))
        assert (await concord("snapshot", "--of", node.url, "--to", directory)).exit_code == 0
    of_eu = (eu.url, first, str(tmp_path / "eu"))
    kinds = [(f"eu={each}", f"us={other}") for each in of_eu for other in (us.url, second)]

    async def compared(*catalogs: str) -> Result:
        named = [f"--catalog={each}" for each in catalogs]
        return await concord("reconcile", *named, "--settle=0", "--json")

    for catalogs in kinds:
        done = await compared(*catalogs)
        assert (done.exit_code, json.loads(done.stdout)["equal"]) == (0, True), done.stderr
    await execute(second, "DELETE FROM entities WHERE xid = '/messagegroups/g7/messages/m'")
    await execute(
        second,
        'UPDATE entities SET attributes = attributes || \'{"name": "x"}\' '
        "WHERE xid = '/messagegroups/g8/messages/m/versions/1'",
    )
    for catalogs in kinds:
        done = await compared(*catalogs)
        assert done.exit_code == 1
        samples = json.loads(done.stdout)["samples"]
        found = {(f, one["catalog"], one["origin"]) for f, all in samples.items() for one in all}
        assert found == {
            ("missing", "us", "/messagegroups/g7/messages/m"),
            ("damaged", "us", "/messagegroups/g8/messages/m/versions/1"),
        }
        assert {one["reference_changedat"] is None for all in samples.values() for one in all} == {
            False
        }


async def test_a_deep_run_names_the_attributes_that_differ_with_both_values(
    pair: Pair, tmp_path: Path
) -> None:
    eu, us, _, second = pair
    version = "/messagegroups/g8/messages/m/versions/1"
    await execute(
        second,
        "UPDATE entities SET attributes = attributes - 'ancestor' || '{\"name\": \"x\"}' "
        f"WHERE xid = '{version}'",
    )
    await eu.put("/messagegroups/g9", {"description": "<b>changed</b>"})
    catalogs = [f"--catalog=eu={eu.url}", f"--catalog=us={us.url}"]
    report = tmp_path / "report"
    options = ["--settle=0", "--deep", f"--report={report}"]
    done = await concord("reconcile", *catalogs, *options)
    assert done.exit_code == 1, done.stderr
    assert 'name: "x" instead of "Message 8, £"' in done.stdout
    samples = json.loads((report / "summary.json").read_text())["samples"]
    found = {
        (finding, one["origin"]): {
            each["name"]: (each["here"], each["there"]) for each in one["attributes"]
        }
        for finding, all in samples.items()
        for one in all
    }
    damaged, stale = found["damaged", version], found["stale", "/messagegroups/g9"]
    assert damaged["name"] == ('"x"', '"Message 8, £"')
    assert stale["description"] == ('"group 9"', '"<b>changed</b>"')
    assert stale.keys() == {"description", "modifiedat"}
    page = (report / "report.html").read_text()
    assert "&lt;b&gt;changed&lt;/b&gt;" in page
    assert "<b>changed" not in page


async def test_changes_that_a_snapshot_is_too_old_to_show_are_no_differences(
    pair: Pair, tmp_path: Path
) -> None:
    eu, us, _, second = pair
    for name, node in (("eu", eu), ("us", us)):
        assert (
            await concord("snapshot", "--of", node.url, "--to", str(tmp_path / name))
        ).exit_code == 0
    await execute(second, "DELETE FROM entities WHERE xid = '/messagegroups/g7/messages/m'")
    await eu.put("/messagegroups/later", {})
    await eu.put("/messagegroups/g9", {"description": "changed later"})
    assert (await eu.send("DELETE", "/messagegroups/g10")).status == 204
    live_eu, live_us = f"eu={eu.url}", f"us={us.url}"
    old_eu, old_us = f"eu={tmp_path}/eu", f"us={tmp_path}/us"

    async def compared(*options: str) -> tuple[int, int]:
        done = await concord("reconcile", *options, "--settle=0", "--json")
        assert done.exit_code in (0, 1), done.stderr
        summary = json.loads(done.stdout)
        return summary["differences"], summary["inflight"]

    assert (await compared(f"--catalog={live_eu}", f"--catalog={live_us}"))[0] > 1
    # The loss at us is younger than the snapshot of us, but older changes show it in the live node.
    assert await compared(f"--catalog={old_eu}", f"--catalog={live_us}") == (1, 0)
    lagless = ("--lag=0s", f"--catalog={live_eu}", f"--catalog={old_us}")
    differences, in_flight = await compared(*lagless)
    assert (differences, in_flight > 3) == (0, True)
    async with running(us):
        await eventually(lambda: arrived(us, eu))
    assert (await compared(f"--catalog={old_eu}", f"--catalog={live_us}"))[1] > 3


async def arrived(us: Node, eu: Node) -> bool:
    rows, own = await digest_rows(us), await digest_rows(eu)
    key = (eu.database.node.authority, "/messagegroups/later")
    return key in rows and rows[key] == own[key]


async def test_all_rows_of_a_database_are_of_one_moment(pair: Pair, tmp_path: Path) -> None:
    eu, _, dsn, _ = pair
    before = await asyncio.to_thread(rows_of, DatabaseInput(name="eu", dsn=dsn), tmp_path)

    def read_slowly(loop: asyncio.AbstractEventLoop) -> tuple[list[str], list[str]]:
        with DatabaseInput(name="eu", dsn=dsn).opened(tmp_path, print) as opened:
            write = eu.put("/messagegroups/later", {})
            asyncio.run_coroutine_threadsafe(write, loop).result(timeout=20)
            batches = opened.read(ALL_BUCKETS, verify=False, is_signed=True)
            now = opened.again().read(ALL_BUCKETS, verify=False, is_signed=True)
            return tuple(
                sorted(str(row) for batch in each for row in batch.to_pylist())
                for each in (batches, now)
            )  # type: ignore[return-value]  # there are two

    pinned, now = await asyncio.to_thread(read_slowly, asyncio.get_running_loop())
    assert pinned == before
    assert len(now) == len(before) + 1


async def test_a_database_is_read_by_a_role_that_may_only_read(
    pair: Pair, postgres_url: str, tmp_path: Path
) -> None:
    _, _, dsn, _ = pair
    tables = "entities, tombstones, documents, node, links, changes, incarnations, reconciliations"
    role = f"reader_{urlsplit(dsn).path[1:]}"
    await execute(
        dsn, f"CREATE ROLE {role} LOGIN PASSWORD 'secret'; GRANT SELECT ON {tables} TO {role}"
    )
    try:
        reader = dsn + ("&" if "?" in dsn else "?") + f"user={role}&password=secret"
        given = DatabaseInput(name="eu", dsn=reader)
        found = await asyncio.to_thread(lambda: given.survey().entities)
        assert found == len(await asyncio.to_thread(rows_of, given, tmp_path)) - 9
        assert "secret" not in given.url + repr(given)
        nowhere = urlsplit(reader)._replace(path="/nowhere").geturl()
        failed = DatabaseInput(name="eu", dsn=nowhere)
        with pytest.raises(CatalogUnread) as caught:
            await asyncio.to_thread(failed.survey)
        assert "secret" not in str(caught.value)
    finally:
        await execute(dsn, f"DROP OWNED BY {role}; DROP ROLE {role}")


async def test_an_incomplete_or_damaged_snapshot_is_not_compared(
    pair: Pair, tmp_path: Path
) -> None:
    _, us, dsn, _ = pair
    directory = tmp_path / "eu"
    assert (await concord("snapshot", "--of", dsn, "--to", str(directory))).exit_code == 0
    again = await concord("snapshot", "--of", dsn, "--to", str(directory))
    assert (again.exit_code, "is not empty" in again.stderr) == (2, True)

    async def refusal() -> str:
        catalogs = (f"--catalog=eu={directory}", f"--catalog=us={us.url}")
        failed = await concord("reconcile", *catalogs)
        assert failed.exit_code == 3
        return failed.stderr

    part = directory / "part-00000.parquet"
    whole = part.read_bytes()
    pq.write_table(pq.read_table(part).slice(1), part)
    assert "89 rows" in await refusal()
    part.write_bytes(whole[:1000])
    assert "could not be read" in await refusal()
    part.write_bytes(whole)
    (directory / "manifest.json").write_text("{}")
    assert "could not be read" in await refusal()
    (directory / "_SUCCESS").unlink()
    assert "incomplete" in await refusal()


@pytest.mark.xdist_group("sinks")
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_five_inputs_of_five_kinds_show_exactly_the_damage_done_to_them(
    postgres_url: str, template: str, kafka: KafkaBroker, tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    topic, own = f"copies-{secrets.token_hex(4)}", "/schemagroups/s0/schemas/x0"
    quick = {"pull_interval_seconds": 0.5}
    async with (
        foreign_server() as foreign,
        databases(postgres_url, template, 3) as [first, second, third],
        start_member(first, **quick) as eu,
        start_member(second, **quick) as us,
        start_member(third, **quick) as asia,
    ):
        fill(foreign)
        for number in range(20):
            path = f"/messagegroups/g{number}"
            await eu.put(path, {})
            await eu.put(f"{path}/messages/m", {"name": f"Message {number}", "modifiedat": OLD})
        assert (await eu.send("DELETE", "/messagegroups/g3")).status == 204
        await publish(eu, kafka, topic)
        # Either us is a relay between eu and asia, or asia follows the topic and us follows asia.
        through_topic = random.random() < 0.5
        await link(us, eu)
        if through_topic:
            await follow(asia, kafka, topic)
        else:
            await link(asia, us, authorities=[eu.database.node.authority])
        walk = {"source": foreign.url, "mode": "walk"}
        assert (await us.send("POST", "/replication/links", walk)).status == 201
        async with running(eu, us, asia):
            await eventually(lambda: carries(asia, eu))
            await eventually(lambda: holds(us, foreign.url, own))
            await link_is(eu, "out", "current")
        inputs = {
            "eu": eu.url,
            "us": second,
            "asia": str(tmp_path / "asia"),
            "topic": f"kafka://{kafka.address}/{topic}",
            "foreign": f"xregistry+{foreign.url}",
        }
        damage = {
            path: f"/messagegroups/g{n}"
            for path, n in zip(
                ("lost", "stale", "altered"), random.sample(range(4, 20), 3), strict=True
            )
        }
        for dsn in (second, third):
            await execute(dsn, f"DELETE FROM entities WHERE xid = '{damage['lost']}/messages/m'")
        await execute(
            second, f"UPDATE entities SET epoch = epoch - 1 WHERE xid = '{damage['stale']}'"
        )
        await execute(
            third,
            'UPDATE entities SET attributes = attributes || \'{"name": "x"}\' '
            f"WHERE xid = '{damage['altered']}/messages/m/versions/1'",
        )
        written = await concord(
            "snapshot", "--of", third, "--to", inputs["asia"], "--verify", "--json"
        )
        assert written.exit_code == 0, written.stderr
        foreign.put_version(own, "1", b"changed at the server", description="new")
        named = [f"--catalog={name}={address}" for name, address in inputs.items()]
        done = await concord("reconcile", *named, "--settle=0", "--lag=0s", "--json")
        assert done.exit_code == 1, done.stderr
        samples = json.loads(done.stdout)["samples"]
        found = {(f, one["catalog"], one["origin"]) for f, all in samples.items() for one in all}
        assert found == {
            ("missing", "us", f"{damage['lost']}/messages/m"),
            ("missing", "asia", f"{damage['lost']}/messages/m"),
            ("stale", "us", damage["stale"]),
            ("damaged", "us", damage["stale"]),
            ("damaged", "asia", f"{damage['altered']}/messages/m/versions/1"),
            ("stale", "us", f"{own}/versions/1"),
        }, done.stderr + done.stdout


async def holds(node: Node, authority: str, origin: str) -> bool:
    return (authority, origin) in await digest_rows(node)
