"""Reads the documents of OpenID Connect providers, at allowed addresses and within bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aiohttp
import orjson

from catalog.client.connection import read_limited
from catalog.client.errors import ResponseTooLarge
from catalog.http.outboundaddress import why_endpoint_refused
from catalog.settings import Settings

_DISCOVERY = "/.well-known/openid-configuration"
_LARGEST_ANSWER = 256 * 1024


class IssuerUnusable(Exception):
    """An answer of a provider cannot be used; the text gives the reason."""


async def read_discovery(
    session: aiohttp.ClientSession, issuer: str, settings: Settings
) -> Mapping[str, Any]:
    """Read the metadata of a provider (OpenID Connect Discovery, section 4).

    Raises:
        IssuerUnusable: the metadata cannot be used; and the errors of aiohttp.
    """
    found = await read_document(session, issuer.rstrip("/") + _DISCOVERY, settings)
    # Section 4.3: otherwise a provider could impersonate this provider.
    if found.get("issuer") != issuer:
        raise IssuerUnusable("its discovery document is another issuer's")
    return found


async def read_document(
    session: aiohttp.ClientSession, url: str, settings: Settings
) -> Mapping[str, Any]:
    """Read a JSON object; the errors are those of `read_discovery`."""
    if refusal := why_endpoint_refused(url, settings):
        raise IssuerUnusable(f"{url}: {refusal}")
    async with session.get(url, headers={"Accept": "application/json"}) as response:
        response.raise_for_status()
        return await object_in(response)


async def object_in(response: aiohttp.ClientResponse) -> Mapping[str, Any]:
    """The JSON object that a response has.

    Raises:
        IssuerUnusable: the response is too large, or has no JSON object.
    """
    try:
        document = orjson.loads(await read_limited(response, _LARGEST_ANSWER))
    except ResponseTooLarge as error:
        raise IssuerUnusable(f"{response.url} has more than {_LARGEST_ANSWER} bytes") from error
    except orjson.JSONDecodeError as error:
        raise IssuerUnusable(f"{response.url} is no JSON") from error
    if not isinstance(document, dict):
        raise IssuerUnusable(f"{response.url} is no JSON object")
    return document
