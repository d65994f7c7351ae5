"""The checks of credentials from operators, and the forms in which nodes keep credentials."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import urlsplit

from catalog.config import Settings
from catalog.http.outboundaddress import why_endpoint_refused
from catalog.model.errors import InvalidAttribute
from catalog.model.peercredential import ClientCertificate, OAuthClient, PeerCredential
from catalog.operations.links import LinkTerms
from catalog.operations.peercredentials import GivenCertificate, GivenCredential
from catalog.store.links import LinkDefinition
from replication.peers.clientcertificate import read_certificate


def given_credential(
    body: LinkTerms, definition: LinkDefinition, settings: Settings, subject: str
) -> PeerCredential | None:
    """The credential in a body; `None` if the body has no credential.

    Raises:
        InvalidAttribute: the body has both a token and a credential, the mode of the link sends
            none, servers would refuse the credential, or the node does not connect to the token
            endpoint.
    """
    name = "token" if body.credential is None else "credential"
    if body.token is not None:
        if body.credential is not None:
            raise InvalidAttribute(subject, name="token", error_detail="`credential` has it, too")
        given = PeerCredential(token=body.token.get_secret_value())
    elif body.credential is not None:
        given = peer_credential(body.credential, subject)
    else:
        return None
    if definition.terms.is_topic or not definition.peer:
        detail = f'a link of mode "{definition.mode}" sends none'
        raise InvalidAttribute(subject, name=name, error_detail=detail)
    check_credential(given, definition.peer, settings, subject)
    return given


def peer_credential(given: GivenCredential | None, subject: str) -> PeerCredential:
    """The checked credential of an operator; empty if none was given.

    Raises:
        InvalidAttribute: servers would refuse the certificate.
    """
    if given is None:
        return PeerCredential()
    oauth = None
    if given.oauth is not None:
        oauth = OAuthClient(**given.oauth.model_dump(mode="json", exclude_none=True))
    return PeerCredential(
        token=given.token.get_secret_value(),
        oauth=oauth,
        certificate=None if given.certificate is None else _usable(given.certificate, subject),
        cacertificate=given.cacertificate or "",
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
