"""Calls the operations of a node in process, for the caller of the request being answered."""

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
from catalog.http.inprocess import LargerThanKept, call_in_process

LARGEST_ANSWER = 8 * 1024 * 1024
# The headers of the outer request that tell who asks, from where, and by which name of the node.
_PASSED_ON = (hdrs.HOST, hdrs.USER_AGENT, "X-Forwarded-For", "X-Request-ID")
_NEXT = re.compile(r"<([^>]+)>\s*;\s*rel=\"?next\"?")


class InProcessCalls(OperationCalls):
    """Calls of the node that answers a request; every method raises `ClientError`.

    Args:
        request: the request that is being answered, whose caller asks.
        token: the token of the caller; without a token, the credential of the request.

    Attributes:
        outer: the request that is being answered.
        own_headers: the headers of each call: who asks, from where, and the name of the node.
    """

    def __init__(self, request: web.Request, token: str | None = None) -> None:
        self.url = str(request.url.origin())
        self.position = ""
        self.outer = request
        self.own_headers = {
            name: ",".join(request.headers.getall(name))
            for name in _PASSED_ON
            if name in request.headers
        }
        if token is not None:
            self.own_headers[hdrs.AUTHORIZATION] = f"Bearer {token}"
        elif hdrs.AUTHORIZATION in request.headers:
            self.own_headers[hdrs.AUTHORIZATION] = request.headers[hdrs.AUTHORIZATION]

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
        """Answer a request of the API in process, once, without a wait for a position.

        Raises:
            Refused: the node refuses the request.
            BadAnswer: the answer is a redirect, or larger than `largest` or 8 MiB.
        """
        pairs = list(params.items() if isinstance(params, Mapping) else params)
        url = URL(path).extend_query(pairs)
        sent = {**self.own_headers, **(headers or {})}
        if body is not None and not isinstance(body, bytes):
            body = orjson.dumps(body)
            sent.setdefault(hdrs.CONTENT_TYPE, "application/json")
        try:
            response, content = await call_in_process(
                self.outer, method, url, sent, body or b"", largest=largest or LARGEST_ANSWER
            )
        except LargerThanKept as error:
            raise BadAnswer(self.at(path), "more than can be shown here") from error
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
