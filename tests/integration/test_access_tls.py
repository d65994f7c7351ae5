"""TLS ends at the node, and a client certificate of a known authority has the roles of its name."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp
import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from catalog.access.certificates import TlsUnusable, caller_of, server_tls
from catalog.access.owntokens import make_token
from catalog.api.app import create_app
from catalog.context import Context, SharedState, read_configuration
from catalog.http.route import Route
from catalog.model.roles import Grant, RoleRule
from catalog.monitoring.health import routes as monitoring_routes
from catalog.node.noderuntime import open_database, serve, start_listening
from catalog.settings import Settings
from tests.brokers.certificates import CertificateAuthority

CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


@contextlib.asynccontextmanager
async def tls_node(
    settings: Settings, more: Sequence[Route] = monitoring_routes
) -> AsyncIterator[tuple[str, Context]]:
    async with open_database(settings) as database:
        shared = SharedState(
            database=database.shared,
            configuration=await read_configuration(database.shared),
            settings=settings,
            public_base="",
        )
        listening = await start_listening(settings)
        async with serve(create_app(shared, more), settings, listening):
            yield listening.url, shared.for_node()


def client_tls(authority: CertificateAuthority, certificate: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.pem)
    if certificate is not None:
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    return context


async def test_a_certificate_lets_in_by_its_name(database_url: str, tmp_path: Path) -> None:
    ours, theirs = CertificateAuthority(), CertificateAuthority()
    ours.write_server(tmp_path)
    ours.write_client(tmp_path, "plant.example", CLIENT)
    ours.write_client(tmp_path, "unknown.example", CLIENT)
    ours.write_client(tmp_path, "misused.example", SERVER)
    theirs.write_client(tmp_path, "stranger.example", CLIENT)
    (tmp_path / "ca.pem").write_text(ours.pem)
    settings = Settings(
        port=0,
        database_url=database_url,
        tls_cert=tmp_path / "server.pem",
        tls_key=tmp_path / "server.key",
        tls_client_ca=tmp_path / "ca.pem",
        certificate_roles="writer:cn=plant.example,writer:cn=misused.example",
    )
    async with tls_node(settings) as (url, context), aiohttp.ClientSession() as session:
        assert url.startswith("https://127.0.0.1:")

        async def status(name: str | None, path: str = "/messagegroups", **headers: str) -> int:
            certificate = None if name is None else tmp_path / f"{name}.pem"
            # A connection of its own, since a certificate is shown when it begins.
            async with session.get(
                f"{url}{path}",
                headers={"Connection": "close", **headers},
                ssl=client_tls(ours, certificate),
            ) as response:
                # Browsers come back over TLS only.
                assert response.headers["Strict-Transport-Security"] == "max-age=31536000"
                return response.status

        assert await status("plant.example") == 200
        assert await status("unknown.example") == 403
        assert await status(None) == 401
        assert await status(None, "/health/live") == 200
        for name in ("misused.example", "stranger.example"):
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await status(name)
        async with context.database.acquire() as connection:
            grants = (Grant("reader"),)
            _, text = await make_token(connection, name="", grants=grants, expiresat=None)
        token = {"Authorization": f"Bearer {text}"}
        assert await status(None, **token) == 200
        # What is shown on purpose goes before what the connection tells.
        assert await status("plant.example", "/subscriptions", **token) == 403
        assert await status("plant.example", "/subscriptions") == 200
        # Plain HTTP, or nothing at all, holds up nobody.
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert not (await reader.read()).startswith(b"HTTP/1.1 2")
        writer.close()
        assert await status("plant.example") == 200


def test_a_certificate_counts_until_it_ends_and_only_its_verified_names_do() -> None:
    rules = [RoleRule.parse("reader:o=Plant"), RoleRule.parse("writer:dns=a.example")]
    certificate = {
        "subject": ((("commonName", "a"),), (("organizationName", "Plant"),)),
        "issuer": ((("commonName", "an authority"),),),
        "subjectAltName": (("DNS", "a.example"), ("othername", "<unsupported>")),
        "notAfter": "Jan  5 09:34:43 2100 GMT",
    }
    caller = caller_of(certificate, rules)
    assert caller is not None
    assert caller.roles == ("reader", "writer")
    assert (caller.name, caller.issuer) == ("cn=a, o=Plant, dns=a.example", "cn=an authority")
    assert caller_of({**certificate, "notAfter": "Jan  5 09:34:43 2018 GMT"}, rules) is None


def test_files_that_are_no_certificates_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.pem").write_text("nonsense")
    for name in ("a.pem", "missing.pem"):
        path = tmp_path / name
        with pytest.raises(TlsUnusable, match="CONCORD_TLS_CERT"):
            server_tls(Settings(tls_cert=path, tls_key=path))
    assert server_tls(Settings()) is None


@pytest.mark.parametrize(
    ("ciphers", "is_served"),
    [("ECDHE+AESGCM", True), ("kECDHE:!AESGCM:!AESCCM:!CHACHA20:!ARIAGCM", False)],
)
async def test_tls_1_2_has_no_suites_with_cbc(
    database_url: str, tmp_path: Path, ciphers: str, is_served: bool
) -> None:
    ours = CertificateAuthority()
    ours.write_server(tmp_path)
    settings = Settings(
        port=0,
        database_url=database_url,
        tls_cert=tmp_path / "server.pem",
        tls_key=tmp_path / "server.key",
    )
    context = client_tls(ours, None)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(ciphers)
    async with tls_node(settings) as (url, _), aiohttp.ClientSession() as session:
        try:
            async with session.get(f"{url}/health/live", ssl=context) as answer:
                assert is_served
                assert answer.status == 200
        except aiohttp.ClientConnectorError:
            assert not is_served
