"""The credential that a client shows a node, to prove who sends a request."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Protocol

from aiohttp import hdrs


class Credential(Protocol):
    """Proves to one node who sends requests. Its methods raise `CredentialUnusable`."""

    @property
    def tls(self) -> ssl.SSLContext | bool:
        """The TLS of connections to the node; `True` is that of the session."""

    async def headers(self) -> Mapping[str, str]:
        """The headers of the next request."""

    async def renew(self, refused: Mapping[str, str]) -> bool:
        """Say whether other headers than those that were answered 401 may be accepted."""


class BearerToken:
    """A token that stays as it is; an empty one is none."""

    tls = True

    def __init__(self, token: str | None) -> None:
        self._headers: dict[str, str] = {hdrs.AUTHORIZATION: f"Bearer {token}"} if token else {}

    async def headers(self) -> Mapping[str, str]:
        return self._headers

    async def renew(self, refused: Mapping[str, str]) -> bool:
        return False
