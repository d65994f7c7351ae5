"""Finds the authority of the entities that a command would write, for `--follow`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, urlsplit

import typer

from catalog.commands.console import CommandError, cell, err
from catalog.commands.nodedatabase import read_settings
from catalog.commands.secretsources import token_for

if TYPE_CHECKING:
    from catalog.client import Client

Follow = Annotated[
    bool,
    typer.Option(
        "--follow",
        help="Write replicas where their authority is: the node tells its URL. Addresses that a "
        "node would not connect to are refused (CONCORD_ALLOW_PRIVATE_ADDRESSES).",
    ),
]
_TIMEOUT_SECONDS = 120.0


@contextlib.asynccontextmanager
async def client_at(url: str) -> AsyncIterator[Client]:
    """A client of a catalog at a URL that a node has told.

    The client does not send the token for the node that told the URL, and connects only to
    addresses that a node with the settings of the environment would connect to.

    Raises:
        CommandError: the URL is not an HTTP URL, or contains credentials.
    """
    from catalog.client import Client, Retry
    from catalog.http.outboundconnections import open_session

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise CommandError(f"The authority has no URL that can be followed: {url!r}.")
    err.print(f"The authority is at {cell(url)}: writing there.")
    async with open_session(read_settings({})) as session:
        yield Client(
            url,
            session,
            retry=Retry(),
            timeout_seconds=_TIMEOUT_SECONDS,
            token=token_for(url, is_own=False),
        )


@contextlib.asynccontextmanager
async def authority_of(
    client: Client, documents: Iterable[Mapping[str, Any]]
) -> AsyncIterator[Client]:
    """A client of the catalog that may change the groups of documents: the node or an authority.

    Args:
        documents: groups by the plural of the type, and by id.

    Raises:
        CommandError: the groups belong to several catalogs, or to a catalog that cannot be found.
    """
    paths = {
        f"/{plural}/{quote(id, safe='')}"
        for groups in documents
        for plural, members in groups.items()
        if isinstance(members, dict)
        for id in members
    }
    found = {await _authority_at(client, path) for path in sorted(paths)} or {""}
    if len(found) > 1:
        raise CommandError(
            "The documents have groups of several catalogs; nothing was sent.",
            "Write those of each catalog by a command of their own.",
        )
    [authority] = found
    if not authority:
        yield client
        return
    url = await url_of(client, authority)
    if not url:
        raise CommandError(
            f"The groups are replicas, and no link leads to {authority}; nothing was sent.",
            "Name that catalog with --url.",
        )
    async with client_at(url) as there:
        yield there


async def url_of(client: Client, authority: str) -> str:
    """The URL of an authority: the authority if it is a URL, or else the source of its link.

    The URL is empty if the node has no link from the authority.
    """
    if authority.startswith(("http://", "https://")):
        return authority
    sources = [link.source or "" for link in await client.links() if link.authority == authority]
    return next((each for each in sources if each.startswith("http")), "")


async def _authority_at(client: Client, path: str) -> str:
    """The authority of a replica; empty for an entity of the node and for a missing entity."""
    from catalog.client import Refused, is_replica

    try:
        shown = await client.get(path)
    except Refused as refused:
        if refused.problem.status != 404:
            raise
        return ""
    return str(shown["authority"]) if is_replica(shown) else ""
