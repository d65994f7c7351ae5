"""`concord doctor` finds what commonly goes wrong, and tells how to mend it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import SecretStr
from typer.testing import CliRunner, Result

from catalog.cli import app
from catalog.monitoring import nodechecks
from catalog.monitoring.diagnosis import CheckedNode, Diagnosis, examine
from catalog.monitoring.nodechecks import DATABASE_CHECKS, expiry
from catalog.settings import Settings
from catalog.settings.settingsfile import record_settings
from catalog.subscriptions.delivery.retention import drop_once, passed_time_for
from tests.integration.conftest import Node
from tests.integration.federation import databases, execute, link, start_member
from tests.integration.test_log_retention import EVERYTHING
from tests.integration.test_recovery import start_as

DURABILITY = ("fsync", "full_page_writes")


@pytest.fixture
async def urls(postgres_url: str, template: str) -> AsyncIterator[list[str]]:
    async with databases(postgres_url, template, 2) as made:
        yield made


async def doctor(url: str, *options: str, **settings: str) -> tuple[int, list[dict[str, str]]]:
    """The exit code, and all that is not well and has no cause in the server of the tests."""
    environment = {"CONCORD_DATABASE_URL": url, **settings}
    result = await run("--json", *options, **environment)
    assert result.exit_code in (0, 1), result.output
    found = orjson.loads(result.stdout)
    assert all(each["advice"] for each in found if each["level"] != "ok"), found
    faults = [each for each in found if each["level"] != "ok" and not _is_of_tests(each)]
    return result.exit_code, faults


def _is_of_tests(found: dict[str, str]) -> bool:
    """It forgets everything in a power cut, has many nodes of other tests, and no jobs."""
    if found["subject"] in ("backup", "comparison"):
        return True
    texts = (*(f"{name} is off" for name in DURABILITY), "this node may open", "a transaction of")
    return found["subject"] != "settings" and found["text"].startswith(texts)


async def run(*options: str, **environment: str) -> Result:
    invoke = CliRunner().invoke
    return await asyncio.to_thread(invoke, app, ["doctor", *options], env=environment)


async def subscribe(node: Node, sink: str) -> str:
    body = {"sink": sink, "protocol": "HTTP"}
    answer = await node.send("POST", "/subscriptions", body)
    assert answer.status == 201, answer.body
    return str(answer.json["id"])


async def test_a_node_that_is_well_is_told_so_apart_from_its_server_that_forgets(
    urls: list[str],
) -> None:
    async with start_member(urls[0]) as source, start_member(urls[1]) as node:
        await link(node, source, id="from")
        await subscribe(node, source.url)
        _, faults = await doctor(urls[1], CONCORD_PUBLIC_URL=node.url)
        assert faults == []
        connection = await asyncpg.connect(urls[1])
        off = [name for name in DURABILITY if await connection.fetchval(f"SHOW {name}") == "off"]
        await connection.close()
        settings = {"CONCORD_DATABASE_URL": urls[1], "CONCORD_PUBLIC_URL": node.url}
        told = await run("--json", **settings)
        assert told.exit_code == (1 if off else 0)
        assert all(f"{name} is off" in told.stdout for name in off)
        assert f"sink {source.url.removeprefix('http://')}" in told.stdout
        told = await run(**settings)
        assert "advice" in told.stdout
        assert " ok." in told.stdout


async def test_what_others_cannot_reach_or_refuse_is_found(urls: list[str]) -> None:
    async with start_member(urls[0]) as other, start_member(urls[1]) as node, refusing() as url:
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))  # and does not listen
            port = silent.getsockname()[1]
            for id, peer in (("gone", f"http://127.0.0.1:{port}"), ("kept-out", url)):
                body = {"id": id, "source": peer, "mode": "pull"}
                answer = await node.send("POST", "/replication/links?force", body)
                assert answer.status == 201, answer.body
            await subscribe(node, f"http://127.0.0.1:{port}/")
            elsewhere = other.url
            code, faults = await doctor(urls[1], CONCORD_PUBLIC_URL=elsewhere)
    assert code == 1
    texts = {each["subject"]: each["text"] for each in faults}
    assert texts.keys() == {elsewhere, "link gone", "link kept-out", f"sink 127.0.0.1:{port}"}
    assert "something else answers there" in texts[elsewhere]
    assert "cannot be reached" in texts["link gone"]
    assert "refuses all without one (401)" in texts["link kept-out"]


async def test_who_answers_at_the_urls_of_a_node_and_of_its_links_is_told(urls: list[str]) -> None:
    async with start_member(urls[0]) as other, start_member(urls[1]) as node:
        for id in ("itself", "another"):
            definition = {"id": id, "source": other.url, "mode": "pull"}
            answer = await node.send("POST", "/replication/links?force", definition)
            assert answer.status == 201, answer.body
        itself = "definition = jsonb_set(definition, '{source}', to_jsonb($1::text))"
        await execute(node, f"UPDATE links SET {itself} WHERE id = 'itself'", node.url)
        await execute(node, "UPDATE links SET instance = gen_random_uuid()")
        _, faults = await doctor(urls[1], CONCORD_PUBLIC_URL=node.url)
        texts = {each["subject"]: each["text"] for each in faults}
        assert texts["link itself"] == f"this node answers there: {node.url}"
        assert texts["link another"].startswith(f"another node answers there: {other.url} is ")
        # A copy of the database has the same instance, and notes its own start.
        await execute(other, "UPDATE node SET instance = $1", node.database.node.instance)
    async with start_member(urls[0]) as copied:
        code, faults = await doctor(urls[1], CONCORD_PUBLIC_URL=(url := copied.url))
    assert code == 1
    texts = {each["subject"]: each["text"] for each in faults}
    assert texts[url].startswith("a copy of this node's database answers there")


async def test_a_clock_that_jumped_is_told(urls: list[str]) -> None:
    async with start_member(urls[0]) as node:
        await drop_once(node.database, EVERYTHING, passed_time_for(node.context.settings))
        await execute(node, "UPDATE clock_points SET at = at - interval '100 days'")
        await drop_once(node.database, EVERYTHING, passed_time_for(node.context.settings))
        _, faults = await doctor(urls[0], CONCORD_PUBLIC_URL=node.url)
    [told] = faults
    assert (told["subject"], told["level"]) == ("clock", "warning")
    assert "went 100 days ahead by" in told["text"]


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("INSERT INTO migrations VALUES (9999, 'newer', '')", "which is newer or not a release"),
        ("UPDATE migrations SET checksum = ''", "which is newer or not a release"),
        ("DELETE FROM migrations WHERE number > 1", "it is of an older version: it lacks "),
        ("DROP TABLE migrations", "it has no catalog yet"),
    ],
)
async def test_of_the_database_of_another_version_that_is_all_that_is_told(
    urls: list[str], statement: str, text: str
) -> None:
    """Whatever has become of the tables that its other checks read."""
    async with start_member(urls[0]) as node:
        await execute(node, statement)
        await execute(node, "DROP TABLE clock_points, links, subscriptions CASCADE")
    code, faults = await doctor(urls[0], CONCORD_PUBLIC_URL="http://127.0.0.1:9")
    assert code == 1
    [told] = [each for each in faults if each["subject"] != "http://127.0.0.1:9"]
    assert (told["subject"], told["level"]) == ("schema", "error")
    assert text in told["text"]


@contextlib.asynccontextmanager
async def refusing() -> AsyncIterator[str]:
    """A server that lets nobody in."""

    async def refuse(_: web.Request) -> web.Response:
        return web.json_response({}, status=401)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", refuse)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")


async def test_what_is_wrong_in_the_database_is_found(
    urls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start_as(urls[0], awaits_recovery=True) as node:
        _, [found] = await doctor(urls[0], CONCORD_PUBLIC_URL=node.url)
        assert "takes no writes" in found["text"]
        assert "concord recover --from" in found["advice"]
    async with start_member(urls[1]) as node:
        id = await subscribe(node, "http://127.0.0.1:9/")
        await node.put("/messagegroups/g")
        await execute(node, "UPDATE changes SET at = now() - interval '80 days'")
        monkeypatch.setattr(nodechecks, "_LONG_TRANSACTION_SECONDS", 0.0)
        async with node.database.transaction() as open_one:
            await open_one.execute("UPDATE node SET home = home")
            faults = await faults_of(urls[1])
        told = {each.subject: each.text for each in faults}
        assert "it is 80 days behind" in told[f"subscription {id}"]
        assert "links and subscriptions see nothing" in told["transactions"]
        await execute(node, "UPDATE migrations SET checksum = ''")
        assert "another version" in {f.subject: f.text for f in await faults_of(urls[1])}["schema"]


async def faults_of(url: str) -> Sequence[Diagnosis]:
    checked = CheckedNode(Settings(), url, lambda _: None)
    return [each for each in await examine(checked, DATABASE_CHECKS) if each.level != "ok"]


async def test_a_check_that_fails_or_hangs_is_reported_and_hides_nothing() -> None:
    async def check_defect(_: CheckedNode) -> Any:
        raise KeyError("no such key")

    async def check_slowness(_: CheckedNode) -> Any:
        await asyncio.Event().wait()

    async def check_rest(_: CheckedNode) -> Any:
        return [Diagnosis(subject="rest", level="ok", text="well")]

    checked = CheckedNode(Settings(), None, lambda _: None)
    checks = [check_defect, check_slowness, check_rest, *DATABASE_CHECKS]
    defect, slowness, rest, *others = await examine(checked, checks, seconds=0.5)
    assert (defect.subject, "the check itself failed" in defect.text) == ("defect", True)
    assert (slowness.level, "within 0.5 seconds" in slowness.text) == ("error", True)
    assert rest.level == "ok"
    assert [each.subject for each in others] == ["database"]


async def test_where_there_is_no_node_yet_nothing_is_made_and_unsafe_settings_are_told(
    tmp_path: Path,
) -> None:
    unsafe = {"CONCORD_HOST": "0.0.0.0", "CONCORD_OPEN": "true", "CONCORD_CORS_ORIGINS": "*"}
    certificate = {"CONCORD_TLS_CERT": __file__, "CONCORD_TLS_KEY": __file__}
    directory = tmp_path / "data"
    result = await run("--json", "--data-dir", str(directory), **unsafe, **certificate)
    assert result.exit_code == 1, result.output
    told = [each["text"] for each in orjson.loads(result.stdout) if each["level"] != "ok"]
    assert not directory.exists()
    for text in ("everybody who reaches", "no public URL", "pages of every origin", "cannot be"):
        assert any(text in each for each in told), told
    directory.mkdir(mode=0o755)
    directory.chmod(0o755)
    result = await run("--json", "--data-dir", str(directory))
    assert f"chmod 700 {directory}" in result.stdout


def test_a_certificate_is_told_before_it_expires() -> None:
    now = datetime.now(UTC)
    ends = [now + timedelta(days=60), now + timedelta(days=3), now - timedelta(days=1)]
    levels = [expiry("it", end, "Renew it.").level for end in ends]
    assert levels == ["ok", "warning", "error"]


async def test_a_catalog_that_nobody_compares_or_backs_up_is_told(
    urls: list[str], tmp_path: Path
) -> None:
    async with start_member(urls[0]) as source, start_member(urls[1]) as node:
        assert await upkeep(urls[1]) == {"backup": "there never was one"}
        await link(node, source, id="from")
        assert "no job ever compared" in (await upkeep(urls[1]))["comparison"]
        await execute(node, _COMPARED, "failed", timedelta(0))
        assert "no job ever compared" in (await upkeep(urls[1]))["comparison"]
        await execute(node, _COMPARED, "equal", timedelta(days=5))
        assert "5 days ago" in (await upkeep(urls[1]))["comparison"]
        await execute(node, _COMPARED, "different", timedelta(hours=1))
        backup = ["backup", str(tmp_path / "file"), "--database-url", urls[1]]
        made = await asyncio.to_thread(CliRunner().invoke, app, backup)
        assert made.exit_code == 0, made.output
        assert await upkeep(urls[1]) == {}
        await execute(node, "UPDATE node SET backedupat = now() - interval '9 days'")
        assert await upkeep(urls[1]) == {"backup": "the last one is 9 days old"}


_COMPARED = """INSERT INTO reconciliations
    (run, startedat, endedat, at, outcome, name, catalogs, findings,
    unverifiable)
    VALUES (gen_random_uuid(), now(), now(), now() - $2::interval, $1, 'hub', '{hub,eu}', '{}',
    0)"""


async def upkeep(url: str) -> dict[str, str]:
    result = await run("--json", CONCORD_DATABASE_URL=url)
    return {
        each["subject"]: each["text"]
        for each in orjson.loads(result.stdout)
        if each["subject"] in ("backup", "comparison") and each["level"] == "warning"
    }


async def test_settings_are_those_of_the_nodes_last_start_unless_the_environment_has_others(
    urls: list[str], tmp_path: Path
) -> None:
    record_settings(
        Settings(
            data_dir=tmp_path,
            database_url=SecretStr(urls[0]),
            host="0.0.0.0",
            open=True,
            public_url="http://catalog.example",
            cors_origins=("*",),
        )
    )
    recorded = (tmp_path / "settings.json").read_text()
    assert urls[0] not in recorded
    options = ("--data-dir", str(tmp_path))
    lacking = await run(*options)
    assert lacking.exit_code == 2
    assert "CONCORD_DATABASE_URL" in lacking.output
    told = await run("--json", *options, CONCORD_DATABASE_URL=urls[0])
    assert "everybody who reaches the node" in told.output
    assert "pages of every origin" in told.output
    assert "http://catalog.example" in told.output
    told = await run(
        "--json", *options, CONCORD_DATABASE_URL=urls[0], CONCORD_CORS_ORIGINS="https://a.b"
    )
    assert "pages of every origin" not in told.output
