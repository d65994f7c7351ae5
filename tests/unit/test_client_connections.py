"""Who gets a connection where there are no more."""

from __future__ import annotations

import pytest
from aiohttp import web

from catalog.http.clientconnections import ClientConnection, ClientConnections, source_of
from catalog.settings import Settings


class Clients:
    """Connections on which requests are under way all the time, but for those in `idle`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, most: int, **settings: object) -> None:
        self.idle: set[ClientConnection] = set()
        self.closed: list[ClientConnection] = []
        self._connections = ClientConnections(Settings(**settings), most)  # type: ignore[arg-type]
        self._server = web.Server(lambda _: None)  # type: ignore[arg-type, return-value]
        monkeypatch.setattr(ClientConnection, "is_idle", property(lambda each: each in self.idle))
        monkeypatch.setattr(ClientConnection, "force_close", lambda each: self.closed.append(each))

    def connect(self, address: str, count: int = 1) -> list[ClientConnection]:
        """As many connections as are given, up to `count`."""
        return [
            self._connections.new(self._server, address)
            for _ in range(count)
            if self._connections.why_refused(address) is None
        ]

    def why_refused(self, address: str) -> str | None:
        error = self._connections.why_refused(address)
        return None if error is None else f"{error.title} {error.detail}"

    def use(self, connection: ClientConnection) -> None:
        self._connections.use(connection)

    def lose(self, connection: ClientConnection) -> None:
        self._connections.remove(connection)


@pytest.fixture
async def clients(monkeypatch: pytest.MonkeyPatch) -> Clients:
    return Clients(
        monkeypatch, most=10, max_connections_per_address=6, trusted_proxies="192.0.2.9/32"
    )


async def test_one_address_has_a_bound_that_it_is_told(clients: Clients) -> None:
    first, *_ = given = clients.connect("192.0.2.1", 9)
    assert len(given) == 6
    refusal = clients.why_refused("192.0.2.1")
    assert refusal is not None
    assert "CONCORD_MAX_CONNECTIONS_PER_ADDRESS" in refusal
    clients.lose(first)
    clients.lose(first)
    assert len(clients.connect("192.0.2.1", 9)) == 1


async def test_the_connection_that_is_idle_for_longest_makes_room(clients: Clients) -> None:
    given = clients.connect("192.0.2.1", 6)
    clients.idle.update(given[1:4])
    clients.use(given[1])
    assert clients.connect("192.0.2.1", 3)
    assert clients.closed == [given[2], given[3], given[1]]


async def test_a_trusted_proxy_may_have_more(clients: Clients) -> None:
    assert len(clients.connect("192.0.2.9", 20)) == 10
    refusal = clients.why_refused("192.0.2.1")
    assert refusal is not None
    assert "CONCORD_MAX_CONNECTIONS," in refusal


async def test_whoever_has_the_most_gives_one_up_to_whoever_has_fewer(clients: Clients) -> None:
    large, small = clients.connect("192.0.2.1", 6), clients.connect("192.0.2.2", 4)
    assert clients.why_refused("192.0.2.1") is not None
    assert clients.connect("192.0.2.2"), "six and four become five and five"
    assert clients.closed == [large[0]]
    assert clients.why_refused("192.0.2.2") is not None
    assert clients.connect("192.0.2.3", 3), "a new client takes from both"
    assert {*clients.closed} <= {*large, *small}


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1:2:3:4", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_an_ipv6_network_is_one_source(address: str, source: str) -> None:
    assert source_of(address) == source
