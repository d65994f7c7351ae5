"""Registries of the Confluent API for walks: what clients do, and older servers with less of it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from tests.integration.conftest import Node
from tests.integration.foreignserver import ForeignServer

ROOT = "/confluent"


def record(name: str, *fields: str, space: str = "") -> str:
    """An Avro schema; with a space, it is not in canonical form."""
    listed = [{"name": each, "type": "string", "default": ""} for each in fields]
    text = json.dumps({"type": "record", "name": name, "fields": listed}, separators=(",", ":"))
    return text.replace(",", f",{space}")


async def register(node: Node, subject: str, schema: str, **body: Any) -> int:
    """Register a schema; the id."""
    path = f"{ROOT}/subjects/{quote(subject, safe='')}/versions"
    answer = await node.send("POST", path, {"schema": schema, **body})
    assert answer.status == 200, answer.body
    return int(answer.json["id"])


async def delete(
    node: Node, subject: str, version: object = "", *, permanent: bool = False
) -> None:
    """Delete a version or a subject: softly, and for good with `permanent`."""
    path = f"{ROOT}/subjects/{quote(subject, safe='')}" + (
        f"/versions/{version}" if version else ""
    )
    for end in ("", "?permanent=true") if permanent else ("",):
        answer = await node.send("DELETE", path + end)
        assert answer.status == 200, answer.body


async def settings(node: Node, kind: str, subject: str, **body: Any) -> None:
    """Change the config or the mode of a subject, or with an empty subject that of all."""
    end = f"/{quote(subject, safe='')}" if subject else ""
    answer = await node.send("PUT", f"{ROOT}/{kind}{end}", body)
    assert answer.status == 200, answer.body


async def contents(node: Node, context: str = "") -> dict[str, Any]:
    """The versions of a context by subject and number, deleted ones too."""
    prefix = f"{ROOT}/contexts/{context}" if context else ROOT
    own = "" if context else "&subjectPrefix="
    found = await node.get(f"{prefix}/schemas?deleted=true{own}")
    shown = {}
    for each in found:
        # The time of a version is that of its last change at its authority.
        subject = each["subject"].removeprefix(f":{context}:")
        shown[f"{subject} {each['version']}"] = {
            name: value for name, value in each.items() if name not in ("subject", "ts")
        }
    return shown


@dataclass(slots=True)
class Registry(ForeignServer):
    """A server whose API is that of a node's /confluent, as far as it is not `hidden`.

    Args:
        hidden: paths and members of versions that the server has not, and `paging`.
        spoilt: answers by path that replace the node's.
        is_empty: the server has lost its versions.
        wants: the header Authorization that the server asks for.
    """

    hidden: Collection[str] = ()
    spoilt: dict[str, Any] = field(default_factory=dict)
    is_empty: bool = False
    wants: str = ""

    def reshaped(self, path: str, shown: Any) -> Any:
        if path in self.spoilt:
            return self.spoilt[path]
        if isinstance(shown, list):
            return [self.reshaped("", each) for each in shown]
        if isinstance(shown, dict):
            return {name: each for name, each in shown.items() if name not in self.hidden}
        return shown


KARAPACE = ("/contexts", "/mode", "/v1/metadata", "paging", "guid", "ts", "deleted")
"""What Karapace has not, and other servers before Confluent 8."""
REDPANDA = (*KARAPACE, "/schemas")


@contextlib.asynccontextmanager
async def registry_of(
    node: Node, hidden: Collection[str] = (), *, below: str = ""
) -> AsyncIterator[Registry]:
    """A server that forwards to a node's /confluent."""
    registry = Registry(hidden=hidden)

    async def forward(request: web.Request) -> web.Response:
        path, _, query = request.raw_path.removeprefix(below).partition("?")
        registry.requests[path] += 1
        if path in registry.hidden or any(
            path.startswith(f"{each}/") and each != "/schemas" for each in registry.hidden
        ):
            raise web.HTTPNotFound
        is_lost = registry.is_empty and "/versions" in path
        if is_lost or not request.path.startswith(below):
            raise web.HTTPNotFound
        if "paging" in registry.hidden:
            kept = [e for e in query.split("&") if e and e.split("=")[0] not in ("offset", "limit")]
            query = "&".join(kept)
        if registry.wants and request.headers.get("Authorization") != registry.wants:
            raise web.HTTPUnauthorized
        url = f"{node.url}{ROOT}{path}" + (f"?{query}" if query else "")
        async with session.get(URL(url, encoded=True)) as answer:
            shown = registry.reshaped(path, json.loads(await answer.read()))
            status = 200 if path in registry.spoilt else answer.status
            return web.json_response(shown, status=status)

    app = web.Application()
    app.router.add_get("/{path:.*}", forward)
    async with aiohttp.ClientSession() as session, TestServer(app) as server:
        registry.url = str(server.make_url(below)).rstrip("/")
        yield registry
