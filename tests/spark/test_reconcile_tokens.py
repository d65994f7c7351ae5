"""The job shows each catalog its own token, which neither Spark nor the report writes down."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import Result
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from catalog.cli import app
from replication.reconcile.inputs.nodeinput import NodeInput
from replication.reconcile.job import ReconcileJob
from tests.integration.federation import databases, start_member
from tests.integration.test_link_tokens import as_admin, token

pytestmark = pytest.mark.slow


async def test_each_catalog_is_shown_its_own_token_and_nobody_keeps_it(
    postgres_url: str, template: str, tmp_path: Path, spark: SparkSession
) -> None:
    async with (
        databases(postgres_url, template, 2) as [first, second],
        start_member(first, open=False) as eu,
        start_member(second, open=False) as us,
    ):
        shown = {node.url: await token(node, "replicator") for node in (eu, us)}
        tokens = tmp_path / "tokens"
        tokens.write_text("".join(f"{url}/ {text}\n" for url, text in shown.items()))
        catalogs = ["--catalog", f"eu={eu.url}", "--catalog", f"us={us.url}"]

        async def reconcile(*options: str) -> Result:
            arguments = ["reconcile", *catalogs, "--settle", "0", *options]
            env = {"EU": shown[eu.url], "US": shown[us.url]}
            return await asyncio.to_thread(CliRunner().invoke, app, arguments, env=env)

        tokens.chmod(0o644)
        assert "Others may read" in (await reconcile("--tokens", str(tokens))).stderr
        tokens.chmod(0o600)
        for wrong in ((), ("--token-from=eu=US",), ("--token-from=EU",)):
            refused = await reconcile("--fast", *wrong)
            assert (refused.exit_code, "answered 401" in refused.stderr) == (3, True)
            assert "--tokens FILE" in refused.stderr
        stranger = await reconcile(f"--token=nobody={shown[eu.url]}")
        assert (stranger.exit_code, "nobody" in stranger.stderr) == (3, True)
        for right in (
            ("--tokens", str(tokens)),
            ("--token-from=eu=EU", f"--token=us={shown[us.url]}"),
        ):
            # Nothing differs, so this does not start Spark.
            done = await reconcile("--fast", *right)
            assert done.exit_code == 0, done.stderr
        for node in (eu, us):
            assert (await as_admin(node, "PUT", "/messagegroups/one", {})).status == 201
        job = ReconcileJob(
            inputs=[
                NodeInput(name=name, url=node.url, token=shown[node.url])
                for name, node in (("eu", eu), ("us", us))
            ],
            report=tmp_path / "report",
            repair=False,
            master="local[2]",
            verify=True,
            settle_seconds=0.0,
            progress=lambda line: None,
            spark=spark,
        )
        summary = await asyncio.to_thread(job.run)
    assert [one.rows for one in summary.catalogs] == [1, 1]
    kept = [told_of(refused), told_of(stranger), *plans_of(spark), *texts_in(tmp_path / "report")]
    assert any("concord_digests" in text for text in kept)
    for secret in shown.values():
        assert not [text for text in kept if secret in text]


def told_of(result: Result) -> str:
    return result.stdout + result.stderr


def texts_in(directory: Path) -> list[str]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert files
    return [path.read_bytes().decode(errors="replace") for path in files]


def plans_of(spark: SparkSession) -> list[str]:
    """The descriptions of all that Spark has executed, as its log of events has them."""
    store = spark._jsparkSession.sharedState().statusStore()
    found = store.executionsList()
    made = [found.apply(place) for place in range(found.size())]
    return [f"{each.physicalPlanDescription()} {each.details()}" for each in made]
