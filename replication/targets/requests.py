"""Requests to the server of a writing link, and the meaning of the answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson

from catalog.client import Answer, BadAnswer, Client, JsonObject, Params, Refused
from catalog.model.masking import printable

_LONGEST_TITLE, _LONGEST_DETAIL = 300, 500
_MOST_MEMBERS = 1_000_000
# Statuses that concern the whole link or the moment, not a single entity.
_NOT_OF_ENTITIES = frozenset({401, 407, 408, 425, 429})
_GATEWAY = frozenset({502, 503, 504})


def is_of_entity(error: Refused, *, is_tolerant: bool) -> bool:
    """Whether an error concerns the sent entity; every other error may end by itself.

    Args:
        is_tolerant: a persistent fault of the server counts as an error of the entity.
    """
    status = error.problem.status
    if status >= 500:
        return is_tolerant and status not in _GATEWAY
    return status not in _NOT_OF_ENTITIES


def said_in(error: Refused) -> str:
    """The problem document of a refusal as the detail of a conflict."""
    problem = error.problem
    detail = problem.detail or "; ".join(each.title for each in problem.others)
    parts = (f"{problem.status}:", problem.title[:_LONGEST_TITLE], detail[:_LONGEST_DETAIL])
    return printable(" ".join(part for part in parts if part))


async def get_or_none(client: Client, path: str, params: Params = ()) -> JsonObject | None:
    """The JSON object at a path; `None` if the path does not exist."""
    try:
        return await client.get(path, params)
    except Refused as error:
        if error.problem.status in (404, 410):
            return None
        raise


async def members_of(
    client: Client, path: str, params: Params = ()
) -> AsyncIterator[tuple[str, JsonObject]]:
    """The members of a collection that is a map, page by page; none if the path does not exist.

    Raises:
        BadAnswer: the collection is no map of objects, or is endless.
    """
    number = 0
    try:
        async for page in client.pages(path, params):
            if not isinstance(page, dict):
                raise BadAnswer(client.url + path, "something else than a collection")
            for id, shown in page.items():
                if not isinstance(shown, dict) or (number := number + 1) > _MOST_MEMBERS:
                    raise BadAnswer(client.url + path, "something else than a collection")
                yield id, shown
    except Refused as error:
        if error.problem.status not in (404, 410):
            raise


async def delete(client: Client, path: str, params: Params = ()) -> None:
    """Delete the entity at a path, if it still exists."""
    try:
        await client.request("DELETE", path, params=params)
    except Refused as error:
        if error.problem.status not in (404, 410):
            raise


def object_in(answer: Answer) -> Mapping[str, Any]:
    """The JSON object in an answer; empty if the answer has none."""
    try:
        found = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
