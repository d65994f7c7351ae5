"""A catalog for pages: real documents, two versions of a schema, links, and a subscription.

Its readers have tokens, and send forms as a page of the console does.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson

from catalog.access.owntokens import make_token
from catalog.documents.migration import migrate
from catalog.model.roles import Grant, Role
from catalog.model.timestamps import format_time
from tests.integration.conftest import Answer, Node

DATA = Path(__file__).parents[2] / "catalog/demo/data"
ALERT = "/messagegroups/NWS.Alerts/messages/NWS.WeatherAlert"
SCHEMA = "/schemagroups/NWS.jstruct/schemas/NWS.WeatherAlert"
_TYPES = ("endpoints", "messagegroups", "schemagroups")
OWN_PAGE = {"Sec_Fetch_Site": "same-origin"}
_DEAD = "http://127.0.0.1:9"
_ENDED = datetime.now(UTC) - timedelta(minutes=10)
REPORT = {
    "run": "7a3c2e1e-2d0c-4d5f-8a3e-0c9f2f3b1a11",
    "startedat": format_time(_ENDED - timedelta(minutes=2)),
    "endedat": format_time(_ENDED),
    "outcome": "different",
    "name": "us",
    "catalogs": ["eu", "us"],
    "findings": {"stale": 3, "missing": 1},
}
"""The report of a comparison that found differences."""


async def fill(node: Node) -> str:
    """Fill a node; returns the id of a link whose source does not answer."""
    for name in ("us/nws-alerts", "eu/dwd"):
        document = orjson.loads((DATA / f"{name}.xreg.json").read_bytes())
        groups = {type: document[type] for type in _TYPES if type in document}
        answer = await node.send("POST", "/", migrate(groups).document)
        assert answer.status == 200, answer.body
    schema = orjson.loads((await node.send("GET", SCHEMA)).body)
    schema["properties"]["lifted"] = {"type": "datetime", "description": "When it was lifted."}
    body: dict[str, Any] = {"format": "JsonStructure/draft-02", "schema": schema}
    await node.put(f"{SCHEMA}/versions/2$details", body)
    link = await node.send("POST", "/replication/links?force", {"source": _DEAD, "mode": "pull"})
    assert link.status == 201, link.body
    await node.send("PATCH", f"/replication/links/{link.json['id']}", {"paused": True})
    subscription = {"sink": f"{_DEAD}/hook", "protocol": "HTTP"}
    assert (await node.send("POST", "/subscriptions", subscription)).status == 201
    assert (await node.send("POST", "/replication/reconciliations", REPORT)).status == 204
    return str(link.json["id"])


async def new_token(node: Node, role: Role, path: str = "/") -> tuple[str, str]:
    """The id and the text of a token."""
    async with node.database.transaction() as connection:
        grants = (Grant("admin"),)
        _, text = await make_token(connection, name="", grants=grants, expiresat=None)
    wanted = {"grants": [{"role": role, "path": path}]}
    answer = await node.send("POST", "/access/tokens", wanted, Authorization=f"Bearer {text}")
    return answer.json["id"], answer.json["token"]


async def send_form(node: Node, path: str, fields: Mapping[str, str], **headers: str) -> Answer:
    """Send a form to a path, as a page of the console that is at the path."""
    sent = {**OWN_PAGE, "Content_Type": "application/x-www-form-urlencoded", **headers}
    return await node.send("POST", path, body=urlencode(fields).encode(), **sent)


async def bearer(node: Node, role: Role) -> dict[str, str]:
    """The header with the token of a new caller."""
    return {"Authorization": f"Bearer {(await new_token(node, role))[1]}"}


def cookie_in(answer: Answer) -> dict[str, str]:
    """The header with the cookie that an answer sets."""
    return {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}
