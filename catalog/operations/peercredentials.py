"""Credentials that nodes show to other servers, and the certificates of authorities they trust."""

from __future__ import annotations

import functools
import ssl
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from catalog.model.credentials import ClientAuthentication
from catalog.operations.operation import AnswerBody, Body, Secret, Time, secret_like

_MOST_CHARACTERS = 16 * 1024


def _check_certificates(text: str) -> str:
    # Everybody with access to the subscription can read the settings.
    if "PRIVATE KEY" in text:
        raise ValueError("a private key must not be here, since everybody may read it")
    try:
        tls_context(text)
    except (ssl.SSLError, TypeError, ValueError):
        raise ValueError("it needs to be certificates in PEM") from None
    return text


CaCertificate = Annotated[
    str, Field(max_length=_MOST_CHARACTERS), AfterValidator(_check_certificates)
]
"""The type of the setting `cacertificate`: certificates in PEM."""


@functools.lru_cache(maxsize=32)
def tls_context(cacertificate: str | None) -> ssl.SSLContext:
    """A context that trusts the given authorities alone; `None` trusts the system's authorities.

    Raises:
        ssl.SSLError, TypeError, ValueError: the text holds no certificates in PEM.
    """
    return ssl.create_default_context(cadata=cacertificate)


# RFC 6749, Appendix A: the characters of ids, of secrets and of scopes.
_VISIBLE = r"^[\x20-\x7e]{1,1024}$"
_OAUTH_SCOPE = r"^[\x21\x23-\x5b\x5d-\x7e ]{0,1024}$"
_LONGEST_PEM = 64 * 1024


def _check_endpoint(url: str) -> str:
    parts = urlsplit(url)
    # A query would be shown, and could be the secret itself.
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise ValueError("it needs to be the http or https URL of a token endpoint, without query")
    return url


_Visible = Annotated[str, Field(pattern=_VISIBLE)]
_Secret = Annotated[Secret, secret_like(_VISIBLE, "1 to 1024 characters of ASCII")]
# RFC 6750, 2.1. An empty token stands for no token.
Token = Annotated[
    Secret,
    secret_like(
        r"([A-Za-z0-9\-._~+/]{1,8000}={0,2})?",
        "a token as HTTP takes it, of at most 8000 characters",
    ),
]


class GivenOAuthClient(Body):
    """The client that gets tokens from a token endpoint, for a `resource` or an `audience`."""

    tokenurl: Annotated[str, Field(max_length=1024), AfterValidator(_check_endpoint)]
    clientid: _Visible
    clientsecret: _Secret
    scope: Annotated[str, Field(pattern=_OAUTH_SCOPE)] = ""
    resource: _Visible | None = None
    audience: _Visible | None = None
    authentication: ClientAuthentication = "client_secret_basic"


class GivenPassword(Body):
    """A user and a password, for servers that ask for HTTP's Basic authentication."""

    user: Annotated[str, Field(pattern=r"^[\x20-\x39\x3b-\x7e]{1,1024}$")]
    password: _Secret


class GivenCertificate(Body):
    """A client certificate with intermediate certificates, and the key, in PEM."""

    chain: Annotated[str, Field(max_length=_LONGEST_PEM)]
    key: Annotated[Secret, Field(max_length=_LONGEST_PEM)]


class GivenCredential(Body):
    """The credential of a node for a peer: a token, OAuth client or password; a certificate.

    An empty object is no credential. `cacertificate` holds the only trusted authorities, in PEM.
    """

    token: Token = SecretStr("")
    oauth: GivenOAuthClient | None = None
    basic: GivenPassword | None = None
    certificate: GivenCertificate | None = None
    cacertificate: CaCertificate | None = None

    @model_validator(mode="after")
    def _has_one_token(self) -> Self:
        given = (self.token.get_secret_value(), self.oauth, self.basic)
        if sum(map(bool, given)) > 1:
            raise ValueError(
                "it has a token, a client that gets tokens, or a password: one of them"
            )
        return self


class ShownOAuthClient(AnswerBody):
    """The client that gets tokens, with stars for the secret."""

    tokenurl: str
    clientid: str
    clientsecret: str
    scope: str | None = None
    resource: str | None = None
    audience: str | None = None
    authentication: str


class ShownPassword(AnswerBody):
    """A user, with stars for the password."""

    user: str
    password: str


class ShownCertificate(AnswerBody):
    """A client certificate."""

    subject: str
    endsat: Time


class ShownCredential(AnswerBody):
    """A credential without secrets; stars stand for a token."""

    token: str | None = None
    tokenendsat: Time | None = None
    oauth: ShownOAuthClient | None = None
    basic: ShownPassword | None = None
    certificate: ShownCertificate | None = None
    cacertificate: str | None = None
