"""Calls the operations of the node in process, as the reader of a page.

The console has no other way to the catalog.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

import orjson
from aiohttp import web
from yarl import URL

from catalog.client.connection import Answer, Params
from catalog.client.errors import BadAnswer, Problem, Refused
from catalog.client.operationcalls import target_of
from catalog.http.inprocess import LARGEST_ANSWER, InProcessCalls, stream_in_process
from catalog.operations.authoritycards import (
    LIST_AUTHORITIES,
    MOST_AUTHORITIES,
    AuthoritiesQuery,
    Card,
    KnownAuthority,
)
from catalog.operations.operation import READING, Answered, Operation, Query

T = TypeVar("T")

_UNNAMED = {True: "this catalog", False: ""}
# The parameter of operations that tell what they would do.
_TRIED = ("dryrun", "")


class NodeCalls(InProcessCalls):
    """The calls of the node that serves a page; every method raises `ClientError`.

    A request for a page that is only shown changes nothing: GET reads, and tries without effect.
    """

    async def request(
        self, method: str, path: str, *, params: Params = (), **options: Any
    ) -> Answer:
        """Answer a request of the API in process.

        Raises:
            Refused: the node refuses the request.
            BadAnswer: the answer is a redirect, or too large for a page.
        """
        pairs = list(params.items() if isinstance(params, Mapping) else params)
        is_shown = self.outer.method in READING
        if is_shown and method not in READING and _TRIED not in pairs:
            raise ValueError(f"{method} {path} would change what a page only shows")
        return await super().request(method, path, params=pairs, **options)

    async def stream(self, path: str, query: str, headers: Mapping[str, str]) -> web.StreamResponse:
        """Answer the request for a page by a stream of the API, as it comes.

        Raises:
            Refused: the node refuses the stream.
        """
        url = URL(path).with_query(query)
        response, content = await stream_in_process(
            self.outer, url, {**self.own_headers, **headers}, largest=LARGEST_ANSWER
        )
        if response.status >= 400:
            raise Refused(Problem.read(response.status, content, response.reason or ""))
        return response

    async def told(self, asking: Awaitable[T], *statuses: int) -> tuple[T | None, str]:
        """An answer, or in words why the node refuses the request.

        Args:
            statuses: the statuses of refusals that the page tells; others are errors.
        """
        try:
            return await asking, ""
        except Refused as error:
            if error.problem.status not in statuses:
                raise
            return None, refusal_in_words(error)

    async def page(
        self,
        /,
        operation: Operation[Any, Answered],
        query: Query,
        place: str = "after",
        **at: str,
    ) -> tuple[Answered, str]:
        """The answer of an operation that answers in pages, and the place of the next page.

        Args:
            place: the parameter that names the place.
            at: the values of the placeholders in the path.
        """
        path, params = target_of(operation, query, at)
        answer = await self.request(operation.method, path, params=params)
        return self._read(operation, path, answer), place_after(answer, place)

    async def found(self, path: str, params: Params = ()) -> Any:
        """The JSON at a path, or `None` if the reader may not read it or nothing is there."""
        answer, _ = await self.told(self.request("GET", path, params=params), 401, 403, 404)
        return None if answer is None else orjson.loads(answer.body)

    async def known(self, authorities: Sequence[str]) -> list[KnownAuthority]:
        """What is known of authorities, at most 100."""
        if not authorities:
            return []
        query = AuthoritiesQuery(authority=[*authorities[:MOST_AUTHORITIES]])
        return (await self.call(LIST_AUTHORITIES, query=query)).authorities

    async def cards(self, authorities: Sequence[str]) -> dict[str, Card]:
        """The cards of the authorities that a page names, by authority."""
        found = await self.known(authorities)
        return {each.authority: each.card for each in found if each.card is not None}

    async def names(self, authorities: Sequence[str]) -> dict[str, str]:
        """The names by authority. This catalog always has a name; other catalogs may lack it."""
        found = {
            each.authority: (each.card.name if each.card else "") or _UNNAMED[each.isown]
            for each in await self.known(authorities)
        }
        return {authority: name for authority, name in found.items() if name}


def refusal_in_words(error: Refused | BadAnswer) -> str:
    """Why a request was refused, and what helps."""
    return f"{error.message} {error.hint}".strip()


def place_after(answer: Answer, name: str = "after") -> str:
    """The place after which the next page of a list begins; empty for the last page.

    Args:
        name: the parameter that names the place.
    """
    return URL(answer.next_page).query.get(name, "") if answer.next_page else ""
