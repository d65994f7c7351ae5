"""The credentials that operators give: their checks, and the forms in which nodes keep them."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import urlsplit

from catalog.clientcertificate import read_certificate
from catalog.config import Settings
from catalog.http.outboundaddress import why_endpoint_refused
from catalog.model.errors import InvalidAttribute
from catalog.model.peercredential import ClientCertificate, OAuthClient, PeerCredential
from catalog.operations.links import GivenCertificate, GivenCredential, GivenOAuthClient
from catalog.store.links import LinkDefinition
from replication.wire import ChangeBody


def given_credential(
    body: ChangeBody, definition: LinkDefinition, settings: Settings, subject: str
) -> PeerCredential | None:
    """The credential in a body; `None` if the body is not about it.

    Raises:
        InvalidAttribute: the link shows none of its kind, or its tokens would come from an address
            that the node does not connect to.
    """
    if body.credential is not None and body.token is not None:
        raise InvalidAttribute(subject, name="token", error_detail="`credential` has it, too")
    name = "token" if body.credential is None else "credential"
    given = body.to_credential()
    if given is None:
        return None
    if definition.is_topic or definition.mode == "accept":
        detail = f'a link of mode "{definition.mode}" sends none'
        raise InvalidAttribute(subject, name=name, error_detail=detail)
    check_credential(given, definition.peer, settings, subject)
    return given


def peer_credential(given: GivenCredential | None, subject: str) -> PeerCredential:
    """The credential that an operator gave, which is empty if there is none.

    Raises:
        InvalidAttribute: no server would accept its certificate.
    """
    if given is None:
        return PeerCredential()
    return PeerCredential(
        token=given.token.get_secret_value(),
        oauth=None if given.oauth is None else _client(given.oauth),
        certificate=None if given.certificate is None else _usable(given.certificate, subject),
        cacertificate=given.cacertificate or "",
    )


def _client(given: GivenOAuthClient) -> OAuthClient:
    return OAuthClient(
        tokenurl=given.tokenurl,
        clientid=given.clientid,
        clientsecret=given.clientsecret.get_secret_value(),
        scope=given.scope,
        resource=given.resource or "",
        audience=given.audience or "",
        authentication=given.authentication,
    )


def _usable(given: GivenCertificate, subject: str) -> ClientCertificate:
    try:
        return read_certificate(given.chain, given.key.get_secret_value(), datetime.now(UTC))
    except ValueError as error:
        name = "credential.certificate"
        raise InvalidAttribute(subject, name=name, error_detail=str(error)) from error


def check_credential(given: PeerCredential, url: str, settings: Settings, subject: str) -> None:
    """Refuse a credential that cannot be shown to the catalog at a URL.

    Raises:
        InvalidAttribute
    """
    if given.needs_tls and urlsplit(url).scheme != "https":
        detail = "certificates need an https URL at the other end"
        raise InvalidAttribute(subject, name="credential", error_detail=detail)
    if given.oauth is not None:
        refusal = why_endpoint_refused(given.oauth.tokenurl, settings)
        if refusal is not None:
            name = "credential.oauth.tokenurl"
            raise InvalidAttribute(subject, name=name, error_detail=refusal)
