"""A request counts as of its client, also behind proxies, unless the client invents addresses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from multidict import CIMultiDict

from catalog.context import SHARED
from catalog.http.clientconnections import client_address
from catalog.settings import Settings

PROXY = "10.0.0.1"


@pytest.mark.parametrize(
    ("sender", "forwarded", "client"),
    [
        ("203.0.113.5", [], "203.0.113.5"),
        # A client that is no trusted proxy can claim nothing.
        ("203.0.113.5", ["198.51.100.1"], "203.0.113.5"),
        (PROXY, [], PROXY),
        (PROXY, ["198.51.100.1"], "198.51.100.1"),
        # The client wrote the first address itself; the proxy appended the second.
        (PROXY, ["192.0.2.66, 198.51.100.1"], "198.51.100.1"),
        (PROXY, ["192.0.2.66", "198.51.100.1"], "198.51.100.1"),
        (PROXY, ["198.51.100.1, 10.9.9.9"], "198.51.100.1"),
        (PROXY, ["10.8.8.8, 10.9.9.9"], "10.8.8.8"),
        (PROXY, ["nonsense"], PROXY),
        (PROXY, [""], PROXY),
        ("::ffff:10.0.0.1", ["2001:db8::1"], "2001:db8::1"),
    ],
)
def test_the_last_address_that_nobody_could_invent(
    sender: str, forwarded: list[str], client: str
) -> None:
    headers = CIMultiDict([("X-Forwarded-For", each) for each in forwarded])
    context = SimpleNamespace(settings=Settings(trusted_proxies=("10.0.0.0/8",)))
    request: Any = SimpleNamespace(remote=sender, headers=headers, app={SHARED: context})
    assert client_address(request) == client


def test_no_proxy_is_trusted_by_default() -> None:
    context = SimpleNamespace(settings=Settings())
    headers = CIMultiDict({"X-Forwarded-For": "198.51.100.1"})
    request: Any = SimpleNamespace(remote=PROXY, headers=headers, app={SHARED: context})
    assert client_address(request) == PROXY
