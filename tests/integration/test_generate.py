"""`concord generate`: code by xrcg from pinned definitions, and the messages of that code."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio
from typer.testing import CliRunner, Result

from catalog.cli import app
from catalog.client import Client
from catalog.commands.documentfile import read_document
from catalog.commands.import_.importing import import_document
from tests.brokers.codegenerator import generator_modules, generator_program
from tests.integration.conftest import Node, shared_node
from tests.pages import ROOT

# The first test fetches the generator, once.
pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
]
DWD = ROOT / "catalog" / "demo" / "data" / "eu" / "dwd.xreg.json"
GROUP = "/messagegroups/DE.DWD.CDC"
MESSAGE = f"{GROUP}/messages/DE.DWD.CDC.StationMetadata"
SCHEMA = "/schemagroups/DE.DWD.CDC.jstruct/schemas/DE.DWD.CDC.StationMetadata"
SCRIPT = Path(__file__).with_name("generatedcode.py")

node = shared_node()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(node: Node) -> AsyncIterator[Client]:
    async with Client.open(node.url) as opened:
        assert (await import_document(opened, read_document(DWD, migrate=True))).is_imported
        yield opened


class Team:
    """Somebody who generates code in a directory."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        self.lock = directory / "concord.lock"
        self._program = generator_program(directory)
        self._url = url

    async def generate(self, *more: str, style: str = "kafkaproducer") -> Result:
        arguments = ["generate", GROUP, "--language", "py", "--style", style]
        arguments += ["-o", str(self.directory / "weather"), "--lock", str(self.lock)]
        arguments += ["--generator", str(self._program), "--url", self._url, *more]
        return await asyncio.to_thread(CliRunner().invoke, app, arguments)

    def pins(self) -> dict[str, Any]:
        found: dict[str, Any] = orjson.loads(self.lock.read_bytes())["runs"][GROUP]["definitions"]
        return found

    def source_of(self, name: str) -> str:
        return (self.directory / "weather" / "weather_data/src/weather_data" / name).read_text()


@pytest.fixture
def team(tmp_path: Path, node: Node) -> Team:
    return Team(tmp_path, node.url)


async def test_what_generated_producers_send_is_valid_and_read_by_generated_consumers(
    node: Node, client: Client, team: Team
) -> None:
    for style in ("kafkaproducer", "kafkaconsumer"):
        result = await team.generate(style=style)
        assert result.exit_code == 0, result.output
    packages = ["weather_data", "weather_kafka_producer", "weather_kafka_consumer"]
    site, modules = team.directory / "site", str(generator_modules())
    await execute(
        *("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"),
        *("--disable-pip-version-check", "--target", str(site)),
        *(str(team.directory / "weather" / name) for name in packages),
        path=modules,
    )
    for mode in ("structured", "binary"):
        told = await execute(str(SCRIPT), mode, path=f"{site}{os.pathsep}{modules}")
        found = orjson.loads(told)
        assert (found["id"], found["station"]) == ("00044", "Großenkneten")
        record = found["record"]
        message = orjson.loads(record["value"])
        if mode == "binary":
            headers = record["headers"]
            message = {"protocol": "KAFKA", "headers": headers, "payload": message}
        answer = await node.send("POST", f"/validate{MESSAGE}", message)
        assert answer.json["valid"], answer.body
        assert answer.json["schema"].startswith(SCHEMA)


async def execute(*arguments: str, path: str) -> bytes:
    environment = {**os.environ, "PYTHONPATH": path}
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, *arguments], env=environment, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


async def test_a_run_takes_the_pinned_versions_until_the_pins_are_moved(
    client: Client, team: Team, tmp_path: Path
) -> None:
    assert (await team.generate()).exit_code == 0
    first, pins = team.source_of("stationmetadata.py"), team.pins()
    assert pins[SCHEMA]["version"] == "1"
    assert {*pins} > {MESSAGE, SCHEMA}
    schema = (await client.entity(f"{SCHEMA}/versions/1", inline=["schema"]))["schema"]
    schema["properties"]["colour"] = {"type": "string"}
    attributes = {"versionid": "2", "format": "JsonStructure/draft-02", "schema": schema}
    await client.add_version(SCHEMA, attributes)
    # A newer message names a schema that no pinned one names.
    later = SCHEMA.replace("StationMetadata", "Later")
    await client.create(later, {**attributes, "versionid": "1"})
    message = await client.entity(f"{MESSAGE}/versions/1")
    kept = ("name", "envelope", "envelopemetadata", "dataschemaformat")
    changes = {"versionid": "2", "dataschemauri": later}
    await client.add_version(MESSAGE, {name: message[name] for name in kept} | changes)
    try:
        result = await team.generate()
        assert result.exit_code == 0, result.output
        assert "version 2 is newer than the pinned 1" in result.stderr
        assert (team.source_of("stationmetadata.py"), team.pins()) == (first, pins)
        # An export has the same definitions as the node.
        export = tmp_path / "export.xreg.json"
        export.write_bytes(orjson.dumps(await client.export()))
        assert (await team.generate("--from", str(export))).exit_code == 0
        assert (await team.generate("--update")).exit_code == 0
        assert "colour" in team.source_of("stationmetadata.py")
        assert {*team.pins()} == {*pins, later} - {SCHEMA}
    finally:
        for xid in (f"{MESSAGE}/versions/2", later, f"{SCHEMA}/versions/2"):
            await client.delete(xid)
    result = await team.generate()
    assert (result.exit_code, "version 2 is not there" in result.stderr) == (1, True)


async def test_a_run_fails_if_definitions_are_not_what_was_pinned(
    client: Client, team: Team
) -> None:
    assert (await team.generate()).exit_code == 0
    before = team.lock.read_bytes()

    async def refusal() -> str:
        result = await team.generate()
        assert result.exit_code == 1, result.output
        assert team.lock.read_bytes() == before
        return result.stderr

    await client.update(MESSAGE, {"description": "Another one"})
    assert f"{MESSAGE}: version 1 has another content" in await refusal()
    assert (await team.generate("--update")).exit_code == 0
    before = team.lock.read_bytes()
    await client.create(f"{GROUP}/messages/new", {"envelope": "CloudEvents/1.0"})
    assert f"{GROUP}/messages/new is new" in await refusal()
    await client.delete(f"{GROUP}/messages/new")
    await client.patch(f"{MESSAGE}/meta", {"deprecated": {"effective": "2999-01-01T00:00:00Z"}})
    assert (await team.generate()).exit_code == 0, "not yet"
    await client.patch(f"{MESSAGE}/meta", {"deprecated": {"alternative": "https://x.example/y"}})
    assert f"{MESSAGE} is deprecated; the alternative is https://x.example/y" in await refusal()
    assert (await team.generate("--allow-deprecated")).exit_code == 0
    await client.patch(f"{MESSAGE}/meta", {"deprecated": None})
    before = before.replace(b"xrcg 0.11.0", b"xrcg 0.1.0")
    team.lock.write_bytes(before)
    assert "was written with xrcg 0.1.0" in await refusal()


async def test_what_cannot_be_done_is_told_in_a_sentence_and_leaves_no_files(
    client: Client, team: Team
) -> None:
    result = await team.generate(style="none")
    assert result.exit_code == 2
    assert "Code template directory not found" in result.stderr
    assert not team.lock.exists()
    assert not (team.directory / "weather").exists()
    team.lock.write_text("{}")
    result = await team.generate()
    assert (result.exit_code, "is no lock file" in result.stderr) == (2, True)
