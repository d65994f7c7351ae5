"""Credentials of sinks, as the Subscriptions API names them (subscriptions-spec.md 3.2.3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

CredentialType = Literal["PLAIN", "ACCESSTOKEN", "REFRESHTOKEN"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainCredential:
    """A user and a password, `PLAIN`."""

    identifier: str = field(repr=False)
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshGrant:
    """A refresh token, and the URL that exchanges the token for new access tokens (RFC 6749 6)."""

    token: str = field(repr=False)
    endpoint: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCredential:
    """A token for access: `ACCESSTOKEN`, or `REFRESHTOKEN` if it has a `refresh`.

    Args:
        token: the token.
        scheme: the type of the token (RFC 6749 7.1), which names the scheme of HTTP's Authorization
            header.
        expiresat: the end of the token's validity, if known.
        refresh: the means to get the next token.
    """

    token: str = field(repr=False)
    scheme: str = "Bearer"
    expiresat: datetime | None = None
    refresh: RefreshGrant | None = None


SinkCredential = PlainCredential | TokenCredential


def type_of(credential: SinkCredential) -> CredentialType:
    """The type of a credential in the Subscriptions API."""
    if isinstance(credential, PlainCredential):
        return "PLAIN"
    return "ACCESSTOKEN" if credential.refresh is None else "REFRESHTOKEN"


def secrets_of(credential: SinkCredential) -> tuple[str, ...]:
    """The secret parts of a credential."""
    if isinstance(credential, PlainCredential):
        return credential.identifier, credential.secret
    refresh = credential.refresh
    return (credential.token,) if refresh is None else (credential.token, refresh.token)
