"""The description of a delivery protocol, which needs none of the protocol's libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from catalog.model.sinkcredential import PlainCredential, SinkCredential, TokenCredential


class ProtocolSettings(BaseModel):
    """The `protocolsettings` of one protocol, checked (subscriptions-spec.md 3.2.2).

    The docstring of each setting is one line for users.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True
    )


Unfit = tuple[str, str]
"""The name of an attribute of a subscription, and a sentence that says what is wrong with it."""


def _fits_always(_: str, __: Mapping[str, Any], ___: SinkCredential | None) -> Unfit | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryProtocol:
    """A protocol that subscriptions can name.

    Args:
        schemes: its identifiers in the Subscriptions API, each with the schemes of the URLs of
            its sinks.
        settings: the model of its `protocolsettings`.
        module: the module with its `open_connections(settings, now) -> SinkConnections`.
        extra: the extra of this distribution that installs `library`; `None` if it needs none.
        library: the name of the module that has to be there for it.
        credentials: the types of credentials that it can use.
        masked: the maps among its settings whose values are never shown.
        most_hosts: how many hosts the URL of a sink may name, with commas between.
        why_unfit: takes a sink's URL, the protocol's settings and the credential, and returns
            what does not fit together, or `None`.
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
