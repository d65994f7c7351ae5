"""A federation to compare: catalogs in memory that answer HTTP like nodes."""

from __future__ import annotations

import asyncio
import csv
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from aiohttp import web

from catalog.keys.entitysignature import EntitySigner, new_seed
from catalog.model.authoritykey import KeyEntry, KeyHistory, PublicKey
from catalog.model.digest import BUCKETS, bucket, digest_entity, digest_tombstone, fingerprint
from replication.reconcile.inputs.nodeinput import NodeInput
from tests.integration.federation import LINK

HEADER = (
    *("authority", "origin", "xid", "epoch", "deleted", "digest", "bucket", "changedat"),
    "intact",
)
_TIME = datetime(2026, 1, 1, tzinfo=UTC)
CHANGED_AT = int(_TIME.timestamp()) * 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An entity or tombstone; `stored` is its digest if that is not the digest of its content."""

    authority: str
    origin: str
    xid: str
    epoch: int
    deleted: bool = False
    content: str = ""
    stored: bytes | None = None
    signature: bytes = b""
    signedby: str = ""

    @property
    def computed(self) -> bytes:
        if self.deleted:
            return digest_tombstone(authority=self.authority, origin=self.origin, epoch=self.epoch)
        return digest_entity(
            authority=self.authority,
            origin=self.origin,
            epoch=self.epoch,
            attributes={"description": self.content},
            createdat=_TIME,
            modifiedat=_TIME,
            document_sha256=None,
        )

    @property
    def bucket(self) -> int:
        return bucket(self.authority, self.origin)

    @property
    def is_intact(self) -> bool:
        return self.stored in (None, self.computed)

    def shown(self, verify: bool) -> bytes:
        return self.computed if verify or self.stored is None else self.stored


def _set_event() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


@dataclass(slots=True)
class Node:
    """A catalog. `faults` replace the answers to the next requests for rows.

    Requests for rows wait until `answers` is set.
    """

    name: str
    url: str
    authority: str
    rows: dict[tuple[str, str], Row] = field(default_factory=dict)
    links: list[dict[str, Any]] = field(default_factory=list)
    sources: list[Node] = field(default_factory=list)
    faults: list[web.Response | str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    repairs: list[list[tuple[str, str]]] = field(default_factory=list)
    instance: str = field(default_factory=lambda: str(uuid4()))
    digestversion: int = 1
    extra: list[str] = field(default_factory=list)
    token: str | None = None
    signer: EntitySigner | None = None
    has_signed_all: bool = True
    histories: list[KeyHistory] = field(default_factory=list)
    trusted: dict[str, list[PublicKey]] = field(default_factory=dict)
    resets: list[tuple[str, bool]] = field(default_factory=list)
    told: list[dict[str, Any]] = field(default_factory=list)
    told_findings: list[dict[str, Any]] = field(default_factory=list)
    takes_results: bool = True
    answers: threading.Event = field(default_factory=_set_event)

    @property
    def given(self) -> NodeInput:
        return NodeInput(name=self.name, url=self.url, token=self.token)

    def hold(self, authority: str, origin: str, epoch: int = 1, **more: Any) -> Row:
        """Add a row, and remove that of the same origin."""
        row = Row(
            **{"authority": authority, "origin": origin, "xid": origin, "epoch": epoch} | more
        )
        if self.signer is not None and self.signer.authority == authority:
            row = signed(row, self.signer)
        self.rows[authority, origin] = row
        return row

    def sign(self, number: int = 1) -> EntitySigner:
        """Sign its own rows from now on."""
        self.signer = EntitySigner.of(self.authority, number, new_seed())
        self.histories = [history_of(self.signer)]
        for row in [*self.rows.values()]:
            if row.authority == self.authority:
                self.rows[row.authority, row.origin] = signed(row, self.signer)
        return self.signer

    def own(self, origin: str, epoch: int = 1, **more: Any) -> Row:
        """Add a row of its own authority."""
        return self.hold(self.authority, origin, epoch, **more)

    def link_from(self, source: Node, *authorities: str, scope: tuple[str, ...] = ()) -> None:
        """Add a pull link, and the rows that it should have brought."""
        self.sources.append(source)
        self.links.append(
            {
                "id": f"from-{source.name}",
                "source": source.url,
                "mode": "pull",
                "authorities": list(authorities),
                "scope": list(scope),
            }
        )
        admitted = authorities or (source.authority,)
        for row in source.rows.values():
            is_admitted = "*" in admitted or row.authority in admitted
            in_scope = row.origin != "/" and (not scope or row.origin.startswith(scope))
            if row.authority != self.authority and is_admitted and in_scope:
                self.rows[row.authority, row.origin] = row

    def fingerprints(self) -> list[list[int]]:
        held: dict[int, tuple[int, int]] = {}
        for row in self.rows.values():
            if not row.deleted and row.origin != "/":
                count, xor = held.get(row.bucket, (0, 0))
                held[row.bucket] = (count + 1, xor ^ fingerprint(row.shown(False)))
        return [[place, *pair] for place, pair in sorted(held.items())]

    def csv(self, start: int, stop: int, *, verify: bool, signatures: bool) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*HEADER, "signature", "signedby"] if signatures else HEADER)
        for row in self.rows.values():
            if start <= row.bucket < stop:
                writer.writerow(
                    [
                        row.authority,
                        row.origin,
                        row.xid,
                        row.epoch,
                        "true" if row.deleted else "false",
                        row.shown(verify).hex(),
                        row.bucket,
                        CHANGED_AT,
                        "true" if not verify or row.is_intact else "false",
                        *([row.signature.hex(), row.signedby] if signatures else ()),
                    ]
                )
        return text.getvalue() + "".join(self.extra)

    def repair(self, origins: list[tuple[str, str]]) -> dict[str, Any]:
        self.repairs.append(origins)
        verdicts = {"applied": 0, "current": 0}
        unresolved = []
        for key in origins:
            found = [source.rows[key] for source in self.sources if key in source.rows]
            if not found:
                unresolved.append({"authority": key[0], "origin": key[1], "reason": "x"})
            elif found[0] == self.rows.get(key):
                verdicts["current"] += 1
            else:
                self.rows[key] = found[0]
                verdicts["applied"] += 1
        return {"verdicts": verdicts, "unresolved": unresolved}


@dataclass(slots=True)
class Federation:
    """Nodes served at one port, each below its own path."""

    base: str
    nodes: dict[str, Node] = field(default_factory=dict)

    def add(self, name: str, authority: str | None = None) -> Node:
        url = f"{self.base}/{name}"
        self.nodes[name] = Node(name, url, authority or f"https://{name}.example.com")
        return self.nodes[name]

    def inputs(self, *names: str) -> list[NodeInput]:
        return [self.nodes[name].given for name in names or self.nodes]


def three_catalogs(federation: Federation, *signing: str) -> tuple[Node, Node, Node]:
    """The nodes eu, us and hub, which relays between the others; all agree, and some sign."""
    eu, us, hub = federation.add("eu"), federation.add("us"), federation.add("hub")
    for name in signing:
        federation.nodes[name].sign()
    for node in (eu, us, hub):
        node.own("/", content="every catalog has a root of its own")
        for group in range(3):
            node.own(f"/messagegroups/{node.name}{group}")
            for message in range(4):
                node.own(f"/messagegroups/{node.name}{group}/messages/m{message}", epoch=3)
    hub.link_from(eu)
    hub.link_from(us)
    eu.link_from(hub, "*")
    us.link_from(hub, "*")
    return eu, us, hub


class _Server:
    def __init__(self, federation: Federation) -> None:
        self._federation = federation

    def app(self) -> web.Application:
        app = web.Application()
        app.add_routes(
            [
                web.get("/{node}/replication", self._handshake),
                web.get("/{node}/replication/links", self._links),
                web.get("/{node}/replication/digests", self._digests),
                web.post("/{node}/replication/repair", self._repair),
                web.post("/{node}/replication/reconciliations", self._result),
                web.get("/{node}/replication/reconciliations", self._results),
                web.post("/{node}/replication/reconciliations/{run}/findings", self._findings),
                web.get("/{node}/replication/links/{id}", self._link),
                web.post("/{node}/replication/links/{id}/reset", self._reset),
                web.get("/{node}/replication/signing", self._signing),
                web.get("/{node}/replication/trust", self._trust),
                web.get("/{node}/replication/keys", self._keys),
            ]
        )
        return app

    def _node(self, request: web.Request) -> Node:
        node = self._federation.nodes.get(request.match_info["node"])
        if node is None:
            raise web.HTTPNotFound
        node.requests.append(request.path_qs)
        if node.token and request.headers.get("Authorization") != f"Bearer {node.token}":
            raise web.HTTPUnauthorized
        return node

    async def _handshake(self, request: web.Request) -> web.Response:
        node = self._node(request)
        return web.json_response(
            {
                "instance": node.instance,
                "authority": node.authority,
                "software": "fake",
                "digestversion": node.digestversion,
            }
        )

    async def _links(self, request: web.Request) -> web.Response:
        return web.json_response({"links": [LINK | link for link in self._node(request).links]})

    async def _repair(self, request: web.Request) -> web.Response:
        body = await request.json()
        origins = [(one["authority"], one["origin"]) for one in body["origins"]]
        return web.json_response(self._node(request).repair(origins))

    async def _results(self, request: web.Request) -> web.Response:
        told = self._node(request).told
        return web.json_response(
            {"reconciliations": [{**each, "at": each["endedat"]} for each in reversed(told)]}
        )

    async def _result(self, request: web.Request) -> web.Response:
        node = self._federation.nodes[request.match_info["node"]]
        if not node.takes_results:
            raise web.HTTPNotFound
        node.told.append(await request.json())
        return web.Response(status=204)

    async def _findings(self, request: web.Request) -> web.Response:
        told = await request.json()
        self._federation.nodes[request.match_info["node"]].told_findings.append(told)
        return web.json_response({"kept": len(told["findings"]), "wanted": 0})

    async def _link(self, request: web.Request) -> web.Response:
        links = self._node(request).links
        [link] = [each for each in links if each["id"] == request.match_info["id"]]
        return web.json_response(LINK | link)

    async def _reset(self, request: web.Request) -> web.Response:
        body, id = await request.json(), request.match_info["id"]
        self._node(request).resets.append((id, body["full"]))
        return web.json_response(LINK)

    async def _signing(self, request: web.Request) -> web.Response:
        node = self._node(request)
        is_on, is_complete = node.signer is not None, node.has_signed_all
        told = {"authority": node.authority, "on": is_on, "complete": is_complete, "keys": []}
        return web.json_response(told)

    async def _trust(self, request: web.Request) -> web.Response:
        trusted = self._node(request).trusted.items()
        why = {"reason": "named", "trustedat": "2030-01-01T00:00:00Z"}
        shown = [
            {"authority": a, "keys": [{"key": str(k), "id": k.id, **why} for k in keys]}
            for a, keys in trusted
        ]
        return web.json_response({"trusted": shown})

    async def _keys(self, request: web.Request) -> web.Response:
        node = self._node(request)
        return web.json_response({"keys": [each.as_json() for each in node.histories]})

    async def _digests(self, request: web.Request) -> web.StreamResponse:
        node = self._node(request)
        if request.query.get("format") == "authorities":
            found = sorted({row.authority for row in node.rows.values()})
            return web.json_response({"authorities": found})
        if request.query.get("format") == "schemaids":
            return web.json_response({"schemaids": []})
        if "bits" in request.query:
            asked = request.query.getall("authority", []) or {r[0] for r in node.rows}
            rows = [r for r in node.rows.values() if r.authority in asked and r.origin != "/"]
            return web.json_response({"buckets": [[0, len(rows), 0]] if rows else []})
        if request.query.get("format") != "csv":
            body = {"digestversion": node.digestversion, "buckets": node.fingerprints()}
            return web.json_response(body, headers={"Concord-Cursor": "42"})
        fault = node.faults.pop(0) if node.faults else None
        if isinstance(fault, web.Response):
            return fault
        await asyncio.to_thread(node.answers.wait)
        start, stop = int(request.query["from"]), int(request.query["to"])
        assert 0 <= start < stop <= BUCKETS
        text = node.csv(
            start,
            stop,
            verify=request.query["verify"] == "true",
            signatures="signatures" in request.query,
        )
        response = web.StreamResponse(headers={"Content-Type": "text/csv"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        if fault == "cut":
            await response.write(text[: len(text) // 2].encode())
            assert request.transport is not None
            request.transport.abort()
            return response
        for at in range(0, len(text), 1000):
            await response.write(text[at : at + 1000].encode())
        return response


@contextmanager
def served() -> Iterator[Federation]:
    """Serve an empty federation from a thread while the context is open."""
    federation = Federation("")
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(_Server(federation).app(), shutdown_timeout=0.1)

    async def start() -> int:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return int(runner.addresses[0][1])

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        port = asyncio.run_coroutine_threadsafe(start(), loop).result(timeout=10)
        federation.base = f"http://127.0.0.1:{port}"
        yield federation
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(timeout=10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=10)
        loop.close()


def signed(row: Row, signer: EntitySigner) -> Row:
    return replace(row, signature=signer.sign_copy(row.computed), signedby=signer.id)


def history_of(signer: EntitySigner, *before: EntitySigner) -> KeyHistory:
    """The history of the keys of an authority, each of which stands for the next one."""
    entries: list[KeyEntry] = []
    for former, each in zip((None, *before), (*before, signer), strict=True):
        entry = KeyEntry(public=each.public, createdat=_TIME)
        if former is not None:
            entry = replace(entry, endorsement=former.sign(entry.endorsed(signer.authority)))
        entries.append(entry)
    history = KeyHistory(authority=signer.authority, keys=entries, at=_TIME)
    return replace(history, signature=signer.sign(history.signed()))


def damaged(row: Row) -> Row:
    """`row` with other content than its stored digest says."""
    return replace(row, content="damaged", stored=row.computed)
