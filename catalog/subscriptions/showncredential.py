"""Credentials of sinks as answers show them, and how clients keep them without knowing them."""

from __future__ import annotations

from typing import Any

from catalog.model.errors import InvalidAttribute
from catalog.model.masking import MASK, masked_url
from catalog.model.sinkcredential import SinkCredential, TokenCredential, secrets_of, type_of
from catalog.model.timestamps import format_time
from catalog.store.sinkcredentials import StoredCredential

_SECRETS = {
    "PLAIN": ("identifier", "secret"),
    "ACCESSTOKEN": ("accesstoken",),
    "REFRESHTOKEN": ("accesstoken", "refreshtoken"),
}
_NONE_STORED = (
    f"{MASK} keeps a stored credential of this type while the sink stays the same; here it stands "
    "for none"
)
_PARTLY = f"{MASK} keeps the whole credential: give it for each secret, or for none"
_CHANGED = f"to change it, give the whole credential instead of {MASK}"


def show_credential(stored: StoredCredential) -> dict[str, Any]:
    """A credential with stars in place of its secrets."""
    shown: dict[str, Any] = {"credentialtype": stored.type}
    shown |= dict.fromkeys(_SECRETS[stored.type], MASK)
    if stored.expiresat is not None:
        shown["accesstokenexpiresutc"] = format_time(stored.expiresat)
    if stored.scheme is not None:
        shown["accesstokentype"] = stored.scheme
    if stored.endpoint is not None:
        shown["refreshtokenendpoint"] = stored.endpoint
    return shown


def keeps_credential(
    wanted: SinkCredential | None,
    stored: StoredCredential | None,
    subject: str,
    *,
    is_same_sink: bool,
) -> bool:
    """Whether a client gives a stored credential back as it is shown, which keeps it.

    It is kept for the sink that it was stored for only: nobody who does not know a secret can
    have it sent elsewhere.

    Raises:
        InvalidAttribute: stars stand where nothing is stored for this sink, or beside something
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
        # A refresh may have changed the type and the expiry since the client read them.
        return
    if wanted.scheme != stored.scheme:
        name = "sinkcredential.accesstokentype"
        raise InvalidAttribute(subject, name=name, error_detail=_CHANGED)
    if wanted.expiresat != stored.expiresat:
        name = "sinkcredential.accesstokenexpiresutc"
        raise InvalidAttribute(subject, name=name, error_detail=_CHANGED)
