"""A real Prometheus that scrapes nodes as deploy/monitoring says, in a shorter time."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.deploy.files import MONITORING, read_yaml
from tests.e2e.nodes import free_port, until

INTERVAL = "200ms"
PACKAGE = "prometheus"


def program(name: str) -> str:
    """The path of a program of Prometheus; the test is skipped without it."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is missing: install it with apt-get install {PACKAGE}")
    return path


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running server."""

    url: str
    _session: aiohttp.ClientSession

    async def api(self, path: str, **params: str) -> Any:
        async with self._session.get(f"{self.url}/api/v1/{path}", params=params) as answer:
            body = await answer.json()
        assert body["status"] == "success", f"{params}: {body}"
        return body["data"]

    async def query(self, expression: str) -> Sequence[Mapping[str, Any]]:
        """The samples that an expression gives now."""
        found: Sequence[Mapping[str, Any]] = (await self.api("query", query=expression))["result"]
        return found


@asynccontextmanager
async def running_prometheus(
    directory: Path, targets: Mapping[str, str], pending: str
) -> AsyncIterator[Prometheus]:
    """Prometheus with the configuration of deploy/monitoring.

    Args:
        targets: the host and port of each node, by the one that the configuration names.
        pending: how long an alarm waits, in place of what each rule says.
    """
    _write_configuration(directory, targets, pending)
    port = free_port()
    with (directory / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            program("prometheus"),
            f"--config.file={directory}/prometheus.yml",
            f"--storage.tsdb.path={directory}/data",
            f"--web.listen-address=127.0.0.1:{port}",
            stdout=log,
            stderr=log,
        )
    async with answering(process, f"http://127.0.0.1:{port}") as prometheus:
        yield prometheus


@asynccontextmanager
async def answering(process: asyncio.subprocess.Process, url: str) -> AsyncIterator[Prometheus]:
    """A Prometheus that has begun to answer; it ends with the context."""
    try:
        async with aiohttp.ClientSession() as session:
            await until(lambda: _is_ready(session, url), seconds=60, what="Prometheus to be ready")
            yield Prometheus(url, session)
    finally:
        process.kill()
        await process.wait()


async def _is_ready(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(f"{url}/-/ready") as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


def _write_configuration(directory: Path, targets: Mapping[str, str], pending: str) -> None:
    configuration = read_yaml(MONITORING / "prometheus.yml")
    configuration["global"] = {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL}
    for job in configuration["scrape_configs"]:
        # These nodes let everybody in.
        del job["authorization"]
        for each in job["static_configs"]:
            each["targets"] = [targets[target] for target in each["targets"] if target in targets]
    rules = read_yaml(MONITORING / "rules.yml")
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["for"] = pending
    (directory / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    (directory / "rules.yml").write_text(yaml.safe_dump(rules))
