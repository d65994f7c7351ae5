"""Requests to a server that a link writes to, and what their answers mean."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson

from catalog.client import Answer, BadAnswer, Client, JsonObject, Params, Refused
from catalog.model.masking import printable

_LONGEST_TITLE, _LONGEST_DETAIL = 300, 500
_MOST_MEMBERS = 1_000_000
# Answers that are about the link as a whole, or the moment, and not about one entity.
_NOT_OF_ENTITIES = frozenset({401, 407, 408, 425, 429})
_GATEWAY = frozenset({502, 503, 504})


def is_of_entity(error: Refused, *, is_tolerant: bool) -> bool:
    """Whether an error is about the entity that was sent; another one may end by itself.

    Args:
        is_tolerant: so is a fault of the server, which was there again and again.
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
    """The JSON object at a path; `None` if there is none."""
    try:
        return await client.get(path, params)
    except Refused as error:
        if error.problem.status in (404, 410):
            return None
        raise


async def members_of(
    client: Client, path: str, params: Params = ()
) -> AsyncIterator[tuple[str, JsonObject]]:
    """The members of a collection that is a map, page by page; none if it does not exist.

    Raises:
        BadAnswer: it is no map of objects, or endless.
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
    """Delete what is at a path; it may be gone already."""
    try:
        await client.request("DELETE", path, params=params)
    except Refused as error:
        if error.problem.status not in (404, 410):
            raise


def object_in(answer: Answer) -> Mapping[str, Any]:
    """The JSON object that an answer has; an empty one if it has none."""
    try:
        found = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
