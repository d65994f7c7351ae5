"""Real OpenID Connect providers: the package `oidc-provider` of npm, kept in the user's cache."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import aiohttp

from tests.brokers.npmpackage import Package
from tests.brokers.serverprocess import Program, until_listening
from tests.e2e.nodes import free_port

PACKAGE = Package("oidc-provider", "9.13.3")
AUDIENCE = "https://catalog.example"


@dataclass(frozen=True, slots=True)
class OidcProvider:
    """A provider with the clients `plant` and `boss`, who is one of the group `admins`."""

    issuer: str
    session: aiohttp.ClientSession

    async def token(
        self, client: str = "plant", *, scope: str = "catalog.read", audience: str = AUDIENCE
    ) -> str:
        """A token for access of a client (RFC 6749, 4.4); that for `/brief` lasts a second."""
        async with self.session.post(
            f"{self.issuer}/token",
            data={
                "grant_type": "client_credentials",
                "client_id": client,
                "client_secret": "secret",
                "resource": audience,
                "scope": scope,
            },
        ) as response:
            answer = await response.json()
        return str(answer["access_token"])

    async def rotate(self) -> None:
        """Sign by other keys from now on, and withdraw those before."""
        async with self.session.post(f"{self.issuer}/test/rotate"):
            pass

    async def let_people_log_in(self, callback: str) -> None:
        """Know the clients `console` and `public`, to whose URL people come back; by new keys."""
        address = f"{self.issuer}/test/redirect?{quote(callback, safe='')}"
        async with self.session.post(address):
            pass

    async def reads(self) -> int:
        """The number of times that the keys were read."""
        async with self.session.get(f"{self.issuer}/test/reads") as response:
            return int(await response.text())


@contextlib.asynccontextmanager
async def run_providers(directory: Path, count: int) -> AsyncIterator[list[OidcProvider]]:
    """Some providers in one process; the test is skipped where there is no npm."""
    ports = [free_port() for _ in range(count)]
    process = await script_in(directory, Path(__file__).with_suffix(".mjs"), *map(str, ports))
    await process.start()
    try:
        for port in ports:
            await until_listening(port)
        async with aiohttp.ClientSession() as session:
            yield [OidcProvider(f"http://127.0.0.1:{port}", session) for port in ports]
    finally:
        await process.kill()


async def script_in(directory: Path, script: Path, *arguments: str) -> Program:
    """A program in JavaScript that finds the package, copied into a directory."""
    return Program(*await PACKAGE.script_in(directory, script, *arguments))
