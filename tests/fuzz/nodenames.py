"""The names that a node has chosen itself, put into requests that were generated before."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Container
from dataclasses import replace
from typing import Any

import orjson

from tests.fuzz.requests import FuzzedRequest

_KEPT = 8
_ONE = re.compile(r"^/subscriptions/([^/?]+)")
_SUBSCRIPTION = re.compile(r"~subscription(\d)")
_NUMBER = b'"~number"'
_NOBODY = "nobody"


class NodeNames:
    """The last subscriptions of a node with their keys and dead letters, as its answers tell.

    `~subscription0` in a path stands for the latest subscription, `~subscription1` for the one
    before, `~key` and `~number` for the oldest key and dead letter of the same one, also
    in a body. Where a request is about one of these, subscriptions that have none are left out.
    """

    def __init__(self) -> None:
        self._subscriptions: deque[str] = deque(maxlen=_KEPT)
        self._keys: dict[str, str] = {}
        self._numbers: dict[str, int] = {}

    def filled(self, request: FuzzedRequest) -> FuzzedRequest:
        """The request with names of this node; `nobody` where there is none yet."""
        wants_letter = "~number" in request.path or _NUMBER in request.body
        known = self._fit_for(request.path, wants_letter=wants_letter)
        path = _SUBSCRIPTION.sub(lambda found: known[-1 - int(found[1]) % len(known)], request.path)
        if found := _ONE.match(path):
            path = path.replace("~key", self._keys.get(found[1], _NOBODY))
            number = str(self._numbers.get(found[1], 0))
            path = path.replace("~number", number)
            request = replace(request, body=request.body.replace(_NUMBER, number.encode()))
        return replace(request, path=path)

    def learn(self, request: FuzzedRequest, status: int, body: bytes) -> None:
        """Note the names in an answer."""
        if not request.path.startswith("/subscriptions") or status not in (200, 201, 202):
            return
        try:
            shown = orjson.loads(body)
        except orjson.JSONDecodeError:
            return  # That of a consent is a text.
        if isinstance(shown, dict) and request.path == "/subscriptions":
            self._subscriptions.append(shown["id"])
        if isinstance(shown, dict) and "sink" in shown:
            self._learn_keys(shown["id"], shown.get("signingkeys", []))
        found = _ONE.match(request.path)
        if found and isinstance(shown, list) and shown:
            self._learn_list(found[1], request.path.partition("?")[0], shown)

    def _learn_list(self, id: str, path: str, shown: list[Any]) -> None:
        if path.endswith("/deadletters"):
            self._numbers[id] = shown[0]["number"]

    def _learn_keys(self, id: str, keys: list[Any]) -> None:
        if keys:
            self._keys[id] = keys[-1]["id"]

    def _fit_for(self, path: str, *, wants_letter: bool) -> list[str]:
        named: Container[str] = self._subscriptions
        if "/signingkeys" in path:
            named = self._keys
        elif wants_letter:
            named = self._numbers
        return [id for id in self._subscriptions if id in named] or [_NOBODY]
