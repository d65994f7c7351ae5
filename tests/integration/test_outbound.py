"""What this node refuses to connect to."""

from __future__ import annotations

import socket
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from catalog.client.connection import read_limited
from catalog.client.errors import ResponseTooLarge
from catalog.http.allowedaddresses import why_address_refused, why_refused
from catalog.http.outboundconnections import RedirectRefused, open_session
from catalog.settings import Settings

GUARDED = Settings(allow_private_addresses=False)
OPEN = Settings(allow_private_addresses=True)


async def answer(request: web.Request) -> web.Response:
    if request.path == "/moved":
        return web.Response(status=302, headers={"Location": "/"})
    return web.Response(body=b"x" * 1000, headers={"Set-Cookie": "a=b"})


@pytest.fixture
async def server() -> Any:
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with TestServer(app) as server:
        yield server


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0"),
        *("2130706433", "127.1", "0x7f000001", "0177.0.0.1", "0"),
    ],
)
async def test_private_addresses_are_not_connected_to_however_they_are_written(
    server: TestServer, host: str
) -> None:
    async with open_session(GUARDED) as session:
        with pytest.raises((aiohttp.ClientConnectorError, aiohttp.InvalidURL)):
            await session.get(f"http://{host}:{server.port}/")


async def test_a_name_is_admitted_by_the_address_that_is_connected_to(
    server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with DNS rebinding: the name looks public and resolves to loopback."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.port))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    async with open_session(GUARDED) as session:
        with pytest.raises(aiohttp.ClientConnectorError, match="not a public address"):
            await session.get(f"http://public.example:{server.port}/")
    async with open_session(OPEN) as session:
        response = await session.get(f"http://public.example:{server.port}/")
        assert response.status == 200


async def test_private_addresses_are_connected_to_where_that_is_allowed(
    server: TestServer,
) -> None:
    async with open_session(OPEN) as session, session.get(server.make_url("/")) as response:
        assert response.status == 200


async def test_redirects_are_never_followed(server: TestServer) -> None:
    async with open_session(OPEN) as session:
        with pytest.raises(RedirectRefused):
            await session.get(server.make_url("/moved"))
        response = await session.get(server.make_url("/moved"), allow_redirects=False)
        assert response.status == 302


async def test_responses_are_read_up_to_a_limit(server: TestServer) -> None:
    async with open_session(OPEN) as session:
        async with session.get(server.make_url("/")) as response:
            assert await read_limited(response, 1000) == b"x" * 1000
        async with session.get(server.make_url("/")) as response:
            with pytest.raises(ResponseTooLarge):
                await read_limited(response, 999)


async def test_cookies_are_not_kept(server: TestServer) -> None:
    async with open_session(OPEN) as session:
        await session.get(server.make_url("/"))
        assert len(session.cookie_jar) == 0


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fc00::1",
        "fd00:ec2::254",
        "fec0::1",
        "ff02::1",
        "::ffff:10.0.0.1",
        "::10.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "2002:a00:1::",
        "2001:0:a00:1:0:0:f5ff:fffe",
        "192.0.0.192",
        "64:ff9b:1::a9fe:a9fe",
        "fd20:ce::254",
    ],
)
def test_what_is_not_on_the_internet_is_not_public(address: str) -> None:
    assert why_address_refused(address, GUARDED)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "64:ff9b::101:101"]
)
def test_what_is_on_the_internet_is_public(address: str) -> None:
    assert not why_address_refused(address, GUARDED)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://sink.example/",
        "//sink.example/",
        "/relative",
        "http://",
        "http://user:pass@sink.example/",
        "http://sink.example/#fragment",
        "http://sink.example:99999/",
        "http://[::1",
        "http://localhost/",
        "http://10.0.0.1/",
        "http://[::1]:80/",
    ],
)
def test_a_url_that_cannot_be_a_sink_is_refused_with_a_reason(url: str) -> None:
    assert why_refused(url, GUARDED)


@pytest.mark.parametrize(
    "url",
    [
        "kafka://a.example:9092,10.0.0.1:9092/t",
        "kafka://a.example,[::1]:9092/t",
        "kafka://a.example,/t",
        "kafka://,a.example/t",
        "kafka://a.example,user@b.example/t",
        "kafka://a.example:1,b.example:99999/t",
        "kafka://a.example,b.example,c.example,d.example/t",
    ],
)
def test_each_host_of_a_url_is_checked_and_counted(url: str) -> None:
    assert why_refused(url, GUARDED, schemes=("kafka",), most_hosts=3)


def test_a_url_may_name_several_hosts_where_the_protocol_allows_it() -> None:
    url = "kafka://a.example:9092,[2606:4700::1111]:9092,b.example/t"
    assert not why_refused(url, GUARDED, schemes=("kafka",), most_hosts=3)
    assert why_refused("http://a.example:80,b.example:80/", GUARDED)


def test_a_url_that_can_be_a_sink_is_not_refused() -> None:
    assert not why_refused("https://sink.example/x?y=z", GUARDED)
    assert not why_refused("http://127.0.0.1:80/", OPEN)


METADATA = [
    "169.254.169.254",
    "169.254.170.2",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fe80::a9fe:a9fe",
    "fe80::1%eth0",
    "fd00:ec2::254",
    "fd20:ce::254",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "::169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe",
    "2002:a9fe:a9fe::",
    "2001:0:a9fe:a9fe::",
    "2001:0:0:0:0:0:5601:5601",
]


@pytest.mark.parametrize("address", METADATA)
@pytest.mark.parametrize("settings", [OPEN, Settings(), GUARDED])
def test_what_tells_secrets_of_a_machine_is_never_connected_to_unless_named(
    settings: Settings, address: str
) -> None:
    assert why_address_refused(address, settings)
    named = settings.model_copy(update={"allowed_addresses": ("0.0.0.0/0", "::/0")})
    assert not why_address_refused(address, named)


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:169.254.169.254]"])
async def test_metadata_is_not_asked_for_by_a_node_that_may_connect_to_private_addresses(
    host: str,
) -> None:
    async with open_session(OPEN) as session:
        with pytest.raises(aiohttp.ClientConnectorError, match="CONCORD_ALLOWED_ADDRESSES"):
            await session.get(f"http://{host}/")


def test_a_named_network_is_allowed_while_others_are_not() -> None:
    settings = Settings(allow_private_addresses=False, allowed_addresses="10.1.0.0/16, ::1/128")
    assert not why_address_refused("10.1.2.3", settings)
    assert not why_address_refused("::ffff:10.1.2.3", settings)
    assert not why_address_refused("::1", settings)
    assert why_address_refused("10.2.0.1", settings)
    assert not why_refused("http://10.1.2.3/", settings)
