"""The credentials by which a node authenticates itself to a remote catalog."""

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
    """A client that gets tokens from an OAuth 2.0 token endpoint (RFC 6749 4.4).

    Args:
        tokenurl: the token endpoint.
        scope: words separated by spaces; empty leaves the scope to the endpoint.
        resource: the catalog that the tokens are for (RFC 8707), for endpoints that ask for a
            resource.
        audience: the catalog that the tokens are for, for endpoints that ask for an audience.
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
class PeerCredential:
    """A token or a client that gets tokens, a certificate, both, or neither.

    `cacertificate` holds the only authorities, in PEM, that may sign the remote catalog's
    certificate; empty stands for the authorities that the system trusts.
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
        """Whether parts of the credential have no meaning without TLS."""
        return self.certificate is not None or bool(self.cacertificate)

    def written(self) -> bytes:
        """The credential as bytes, which are secret."""
        return orjson.dumps(asdict(self))

    @classmethod
    def read(cls, written: bytes) -> PeerCredential:
        """Read a credential from the bytes that `written` returns."""
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
        """The part of the credential that is shown to everybody with access to the link."""
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
    """The time at which a token ends by its own claim (RFC 7519 4.1.4, "exp").

    Returns:
        `None` if the token is no JWT, or has no end.
    """
    try:
        # A JWT has no padding, and the decoder ignores superfluous padding.
        claims = orjson.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        return datetime.fromtimestamp(claims["exp"], UTC)
    # A text that is no JWT lacks the parts; an end may be no number, or beyond the calendar.
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, OSError):
        return None
