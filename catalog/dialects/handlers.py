"""Common steps of the dialects' handlers: page links, conditional writes, answers to writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import hdrs, web

from catalog.api.writeanswer import answer_deleted, notes_on
from catalog.context import CONTEXT
from catalog.http.conditions import Reading, condition_on
from catalog.http.responses import MORE_HEADERS, interaction_headers, json_response
from catalog.http.stream import DEADLINE
from catalog.load.workthread import aside
from catalog.model.configuration import Configuration
from catalog.model.errors import NotFound
from catalog.model.interaction import Interaction
from catalog.model.xid import Xid
from catalog.store import entities as store
from catalog.writing.outcome import Outcome


def next_link(
    request: web.Request, after: str, limit: int, *, count: int | None = None
) -> dict[str, str]:
    """The headers of a page: a link to the next page, as in native collections.

    Args:
        after: the last id of the page; empty if no page follows.
        count: the size of the collection, if the API tells the size.
    """
    if not after:
        return {}
    base = request[CONTEXT].base_url(request)
    url = request.rel_url.update_query({"limit": str(limit), "after": after})
    counted = "" if count is None else f";count={count}"
    return {hdrs.LINK: f"<{base}{url}>;rel=next{counted}"}


async def apply(
    request: web.Request,
    configuration: Configuration,
    interaction: Interaction,
    reading: Reading | None = None,
) -> Outcome:
    """Apply the interaction of a request, on the request's conditions.

    Args:
        configuration: the configuration for reading the request.
        reading: answers a GET of the same path; `None` for a collection.
    """
    request[DEADLINE].extend_for(interaction)
    condition = condition_on(request, reading, str(interaction.at))
    writer = request[CONTEXT].writer
    outcome = await writer.apply(configuration, interaction, condition=condition)
    notes = await notes_on(request, configuration.model, interaction, outcome)
    request[MORE_HEADERS] = notes
    return outcome


async def delete_members(
    request: web.Request, configuration: Configuration, owner: Xid, plural: str
) -> web.Response:
    """Delete the entities of a collection.

    Raises:
        NotFound: the collection's owner does not exist.
    """
    async with request[CONTEXT].database.acquire() as connection:
        if owner.gid and not await store.load(connection, [str(owner)]):
            raise NotFound(str(owner))
        ids = await store.load_ids(connection, f"{str(owner).rstrip('/')}/{plural}")
    interaction = Interaction(
        caller=request[CONTEXT].caller, at=owner, path=request.path, is_collection=True
    )
    members: dict[str, Any] = {id: {} for id in ids}
    await aside(len(ids), interaction.delete_from, configuration.model, owner, plural, members)
    return answer_deleted(await apply(request, configuration, interaction))


def answer_written(
    outcome: Outcome, shown: Mapping[str, Any], *, status: int = 200, location: str = ""
) -> web.Response:
    """An answer to a write: JSON, and headers that name the interaction and its position."""
    headers = interaction_headers(outcome)
    if location:
        headers[hdrs.LOCATION] = location
    return json_response(shown, status=status, headers=headers)
