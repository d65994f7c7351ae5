"""The credential by which a client identifies itself to a node."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Protocol

from aiohttp import hdrs


class Credential(Protocol):
    """Identifies the sender of requests to one node; the methods raise `CredentialUnusable`."""

    @property
    def tls(self) -> ssl.SSLContext | bool:
        """The TLS context of connections to the node; `True` for the context of the session."""

    async def headers(self) -> Mapping[str, str]:
        """The headers for the next request."""

    async def renew(self, refused: Mapping[str, str]) -> bool:
        """Return whether a retry with new headers makes sense after headers were answered 401."""


class BearerToken:
    """A constant token; requests with an empty token have no credential."""

    tls = True

    def __init__(self, token: str | None) -> None:
        self._headers: dict[str, str] = {hdrs.AUTHORIZATION: f"Bearer {token}"} if token else {}

    async def headers(self) -> Mapping[str, str]:
        return self._headers

    async def renew(self, refused: Mapping[str, str]) -> bool:
        return False
