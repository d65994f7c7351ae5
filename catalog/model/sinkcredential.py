"""Credentials of sinks, as the Subscriptions API names them (subscriptions-spec.md 3.2.3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainCredential:
    """A user and a password, `PLAIN`."""

    identifier: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCredential:
    """A token for access, `ACCESSTOKEN`.

    Args:
        token: the token.
        scheme: its type (RFC 6749 7.1), which names the scheme of HTTP's Authorization header.
        expiresat: the end of its validity, if it is known.
    """

    token: str = field(repr=False)
    scheme: str = "Bearer"
    expiresat: datetime | None = None


SinkCredential = PlainCredential | TokenCredential
