"""Fetches what a model includes from elsewhere (core/model.md, "Includes in ... Model Data")."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
import orjson

from catalog.client.connection import read_limited
from catalog.config import Settings
from catalog.http.body import parse_json
from catalog.http.outbound import open_session, why_refused
from catalog.model.errors import ModelError, ParsingData
from catalog.model.includes import resolve_includes

_LARGEST_BYTES = 1024 * 1024
_LONGEST_SECONDS = 5.0
_LONGEST_SECONDS_IN_ALL = 20.0


async def resolve(
    settings: Settings, source: Mapping[str, Any], *, base: str
) -> Mapping[str, Any] | None:
    """The source with its `$include`s resolved, `None` if it has none.

    Args:
        base: the URL of the source, which relative references start from.

    Raises:
        ModelError: something cannot be included; how much there can be is bounded.
    """
    if not _includes(source):
        return None
    async with open_session(settings, total_seconds=_LONGEST_SECONDS) as session:

        async def fetch(url: str) -> Any:
            return await _fetch(session, settings, url)

        try:
            async with asyncio.timeout(_LONGEST_SECONDS_IN_ALL):
                return await resolve_includes(source, fetch, base=base)
        except TimeoutError as error:
            raise ModelError("/model", error_detail="its includes took too long") from error


def _includes(source: Mapping[str, Any]) -> bool:
    return b'"$include' in orjson.dumps(source)


async def _fetch(session: aiohttp.ClientSession, settings: Settings, url: str) -> Any:
    refusal = why_refused(url, allows_private_addresses=settings.allows_private_addresses)
    if refusal is not None:
        raise _unusable(url, refusal)
    try:
        async with session.get(url, headers={"Accept": "application/json"}) as response:
            if response.status != 200:
                raise _unusable(url, f"the answer is {response.status}")
            body = await read_limited(response, _LARGEST_BYTES)
        return parse_json(body, settings.max_depth)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise _unusable(url, str(error) or type(error).__name__) from error
    except ParsingData as error:
        raise _unusable(url, error.arguments["error_detail"]) from error


def _unusable(url: str, why: str) -> ModelError:
    return ModelError("/model", error_detail=f'"{url}" cannot be included: {why}')
