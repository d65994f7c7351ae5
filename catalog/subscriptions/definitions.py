"""Checks subscription definitions beyond the checks of the model, and keeps masked secrets.

Answers mask secrets; a client may send masked values back to keep the stored values.
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from catalog.http.outboundaddress import split_hosts
from catalog.http.route import checked
from catalog.model.errors import InvalidAttribute
from catalog.model.masking import MASK, is_masked, masked_url, unmasked_url
from catalog.model.sinkcredential import SinkCredential, TokenCredential, secrets_of, type_of
from catalog.operations.subscriptions import NewSubscription
from catalog.store.logpositions import check_position
from catalog.subscriptions.delivery.filters import FilterError, compile_filters
from catalog.subscriptions.sinks.protocols import PROTOCOLS, why_missing
from catalog.subscriptions.stored.sinkcredentials import StoredCredential
from catalog.subscriptions.stored.subscriptions import SubscriptionDefinition

_STARS = f"{MASK} keeps a stored value while the sink stays the same; here it stands for none"
_NONE_STORED = (
    f"{MASK} keeps a stored credential of this type while the sink stays the same; here it stands "
    "for none"
)
_PARTLY = f"{MASK} keeps the whole credential: give it for each secret, or for none"
_CHANGED = f"to change it, give the whole credential instead of {MASK}"


def credential_in(wanted: NewSubscription) -> SinkCredential | None:
    """The credential that a client gives."""
    return None if wanted.sinkcredential is None else wanted.sinkcredential.to_credential()


def definition_of(wanted: NewSubscription, subject: str) -> SubscriptionDefinition:
    """The definition that a client gives, with the settings of its protocol.

    Raises:
        XRegistryError: the definition is invalid; the error repeats no secret.
    """
    if wanted.config.start is not None:
        check_position(wanted.config.start, subject)
    filters = [*wanted.filters, *([] if wanted.filter is None else [wanted.filter])]
    try:
        compile_filters(filters)
    except FilterError as error:
        raise InvalidAttribute(subject, name="filters", error_detail=str(error)) from None
    _check_url(wanted.sink, subject)
    if wanted.protocol not in PROTOCOLS:
        fault = f"the protocols of this node are {', '.join(PROTOCOLS)}"
        raise InvalidAttribute(subject, name="protocol", error_detail=fault)
    return SubscriptionDefinition(
        sink=wanted.sink,
        protocol=wanted.protocol,
        source=wanted.source,
        types=tuple(wanted.types),
        filters=tuple(filters),
        settings=_settings(wanted, subject),
        config=wanted.config,
    )


def _check_url(sink: str, subject: str) -> None:
    for each in split_hosts(sink):
        try:
            urlsplit(each)
        except ValueError:
            # The message of the error repeats the URL, which may contain secrets.
            raise InvalidAttribute(subject, name="sink", error_detail="it is not a URL") from None


def _settings(wanted: NewSubscription, subject: str) -> dict[str, object]:
    """The settings, checked by the protocol together with the sink and the credential."""
    protocol, credential = PROTOCOLS[wanted.protocol], credential_in(wanted)
    missing = why_missing(protocol)
    if missing is not None:
        raise InvalidAttribute(subject, name="protocol", error_detail=missing)
    given = checked(protocol.settings, wanted.protocolsettings, subject, "protocolsettings")
    if not isinstance(credential, (*protocol.credentials, type(None))):
        fault = f"{wanted.protocol} cannot use a credential of this type"
        raise InvalidAttribute(subject, name="sinkcredential.credentialtype", error_detail=fault)
    unfit = protocol.why_unfit(wanted.sink, given.model_dump(), credential)
    if unfit is not None:
        name, fault = unfit
        raise InvalidAttribute(subject, name=name, error_detail=fault)
    return given.model_dump(exclude_none=True)


def unmasked(
    definition: SubscriptionDefinition, stored: SubscriptionDefinition | None, subject: str
) -> SubscriptionDefinition:
    """A definition with stored values in place of the stars that answers show.

    A stored value is kept only for the sink to which the value belongs. Otherwise a client that
    cannot read the value could have the value sent to its own sink.

    Raises:
        InvalidAttribute: stars stand where no value is stored for the sink.
    """
    masked = [
        (member, name)
        for member in PROTOCOLS[definition.protocol].masked
        for name, value in definition.settings[member].items()
        if value == MASK
    ]
    if not masked and not is_masked(definition.sink):
        return definition
    sink = None if stored is None else unmasked_url(definition.sink, stored.sink)
    if stored is None or sink is None:
        name = "sink" if is_masked(definition.sink) else f"protocolsettings.{masked[0][0]}"
        raise InvalidAttribute(subject, name=name, error_detail=_STARS)
    settings = dict(definition.settings)
    for member, name in masked:
        known = stored.settings.get(member, {})
        if name not in known:
            raise InvalidAttribute(subject, name=f"protocolsettings.{member}", error_detail=_STARS)
        settings[member] = {**settings[member], name: known[name]}
    return replace(definition, sink=sink, settings=settings)


def keeps_credential(
    wanted: SinkCredential | None,
    stored: StoredCredential | None,
    subject: str,
    *,
    is_same_sink: bool,
) -> bool:
    """Whether a client returns the stored credential as shown, to keep the credential.

    The credential is kept only for the sink to which it belongs: a client that does not know a
    secret cannot have the secret sent elsewhere.

    Raises:
        InvalidAttribute: stars stand where no credential is stored for the sink, or beside a value
            that would change the credential.
    """
    if wanted is None or MASK not in secrets_of(wanted):
        return False
    if {*secrets_of(wanted)} != {MASK}:
        raise InvalidAttribute(subject, name="sinkcredential", error_detail=_PARTLY)
    if stored is None or stored.type != type_of(wanted) or not is_same_sink:
        raise InvalidAttribute(subject, name="sinkcredential", error_detail=_NONE_STORED)
    if isinstance(wanted, TokenCredential):
        _check_unchanged(wanted, stored, subject)
    return True


def _check_unchanged(wanted: TokenCredential, stored: StoredCredential, subject: str) -> None:
    if wanted.refresh is not None:
        if masked_url(wanted.refresh.endpoint) != stored.endpoint:
            name = "sinkcredential.refreshtokenendpoint"
            raise InvalidAttribute(subject, name=name, error_detail=_CHANGED)
        # A refresh may have changed the type and the expiry since the client read the credential.
        return
    if wanted.scheme != stored.scheme:
        name = "sinkcredential.accesstokentype"
        raise InvalidAttribute(subject, name=name, error_detail=_CHANGED)
    if wanted.expiresat != stored.expiresat:
        name = "sinkcredential.accesstokenexpiresutc"
        raise InvalidAttribute(subject, name=name, error_detail=_CHANGED)
