"""The means by which a node proves to another catalog who it is."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import orjson

from catalog.model.masking import MASK
from catalog.model.timestamps import format_time

ClientAuthentication = Literal["client_secret_basic", "client_secret_post"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthClient:
    """A client that an OAuth 2.0 token endpoint gives tokens to (RFC 6749 4.4).

    Args:
        tokenurl: the token endpoint.
        scope: words with spaces between; empty leaves it to the endpoint.
        resource: the catalog that the tokens are for (RFC 8707), for endpoints that ask for it.
        audience: the same, for endpoints that call it so.
        authentication: the way in which the secret is sent, as OpenID Connect names them.
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
    """A certificate for TLS and its key, both in PEM.

    Args:
        chain: the certificate, and those that lead to its authority.
        subject: that of the certificate, for people.
        endsat: the end of its validity, as a timestamp.
    """

    chain: str
    key: str = field(repr=False)
    subject: str
    endsat: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerCredential:
    """A token or a client that gets tokens, a certificate, or both of these; or none of them.

    `cacertificate` are the authorities in PEM that alone may have signed the other side's
    certificate; empty stands for those that the system trusts.
    """

    token: str = field(default="", repr=False)
    oauth: OAuthClient | None = None
    certificate: ClientCertificate | None = None
    cacertificate: str = ""

    @property
    def is_empty(self) -> bool:
        return self == PeerCredential()

    @property
    def needs_tls(self) -> bool:
        """Whether parts of it have no meaning without TLS."""
        return self.certificate is not None or bool(self.cacertificate)

    def written(self) -> bytes:
        """The credential as bytes, which are secret."""
        return orjson.dumps(asdict(self))

    @classmethod
    def read(cls, written: bytes) -> PeerCredential:
        """The credential that `written` made."""
        members = orjson.loads(written)
        oauth, certificate = members["oauth"], members["certificate"]
        return cls(
            token=members["token"],
            oauth=None if oauth is None else OAuthClient(**oauth),
            certificate=None if certificate is None else ClientCertificate(**certificate),
            cacertificate=members["cacertificate"],
        )

    @property
    def shown(self) -> Mapping[str, Any]:
        """The part of it for everybody who may see the link."""
        shown: dict[str, Any] = {}
        if self.token:
            shown["token"] = MASK
            if end := token_end(self.token):
                shown["tokenendsat"] = format_time(end)
        if self.oauth is not None:
            members = {name: value for name, value in asdict(self.oauth).items() if value}
            shown["oauth"] = {**members, "clientsecret": MASK}
        if self.certificate is not None:
            certificate = self.certificate
            shown["certificate"] = {"subject": certificate.subject, "endsat": certificate.endsat}
        if self.cacertificate:
            shown["cacertificate"] = self.cacertificate
        return shown


def token_end(token: str) -> datetime | None:
    """The time at which a token ends by what it says itself (RFC 7519 4.1.4, "exp").

    Returns:
        `None` if the token is no JWT, or tells no end.
    """
    try:
        claims = orjson.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        return datetime.fromtimestamp(claims["exp"], UTC)
    # What is no JWT has no such parts; an end may be no number, or one of no calendar.
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, OSError):
        return None
