"""Adds to the refusal of a write to a replica where its authority has the entity."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from urllib.parse import quote

from aiohttp import hdrs

from catalog.context import Context
from catalog.model.errors import MOST_VIOLATIONS, Readonly, ServerBusy, XRegistryError
from catalog.store.authoritybases import read_bases

_WEB = ("http://", "https://")
# The URL is from another catalog or its operator, and stands in a header.
_KEPT = "!#$%&'()*+,/:;=?@[]~-._"
_CONTROL = re.compile(r"[\x00-\x20\x7f]")


async def point_to_authority(context: Context, error: XRegistryError) -> None:
    """Let the refusal of a write to replicas name the URLs of the entities at their authorities."""
    # Without the database the refusal is as true.
    with contextlib.suppress(ServerBusy, TimeoutError):
        await _point(context, error)


async def _point(context: Context, error: XRegistryError) -> None:
    refusals = [*_of_replicas((error, *error.violations[:MOST_VIOLATIONS]))]
    if not refusals:
        return
    authorities = {each.arguments["authority"] for each in refusals}
    async with context.database.pool.acquire() as connection:
        bases = await read_bases(connection, authorities)
    for each in refusals:
        authority = each.arguments["authority"]
        base = bases.get(authority) or (authority if authority.startswith(_WEB) else "")
        if base and not _CONTROL.search(base):
            each.arguments["url"] = quote(f"{base.rstrip('/')}{each.arguments['origin']}", _KEPT)
    if url := error.arguments.get("url", ""):
        # RFC 5023, 11.1: the resource at which this one can be edited.
        error.headers = {**error.headers, hdrs.LINK: f"<{url}>;rel=edit"}


def _of_replicas(errors: Iterable[XRegistryError]) -> Iterable[Readonly]:
    for error in errors:
        if isinstance(error, Readonly) and "origin" in error.arguments:
            yield error
