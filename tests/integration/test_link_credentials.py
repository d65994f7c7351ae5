"""A link shows its peer tokens of an OAuth provider, or a client certificate."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.x509.oid import ExtendedKeyUsageOID
from typer.testing import Result

from catalog.client import ONCE, Client, CredentialUnusable
from catalog.model.credentials import OAuthClient, PeerCredential
from catalog.reconfiguration.initialmodel import ensure_registry
from catalog.settings import Settings
from replication.peers.peeraccess import PeerAccess, read_certificate
from replication.routes import routes
from tests.brokers.certificates import CertificateAuthority
from tests.brokers.oidcprovider import AUDIENCE, run_providers
from tests.integration.commandline import concord
from tests.integration.federation import databases, eventually, link_is, running, start_member
from tests.integration.test_access_tls import tls_node
from tests.integration.test_link_tokens import as_admin, has

LINK = "/replication/links/l"
SHOWN = (LINK, f"{LINK}/conflicts", "/replication/links", "/replication", "/subscriptions")
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


async def test_a_link_follows_by_the_tokens_of_a_provider(
    postgres_url: str, template: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        run_providers(tmp_path, 1) as [provider],
        databases(postgres_url, template, 2) as [first, second],
        start_member(
            first,
            open=False,
            oidc_issuers=provider.issuer,
            oidc_audiences=AUDIENCE,
            oidc_roles="replicator:scope=catalog.read",
        ) as source,
        start_member(second) as target,
    ):
        options = ("--credential-from", "SHOWN")

        def oauth(secret: str) -> str:
            client = {
                "tokenurl": f"{provider.issuer}/token",
                "clientid": "plant",
                "clientsecret": secret,
                "scope": "catalog.read",
                "resource": AUDIENCE,
                "authentication": "client_secret_post",
            }
            return orjson.dumps({"oauth": client}).decode()

        add = ("link", "add", source.url, "--id", "l", *options)
        refused = await concord(target, *add, SHOWN=oauth("wr0ng-s3cret"))
        assert "refused the client (invalid_client)" in refused.output
        added = await concord(target, *add, SHOWN=oauth("secret"))
        assert added.exit_code == 0, added.output
        async with running(source, target, deliveries=True):
            await as_admin(source, "PUT", "/messagegroups/one", {})
            await eventually(lambda: has(target, "/messagegroups/one"))
            await link_is(target, "l", "current")
            subscription = (await target.get(LINK))["subscription"]
            replace = ("link", "set", "l", *options)
            replaced = await concord(target, *replace, SHOWN=oauth("wr0ng-s3cret"))
            assert replaced.exit_code == 0, replaced.output
            await link_is(target, "l", "unauthenticated")
            kept = [(await target.send("GET", path)).body.decode() for path in SHOWN]
            shown = await target.get(LINK)
            assert "(invalid_client)" in shown["error"]
            assert "concord link set l" in shown["error"]
            assert shown["errors"]["credential"]
            assert (await concord(target, *replace, SHOWN=oauth("secret"))).exit_code == 0
            await as_admin(source, "PUT", "/messagegroups/two", {})
            await eventually(lambda: has(target, "/messagegroups/two"))
            assert (await target.get(LINK))["subscription"] == subscription
        assert (await target.get(LINK))["credential"] == {
            "oauth": {
                "tokenurl": f"{provider.issuer}/token",
                "clientid": "plant",
                "clientsecret": "***",
                "scope": "catalog.read",
                "resource": AUDIENCE,
                "authentication": "client_secret_post",
            }
        }
        async with target.database.acquire() as connection:
            row = await connection.fetchval("SELECT l::text FROM links l")
        told = [row, *kept, *capsys.readouterr(), refused.output, replaced.output]
        told += [(await target.send("GET", path)).body.decode() for path in SHOWN]
        # Tokens of the provider begin as the JSON of their headers does.
        assert not [text for text in told if "wr0ng-s3cret" in text or "eyJ" in text]


class RevokingServer:
    """A token endpoint, and a catalog that takes its last token only, until that is revoked."""

    def __init__(self) -> None:
        self.given = 0
        self.valid = ""
        self.logins: list[str] = []

    async def give(self, request: web.Request) -> web.Response:
        form = await request.post()
        assert form["grant_type"] == "client_credentials"
        self.logins.append(request.headers["Authorization"])
        self.given += 1
        self.valid = f"token-{self.given}"
        body = {"access_token": self.valid, "token_type": "bearer", "expires_in": 3600}
        return web.json_response(body)

    async def answer(self, request: web.Request) -> web.Response:
        is_valid = self.valid and request.headers["Authorization"] == f"Bearer {self.valid}"
        return web.json_response({}, status=200 if is_valid else 401)

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        application = web.Application()
        application.router.add_post("/token", self.give)
        application.router.add_get("/", self.answer)
        async with TestServer(application) as server:
            yield str(server.make_url("")).rstrip("/")


async def test_a_token_is_kept_and_fetched_once_more_when_it_is_refused() -> None:
    server = RevokingServer()
    async with server.serve() as url, aiohttp.ClientSession() as session:
        oauth = OAuthClient(tokenurl=f"{url}/token", clientid="a b", clientsecret="s:3")
        access = PeerAccess(PeerCredential(oauth=oauth), Settings())
        client = Client(url, session, retry=ONCE, timeout_seconds=20, credential=access)
        await asyncio.gather(*(client.get("/") for _ in range(5)))
        assert server.given == 1
        assert server.logins == [aiohttp.encode_basic_auth("a+b", "s%3A3")]
        server.valid = "another"
        assert await client.get("/") == {}
        assert server.given == 2
    gone = OAuthClient(tokenurl=f"{url}/token", clientid="a", clientsecret="s")
    access = PeerAccess(PeerCredential(oauth=gone), Settings())
    with pytest.raises(CredentialUnusable, match="cannot be reached") as caught:
        await access.headers()
    assert caught.value.is_retryable


async def test_a_client_certificate_lets_links_of_every_mode_in(
    postgres_url: str, template: str, tmp_path: Path
) -> None:
    authority = CertificateAuthority()
    authority.write_server(tmp_path)
    authority.write_client(tmp_path, "plant.example", CLIENT)
    authority.write_client(tmp_path, "misused.example", SERVER)
    (tmp_path / "ca.pem").write_text(authority.pem)
    name = tmp_path / "plant.example"
    shown = ("--client-cert", f"{name}.pem", "--client-key", f"{name}.key")
    trusting = ("--ca-cert", str(tmp_path / "ca.pem"))
    async with databases(postgres_url, template, 2) as [first, second]:
        settings = Settings(
            port=0,
            database_url=first,
            tls_cert=tmp_path / "server.pem",
            tls_key=tmp_path / "server.key",
            tls_client_ca=tmp_path / "ca.pem",
            certificate_roles="replicator:cn=plant.example,writer:cn=plant.example",
        )
        async with tls_node(settings, routes) as (url, context), start_member(second) as target:
            await ensure_registry(context.database, "test")

            async def add(*options: str, id: str = "l") -> Result:
                return await concord(target, "link", "add", url, "--id", id, *options)

            assert "agree on no TLS connection" in (await add(*shown)).output
            assert "Give the link a token" in (await add(*trusting)).output
            assert "private key" in (await add(*trusting, *shown[:3], str(name) + ".pem")).output
            wrong = tmp_path / "misused.example"
            misused = (*shown[:1], f"{wrong}.pem", *shown[2:3], f"{wrong}.key")
            assert "not meant for clients" in (await add(*trusting, *misused)).output
            assert "not the certificate's" in (await add(*trusting, *misused[:3], shown[3])).output
            for mode in ("pull", "walk", "write"):
                to = ("--write", url) if mode == "write" else (url, "--mode", mode)
                made = await concord(target, "link", "add", *to, "--id", mode, *trusting, *shown)
                assert made.exit_code == 0, made.output
                async with running(target):
                    await link_is(target, mode, "current")
                credential = (await target.get(f"/replication/links/{mode}"))["credential"]
                assert credential["certificate"]["subject"] == "CN=plant.example"
                ends = datetime.fromisoformat(credential["certificate"]["endsat"])
                assert datetime.now(UTC) < ends < datetime.now(UTC) + timedelta(days=2)
                assert (await concord(target, "link", "remove", mode)).exit_code == 0


def test_a_certificate_that_has_ended_is_not_shown(tmp_path: Path) -> None:
    CertificateAuthority().write_client(tmp_path, "a", CLIENT)
    chain, key = ((tmp_path / f"a.{kind}").read_text() for kind in ("pem", "key"))
    now = datetime.now(UTC)
    assert read_certificate(chain, key, now).subject == "CN=a"
    for at, reason in ((now + timedelta(days=3), "ended"), (now - timedelta(days=3), "begins")):
        with pytest.raises(ValueError, match=reason):
            read_certificate(chain, key, at)


async def test_bodies_with_credentials_that_cannot_be_are_refused(database_url: str) -> None:
    async with start_member(database_url) as node:
        body: dict[str, Any] = {"source": "http://127.0.0.1:9", "mode": "pull"}
        oauth = {"tokenurl": "http://127.0.0.1:9/t", "clientid": "c", "clientsecret": "s3cr3t"}
        for bad in (
            {"token": "t", "oauth": oauth},
            {"oauth": oauth | {"tokenurl": "http://[64:ff9b::1]/t"}},
            {"oauth": oauth | {"tokenurl": "http://127.0.0.1:9/t?s3cr3t"}},
            {"oauth": oauth | {"clientsecret": "s3cr3t\n"}},
            {"oauth": oauth | {"authentication": "none"}},
            {"certificate": {"chain": "s3cr3t", "key": "s3cr3t"}},
            {"cacertificate": CertificateAuthority().pem},
        ):
            answer = await node.send("POST", "/replication/links?force", body | {"credential": bad})
            assert (answer.status, answer.error) == (400, "invalid_attribute"), answer.body
            assert b"s3cr3t" not in answer.body
        both = body | {"credential": {"oauth": oauth}, "token": "t"}
        answer = await node.send("POST", "/replication/links?force", both)
        assert (answer.status, answer.error) == (400, "invalid_attribute")
        made = await node.send(
            "POST", "/replication/links?force", body | {"id": "l", "credential": {"oauth": oauth}}
        )
        assert made.json["credential"]["oauth"]["clientsecret"] == "***"
        answer = await node.send("PATCH", LINK, {"credential": {}})
        assert answer.json.get("credential") is None
