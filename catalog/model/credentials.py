"""The credentials by which a node authenticates itself to a remote catalog or to a sink."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import orjson

from catalog.model.masking import MASK
from catalog.model.timestamps import format_time

CredentialType = Literal["PLAIN", "ACCESSTOKEN", "REFRESHTOKEN"]
ClientAuthentication = Literal["client_secret_basic", "client_secret_post"]
# The time between the refresh and the end of a token; at most half of the token's life.
REFRESH_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthClient:
    """A client that gets tokens from an OAuth 2.0 token endpoint (RFC 6749 4.4).

    Args:
        scope: words separated by spaces; empty leaves the scope to the endpoint.
        resource, audience: the catalog that the tokens are for, for endpoints that ask for a
            resource (RFC 8707) or for an audience.
        authentication: the method of sending the secret, by the name in OpenID Connect.
    """

    tokenurl: str
    clientid: str
    clientsecret: str = field(repr=False)
    scope: str = ""
    resource: str = ""
    audience: str = ""
    authentication: ClientAuthentication = "client_secret_basic"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCertificate:
    """A certificate for TLS and the key of the certificate, both in PEM.

    Args:
        chain: the certificate, and the intermediate certificates up to the authority.
        subject: the subject of the certificate, for people.
        endsat: the end of the certificate's validity, as a timestamp.
    """

    chain: str
    key: str = field(repr=False)
    subject: str
    endsat: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerPassword:
    """A user and a password (RFC 7617), as schema registries of other software ask for them."""

    user: str
    password: str = field(repr=False)

    @property
    def header(self) -> str:
        """The value of the header Authorization."""
        return f"Basic {base64.b64encode(f'{self.user}:{self.password}'.encode()).decode()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerCredential:
    """A token, a client that gets tokens or a password; a certificate; both, or neither.

    `cacertificate` holds the only authorities, in PEM, that may sign the remote catalog's
    certificate; empty stands for the authorities that the system trusts.
    """

    token: str = field(default="", repr=False)
    oauth: OAuthClient | None = None
    basic: PeerPassword | None = None
    certificate: ClientCertificate | None = None
    cacertificate: str = ""

    @property
    def is_empty(self) -> bool:
        return self == PeerCredential()

    @property
    def needs_tls(self) -> bool:
        """Whether parts of the credential have no meaning without TLS."""
        return self.certificate is not None or bool(self.cacertificate)

    def written(self) -> bytes:
        """The credential as bytes, which are secret."""
        return orjson.dumps(asdict(self))

    @classmethod
    def read(cls, written: bytes) -> PeerCredential:
        """Read a credential from the bytes that `written` returns."""
        members = orjson.loads(written)
        oauth, basic, certificate = members["oauth"], members["basic"], members["certificate"]
        return cls(
            token=members["token"],
            oauth=None if oauth is None else OAuthClient(**oauth),
            basic=None if basic is None else PeerPassword(**basic),
            certificate=None if certificate is None else ClientCertificate(**certificate),
            cacertificate=members["cacertificate"],
        )

    @property
    def shown(self) -> Mapping[str, Any]:
        """The part of the credential that is shown to everybody with access to the link."""
        shown: dict[str, Any] = {}
        if self.token:
            shown["token"] = MASK
            if end := token_end(self.token):
                shown["tokenendsat"] = format_time(end)
        if self.oauth is not None:
            members = {name: value for name, value in asdict(self.oauth).items() if value}
            shown["oauth"] = {**members, "clientsecret": MASK}
        if self.basic is not None:
            shown["basic"] = {"user": self.basic.user, "password": MASK}
        if self.certificate is not None:
            certificate = self.certificate
            shown["certificate"] = {"subject": certificate.subject, "endsat": certificate.endsat}
        if self.cacertificate:
            shown["cacertificate"] = self.cacertificate
        return shown


def token_end(token: str) -> datetime | None:
    """The time at which a JWT ends by its own claim (RFC 7519 4.1.4, "exp"); else `None`."""
    try:
        # A JWT has no padding, and the decoder ignores superfluous padding.
        claims = orjson.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        return datetime.fromtimestamp(claims["exp"], UTC)
    # A text that is no JWT lacks the parts; an end may be no number, or beyond the calendar.
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, OSError):
        return None


def refresh_time(
    expiresat: datetime, now: datetime, *, lead_seconds: float, least_seconds: float = 0.0
) -> datetime:
    """The time to refresh a token: before the end, and not before half of the remaining time.

    Args:
        lead_seconds: the time between the refresh and the end of the token.
        least_seconds: the least time from now, so that tokens without a duration cost little.
    """
    rest = max((expiresat - now).total_seconds(), 0.0)
    seconds = max(rest - lead_seconds, rest / 2, least_seconds)
    # Counted from now, not from the end: a token may end on the last day of the calendar.
    return now + timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainCredential:
    """A user and a password for a sink, `PLAIN` (subscriptions-spec.md 3.2.3)."""

    identifier: str = field(repr=False)
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshGrant:
    """A refresh token, and the URL that exchanges the token for new access tokens (RFC 6749 6)."""

    token: str = field(repr=False)
    endpoint: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCredential:
    """A token for access to a sink: `ACCESSTOKEN`, or `REFRESHTOKEN` if it has a `refresh`.

    `scheme` is the type of the token (RFC 6749 7.1), and of HTTP's Authorization header.
    `expiresat` is the end of the token's validity, if known.
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
