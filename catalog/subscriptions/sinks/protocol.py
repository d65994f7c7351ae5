"""The description of a delivery protocol, which needs none of the protocol's libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from catalog.model.credentials import PlainCredential, SinkCredential, TokenCredential


class ProtocolSettings(BaseModel):
    """The `protocolsettings` of one protocol, checked (subscriptions-spec.md 3.2.2).

    The docstring of each setting is one line for users.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True
    )


Unfit = tuple[str, str]
"""The name of an attribute of a subscription, and a sentence that describes the fault."""


def _fits_always(_: str, __: Mapping[str, Any], ___: SinkCredential | None) -> Unfit | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryProtocol:
    """A protocol that subscriptions can name.

    Args:
        schemes: the identifiers in the Subscriptions API, each with the URL schemes of sinks.
        settings: the model of the `protocolsettings`.
        module: the module with the function `open_connections(settings, now) -> SinkConnections`.
        extra: the extra of the distribution that installs `library`; `None` if not needed.
        library: the name of the module that the protocol needs.
        credentials: the types of credentials that the protocol can use.
        masked: the maps among the settings whose values are never shown.
        most_hosts: the largest number of hosts in the URL of a sink, separated by commas.
        why_unfit: takes a sink's URL, the protocol's settings and the credential, and returns
            the attribute that does not fit the rest, or `None`.
    """

    schemes: Mapping[str, tuple[str, ...]]
    settings: type[ProtocolSettings]
    module: str
    extra: str | None = None
    library: str | None = None
    credentials: tuple[type[SinkCredential], ...] = (PlainCredential, TokenCredential)
    masked: tuple[str, ...] = ()
    most_hosts: int = 1
    why_unfit: Callable[[str, Mapping[str, Any], SinkCredential | None], Unfit | None] = (
        _fits_always
    )
