"""The command `concord reconcile`: its file of options, its event, and its history."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from click.testing import Result
from typer.testing import CliRunner

from catalog.cli import app
from tests.integration.federation import databases, start_member
from tests.spark.federation import Federation, served, three_catalogs
from tests.spark.test_inputs import concord

pytestmark = pytest.mark.slow


def run(*options: str) -> Result:
    return CliRunner().invoke(app, ["reconcile", "--settle=0", *options])


def test_a_file_gives_the_options_that_the_command_line_does_not_give(
    federation: Federation, tmp_path: Path
) -> None:
    eu, us, _ = three_catalogs(federation)
    del us.rows[eu.authority, "/messagegroups/eu0"]
    file = tmp_path / "reconcile.toml"
    urls = "".join(f'{one.name} = "{one.url}"\n' for one in federation.inputs())
    report = tmp_path / "report"
    file.write_text(f'fast = true\nreport = "{report}"\nlag = "5m"\n[catalogs]\n{urls}')

    found = run("--config", str(file), "--json")

    assert found.exit_code == 1, found.stderr
    summary = json.loads(found.stdout)
    assert (summary["verified"], summary["differences"]) == (False, 1)
    assert (report / "_SUCCESS").exists()
    named = [f"--catalog={one.name}={one.url}" for one in federation.inputs("eu", "hub")]
    assert json.loads(run("--config", str(file), *named, "--json").stdout)["equal"] is True


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("fast = ", "cannot be read"),
        ("faster = true", "unknown options: faster"),
        ("catalogs = 1", "catalogs"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "reconcile.toml"
    file.write_text(text)

    refused = run("--config", str(file))

    assert refused.exit_code == 2
    assert complaint in " ".join(refused.stderr.replace("│", " ").split())


async def test_a_comparison_with_differences_is_told_to_a_web_hook(
    postgres_url: str, template: str
) -> None:
    events = []

    async def take(request: web.Request) -> web.Response:
        events.append((request.content_type, await request.json()))
        return web.Response(status=204)

    hook = web.Application()
    hook.router.add_post("/", take)
    with served() as federation:
        eu, us, _ = three_catalogs(federation)
        named = [f"--catalog={one.name}={one.url}" for one in federation.inputs()]
        async with TestServer(hook) as server:
            url = str(server.make_url("/"))
            equal = await concord("reconcile", *named, "--settle=0", f"--notify={url}")
            assert (equal.exit_code, events) == (0, [])
            del us.rows[eu.authority, "/messagegroups/eu0"]
            found = await concord("reconcile", *named, "--settle=0", f"--notify={url}")
            assert found.exit_code == 1
        [(kind, event)] = events
        assert kind == "application/cloudevents+json"
        assert event["type"] == "concord.reconciliation.different"
        assert event["data"]["counts"] == {"missing": {"us": 1}}
        gone = await concord("reconcile", *named, "--settle=0", f"--notify={url}")
        assert (gone.exit_code, "was not told" in gone.stderr) == (1, True)


async def test_the_history_lists_what_a_node_was_told(
    postgres_url: str, template: str, tmp_path: Path
) -> None:
    async with (
        databases(postgres_url, template, 2) as [first, second],
        start_member(first) as eu,
        start_member(second) as us,
    ):
        catalogs = [f"--catalog=eu={eu.url}", f"--catalog=us={us.url}"]
        for _ in range(2):
            assert (await concord("reconcile", *catalogs, "--settle=0")).exit_code == 0
            await eu.put("/messagegroups/g", {})
        shown = await concord("reconcile", "history", "--url", eu.url)
        assert shown.exit_code == 0, shown.stderr
        assert shown.stdout.count("equal") == 2
        found = json.loads(
            (await concord("reconcile", "history", "--url", eu.url, "--json")).stdout
        )
        assert [each["catalogs"] for each in found] == [["eu", "us"]] * 2
        report = tmp_path / "report"
        done = await concord("reconcile", *catalogs, "--settle=0", f"--report={report}")
        assert done.exit_code == 0
        page = (report / "report.html").read_text()
        assert "Earlier comparisons" in page
        assert page.count("<rect") == 4


def test_the_delivered_file_has_options_that_there_are(tmp_path: Path) -> None:
    file = Path(__file__).parents[2] / "deploy/reconcile.toml"
    # The file names variables with tokens, which are looked up before anything is compared.
    refused = run("--config", str(file))
    assert (refused.exit_code, "EU_TOKEN" in refused.stderr) == (3, True)
