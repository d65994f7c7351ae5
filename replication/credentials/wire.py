"""The bodies in which operators give credentials, and their checks."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from catalog.clientcertificate import read_certificate
from catalog.model.peercredential import ClientCertificate, OAuthClient, PeerCredential
from catalog.operations.cacertificate import CaCertificate

# RFC 6750, 2.1
_TOKEN = re.compile(r"([A-Za-z0-9\-._~+/]{1,8000}={0,2})?", re.ASCII)
# RFC 6749, Appendix A: the characters of ids, of secrets and of scopes.
_VISIBLE = r"^[\x20-\x7e]{1,1024}$"
_SCOPE = r"^[\x21\x23-\x5b\x5d-\x7e ]{0,1024}$"
_LONGEST_PEM = 64 * 1024


def _check_token(token: SecretStr) -> SecretStr:
    if not _TOKEN.fullmatch(token.get_secret_value()):
        raise ValueError("it needs to be a token as HTTP takes it, of at most 8000 characters")
    return token


def _check_secret(secret: SecretStr) -> SecretStr:
    if not re.fullmatch(_VISIBLE, secret.get_secret_value()):
        raise ValueError("it needs to be 1 to 1024 characters of ASCII")
    return secret


def _check_url(url: str) -> str:
    parts = urlsplit(url)
    # Its query would be shown, and could be the secret itself.
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise ValueError("it needs to be the http or https URL of a token endpoint, without query")
    return url


Token = Annotated[SecretStr, AfterValidator(_check_token)]
"""A token for HTTP; an empty one stands for none."""
_Visible = Annotated[str, Field(pattern=_VISIBLE)]


class _ClosedBody(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class OAuthBody(_ClosedBody):
    """The client that gets tokens from a token endpoint; `OAuthClient` explains the members."""

    tokenurl: Annotated[str, Field(max_length=1024), AfterValidator(_check_url)]
    clientid: _Visible
    clientsecret: Annotated[SecretStr, AfterValidator(_check_secret)]
    scope: Annotated[str, Field(pattern=_SCOPE)] = ""
    resource: _Visible | None = None
    audience: _Visible | None = None
    authentication: Literal["client_secret_basic", "client_secret_post"] = "client_secret_basic"

    def to_client(self) -> OAuthClient:
        return OAuthClient(
            tokenurl=self.tokenurl,
            clientid=self.clientid,
            clientsecret=self.clientsecret.get_secret_value(),
            scope=self.scope,
            resource=self.resource or "",
            audience=self.audience or "",
            authentication=self.authentication,
        )


class CertificateBody(_ClosedBody):
    """A client certificate, with those that lead to its authority, and its key, in PEM."""

    chain: Annotated[str, Field(max_length=_LONGEST_PEM)]
    key: Annotated[SecretStr, Field(max_length=_LONGEST_PEM)]

    @model_validator(mode="after")
    def _is_usable(self) -> Self:
        self.to_certificate()
        return self

    def to_certificate(self) -> ClientCertificate:
        return read_certificate(self.chain, self.key.get_secret_value(), datetime.now(UTC))


class CredentialBody(_ClosedBody):
    """The credential that a node shows its peer: a token, or a client that gets them, and a
    certificate, either or both.

    Nothing is no credential. `cacertificate` are the authorities in PEM that are trusted alone.
    """

    token: Token = SecretStr("")
    oauth: OAuthBody | None = None
    certificate: CertificateBody | None = None
    cacertificate: CaCertificate | None = None

    @model_validator(mode="after")
    def _has_one_token(self) -> Self:
        if self.token.get_secret_value() and self.oauth is not None:
            raise ValueError("it has a token, or a client that gets tokens, and not both")
        return self

    def to_credential(self) -> PeerCredential:
        return PeerCredential(
            token=self.token.get_secret_value(),
            oauth=None if self.oauth is None else self.oauth.to_client(),
            certificate=None if self.certificate is None else self.certificate.to_certificate(),
            cacertificate=self.cacertificate or "",
        )
