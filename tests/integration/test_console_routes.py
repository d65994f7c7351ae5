"""Every page of the console: a peer that hangs delays none, and each role sees what it may."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
import pytest_asyncio

from catalog.access.authentication import AUTHENTICATION
from catalog.console import routes as console_routes
from catalog.console.staticfiles import address_of
from catalog.model.roles import Role
from catalog.monitoring.health import routes as monitoring_routes
from replication.routes import routes as replication_routes
from tests.integration.conftest import Answer, Node, start_node
from tests.integration.consolecatalog import new_token, send_form
from tests.integration.federation import running

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]
RUN = "7a3c2e1e-2d0c-4d5f-8a3e-0c9f2f3b1a11"
GROUP, OTHER, HUNG = "/messagegroups/Orders", "/messagegroups/Secret", "urn:hung"
# These pages show what a link would do, or what its peer has now.
TRIALS = {
    *(f"/console/federation/{{id}}/{name}" for name in ("run", "resume", "reset")),
    "/console/comparisons/{run}/{number}/repair",
}
TRIED_SECONDS = 3.0
# A stream that ends with the page.
STREAMS = {"/console/live/events"}
_PLACEHOLDER = re.compile(r"{(\w+)[^}]*}")
# No identity provider is configured, and no dead letter has the number.
ABSENT = {
    *("/console/login/provider", "/console/login/return"),
    "/console/subscriptions/{id}/deadletters/{number}",
}
_OPERATORS = ("replicator", "admin")
# Who sees the pages with paths that begin so; of several beginnings the longest one counts.
SEEN_BY: Mapping[str, Sequence[str]] = {
    "/": ("reader", "editor", *_OPERATORS),
    "/console/federation/{id}": _OPERATORS,
    "/console/federation/{id}/": ("admin",),
    "/console/comparisons/{run}/": _OPERATORS,
    "/console/subscriptions/{id}": _OPERATORS,
    "/console/new/link": ("admin",),
    "/console/new/subscription": ("editor", *_OPERATORS),
    "/console/new/entity": ("editor", "admin"),
    "/console/edit/": ("editor", "admin"),
    "/console/delete/": ("editor", "admin"),
    "/console/access/requests/{id}": ("reader", "admin"),
    "/console/access/requests/{id}/": ("admin",),
    "/console/access/requests/{id}/withdraw": ("reader", "admin"),
    "/console/operation/access/": ("admin",),
}
# What a page needs beside its path.
_QUERIES = {
    "/console/authority": "?of={of}",
    "/console/access/request": f"?path={GROUP}",
    "/console/new/entity": f"?in={GROUP}/messages",
}


Value = TypeVar("Value")


def longest(values: Mapping[str, Value], path: str) -> Value | None:
    """The value of the longest beginning of a path."""
    fits = [begin for begin in values if path.startswith(begin)]
    return values[max(fits, key=len)] if fits else None


@dataclass(frozen=True)
class Place:
    """A node whose peer accepts connections and never answers; what its pages are about.

    Args:
        peer: the URL of the peer.
        at: the values of placeholders, by the beginning of the path; the longest one counts.
        callers: the headers of callers, by what they are.
    """

    node: Node
    peer: str
    at: Mapping[str, Mapping[str, str]]
    callers: Mapping[str, Mapping[str, str]]

    def address(self, path: str) -> str:
        """The address of a page, for the path of its route."""
        values = longest(self.at, path) or {}
        text = path + _QUERIES.get(path, "")
        return _PLACEHOLDER.sub(lambda found: values[found[1]], text)

    async def get(self, path: str, caller: str = "admin") -> Answer:
        return await self.node.send("GET", self.address(path), **self.callers[caller])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(shared_database_url: str) -> AsyncIterator[Place]:
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read()
        finally:
            writer.close()

    routes = [*monitoring_routes, *replication_routes, *console_routes]
    settings: dict[str, Any] = {"address_requests_per_second": 0, "allow_private_addresses": True}
    async with (
        await asyncio.start_server(hang, "127.0.0.1", 0) as server,
        start_node(shared_database_url, routes=routes, open=False, **settings) as node,
    ):
        peer = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield await prepare(node, peer)


async def prepare(node: Node, peer: str) -> Place:
    """Fill a node with one of each thing that has a page."""
    admin = await caller(node, "admin")

    async def made(path: str, body: Any) -> Any:
        answer = await node.send("POST", path, body, **admin)
        assert answer.status < 300, (path, answer.body)
        return answer.json if answer.body else None

    for group in (GROUP, OTHER):
        await node.put(group, {"description": "of an owner"}, **admin)
        await node.put(f"{group}/messages/Paid", {}, **admin)
    link = {"id": "hung", "source": peer, "mode": "pull", "authority": HUNG}
    await made("/replication/links?force", link)
    subscription = await made("/subscriptions", {"sink": f"{peer}/sink", "protocol": "HTTP"})
    rule = await made("/access/rules", {"who": "cn=x", "role": "writer", "paths": [GROUP]})
    report = {
        **{"run": RUN, "outcome": "different", "name": "here", "catalogs": ["here", "there"]},
        **{"startedat": "2026-01-01T00:00:00Z", "endedat": "2026-01-01T00:02:00Z"},
        "findings": {"missing": 1},
    }
    await made("/replication/reconciliations", report)
    finding = {"finding": "missing", "catalog": "here", "authority": HUNG, "reference": "there"}
    findings = {
        "compared": [
            {"name": "here", "authority": node.database.node.authority},
            {"name": "there", "authority": HUNG, "url": peer},
        ],
        "first": 0,
        "findings": [{**finding, "origin": "/messagegroups/far", "referenceepoch": 2}],
    }
    await made(f"/replication/reconciliations/{RUN}/findings", findings)
    reader = await caller(node, "reader")
    wanted = {"role": "writer", "path": GROUP, "reason": "for tests"}
    request = (await node.send("POST", "/access/requests", wanted, **reader)).json["id"]
    changes = (await node.send("GET", f"/-/changes?path={GROUP}", **admin)).json["changes"]
    at = {
        "/console/authority": {"of": node.database.node.authority},
        "/console/federation": {"id": "hung"},
        "/console/subscriptions": {"id": subscription["id"], "number": "1"},
        "/console/comparisons": {"run": RUN, "number": "0"},
        "/console/access/requests": {"id": request},
        "/console/operation/access/tokens": {"id": (await new_token(node, "reader"))[0]},
        "/console/operation/access/rules": {"id": str(rule["id"])},
        "/console/changes": {"sequence": changes[-1]["sequence"]},
        "/console/static": dict(
            zip(("digest", "name"), address_of("console.css").split("/")[-2:], strict=True)
        ),
        **{f"/console/{name}/": {"path": GROUP[1:]} for name in ("e", "edit", "delete")},
    }
    callers = {
        "reader": reader,
        "editor": await caller(node, "writer", GROUP),
        "replicator": await caller(node, "replicator"),
        "admin": admin,
    }
    return Place(node, peer, at, callers)


async def caller(node: Node, role: Role, path: str = "/") -> dict[str, str]:
    """The header with the token of a new caller."""
    text = (await new_token(node, role, path))[1]
    node.client.app[AUTHENTICATION].rules.forget()
    return {"Authorization": f"Bearer {text}"}


def paths(method: str) -> list[str]:
    """The paths of the console, by the table of routes."""
    found = {each.operation.path for each in console_routes if each.operation.method == method}
    return sorted(found - STREAMS - {"/"})


async def test_a_peer_that_hangs_delays_no_page(place: Place) -> None:
    async def timed(path: str, most: float) -> Answer:
        """The answer of a page in time; the second attempt forgives a slow machine."""
        for _ in range(2):
            began = time.monotonic()
            answer = await place.get(path)
            if (took := time.monotonic() - began) < most:
                return answer
        raise AssertionError(f"{path} took {took:.1f} s")

    async with running(place.node, deliveries=True):
        for path in paths("GET"):
            if path not in TRIALS:
                answer = await timed(path, 1.0)
                assert (path, answer.status) == (path, 404 if path in ABSENT else 200)
        url = {"mode": "", "url": place.peer}
        tried = await asyncio.gather(
            *(timed(each, TRIED_SECONDS + 1) for each in sorted(TRIALS)),
            send_form(place.node, "/console/new/link", url, **place.callers["admin"]),
        )
        for answer in tried:
            assert (answer.status, b"within 3 s" in answer.body) == (200, True)


@pytest.mark.parametrize("who", SEEN_BY["/"])
async def test_a_role_sees_what_it_may_and_is_told_which_role_the_rest_needs(
    place: Place, who: str
) -> None:
    for path in sorted({*paths("GET")} - ABSENT - (TRIALS if who in _OPERATORS else set())):
        answer = await place.get(path, who)
        is_seen = who in (longest(SEEN_BY, path) or ())
        assert answer.status in ((200,) if is_seen else (403, 404)), (path, answer.status)
        text = answer.body.decode(errors="replace")
        if answer.status == 403:
            assert (path, "needs the role" in text) == (path, True)
        if who not in _OPERATORS:
            assert (path, place.peer in text) == (path, False)
        if who == "editor":
            assert (path, OTHER in text) == (path, False)
    for path in paths("POST"):
        if who not in (longest(SEEN_BY, path) or ()):
            answer = await send_form(place.node, place.address(path), {}, **place.callers[who])
            assert answer.status in (403, 404), path
