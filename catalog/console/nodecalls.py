"""Calls the operations of the node in process, as the reader of a page.

The console has no other way to the catalog.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import hdrs, web
from multidict import CIMultiDictProxy
from yarl import URL

from catalog.client.connection import Answer, Params
from catalog.client.errors import BadAnswer, Problem, Refused
from catalog.client.operationcalls import OperationCalls
from catalog.http.inprocess import LargerThanKept, call_in_process, stream_in_process
from catalog.operations.operation import READING

_LARGEST_ANSWER = 8 * 1024 * 1024
# The headers of the page's request that tell who reads, from where, and by which name of the node.
_PASSED_ON = (hdrs.HOST, hdrs.USER_AGENT, "X-Forwarded-For", "X-Request-ID")
# The parameter of operations that tell what they would do.
_TRIED = "dryrun"
_NEXT = re.compile(r"<([^>]+)>\s*;\s*rel=\"?next\"?")


class NodeCalls(OperationCalls):
    """The calls of the node that serves a page; every method raises `ClientError`.

    A request for a page that is only shown changes nothing: GET reads, and tries without effect.

    Args:
        request: the request for the page.
        token: the token of the reader's session; without a token, the credential of the request.
    """

    def __init__(self, request: web.Request, token: str | None = None) -> None:
        self.url = str(request.url.origin())
        self._request = request
        self._headers = {
            name: ",".join(request.headers.getall(name))
            for name in _PASSED_ON
            if name in request.headers
        }
        if token is not None:
            self._headers[hdrs.AUTHORIZATION] = f"Bearer {token}"
        elif hdrs.AUTHORIZATION in request.headers:
            self._headers[hdrs.AUTHORIZATION] = request.headers[hdrs.AUTHORIZATION]

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params = (),
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        is_repeatable: bool | None = None,
        largest: int | None = None,
        wait_for: str = "",
        wait_seconds: int | None = None,
    ) -> Answer:
        """Answer a request of the API in process.

        Raises:
            Refused: the node refuses the request.
            BadAnswer: the answer is a redirect, or too large for a page.
        """
        pairs = list(params.items() if isinstance(params, Mapping) else params)
        is_shown = self._request.method in READING
        if is_shown and method not in READING and (_TRIED, "") not in pairs:
            raise ValueError(f"{method} {path} would change what a page only shows")
        url = URL(path).extend_query(pairs)
        sent = {**self._headers, **(headers or {})}
        if body is not None and not isinstance(body, bytes):
            body = orjson.dumps(body)
            sent.setdefault(hdrs.CONTENT_TYPE, "application/json")
        try:
            response, content = await call_in_process(
                self._request, method, url, sent, body or b"", largest=largest or _LARGEST_ANSWER
            )
        except LargerThanKept as error:
            raise BadAnswer(self.at(path), "more than a page can show") from error
        if response.status >= 400:
            raise Refused(Problem.read(response.status, content, response.reason or ""))
        if response.status >= 300:
            target = response.headers.get(hdrs.LOCATION, "another URL")
            raise BadAnswer(self.at(path), f"a redirect to {target}")
        found = _NEXT.search(", ".join(response.headers.getall(hdrs.LINK, ())))
        return Answer(
            status=response.status,
            headers=CIMultiDictProxy(response.headers),
            body=content,
            next_page=URL(found[1]).raw_path_qs if found else "",
        )

    async def stream(self, path: str, query: str, headers: Mapping[str, str]) -> web.StreamResponse:
        """Answer the request for a page by a stream of the API, as it comes.

        Raises:
            Refused: the node refuses the stream.
        """
        url = URL(path).with_query(query)
        response, content = await stream_in_process(
            self._request, url, {**self._headers, **headers}, largest=_LARGEST_ANSWER
        )
        if response.status >= 400:
            raise Refused(Problem.read(response.status, content, response.reason or ""))
        return response

    async def document(self, path: str) -> bytes:
        """The bytes of a document of the catalog."""
        return (await self.request("GET", path)).body

    async def found(self, path: str, params: Params = ()) -> Any:
        """The JSON at a path, or `None` if the reader may not read it or nothing is there."""
        try:
            return orjson.loads((await self.request("GET", path, params=params)).body)
        except Refused as error:
            if error.problem.status in (401, 403, 404):
                return None
            raise
