"""Certificates of authorities for the sink of a subscription, or a peer (`cacertificate`)."""

from __future__ import annotations

import functools
import ssl
from typing import Annotated

from pydantic import AfterValidator, Field

_MOST_CHARACTERS = 16 * 1024


def _check(text: str) -> str:
    # Everybody with access to the subscription can read the settings.
    if "PRIVATE KEY" in text:
        raise ValueError("a private key must not be here, since everybody may read it")
    try:
        tls_context(text)
    except (ssl.SSLError, TypeError, ValueError):
        raise ValueError("it needs to be certificates in PEM") from None
    return text


CaCertificate = Annotated[str, Field(max_length=_MOST_CHARACTERS), AfterValidator(_check)]
"""The type of the setting `cacertificate`: certificates in PEM."""


@functools.lru_cache(maxsize=32)
def tls_context(cacertificate: str | None) -> ssl.SSLContext:
    """A context that trusts the given authorities alone; `None` trusts the system's authorities.

    Raises:
        ssl.SSLError, TypeError, ValueError: the text holds no certificates in PEM.
    """
    return ssl.create_default_context(cadata=cacertificate)
