"""AMQP 1.0 as a delivery protocol: its settings (subscriptions-spec.md 3.2.2.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field, field_validator

from catalog.model.credentials import PlainCredential, SinkCredential
from catalog.operations.cacertificate import CaCertificate
from catalog.subscriptions.sinks.sink import DeliveryProtocol, ProtocolSettings, Unfit

_SYMBOL = re.compile(r"[\x21-\x7e]{1,128}")
_MOST_ADDRESS = 1024

_Name = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]
_Long = Annotated[int, Field(ge=-(2**63), lt=2**63)]
_Value = Annotated[str, Field(max_length=1024)] | bool | _Long | float


class AmqpSettings(ProtocolSettings):
    """The settings of an AMQP sink. `contentmode` and `cacertificate` are additions."""

    address: str | None = Field(
        default=None, min_length=1, max_length=_MOST_ADDRESS, pattern=r"^[^\x00-\x1f\x7f]+$"
    )
    """Node to send to, if the sink's path does not name it"""
    linkname: _Name | None = None
    """Name of the link; a random one if it is not given"""
    sendersettlementmode: Literal["unsettled", "settled"] = "unsettled"
    """Whether the server acknowledges events (unsettled) or not (settled)"""
    linkproperties: dict[str, _Value] = Field(default_factory=dict, max_length=32)
    """Properties of the link"""
    contentmode: Literal["binary", "structured"] = "binary"
    """Whether an event is in properties and data, or is one JSON object"""
    cacertificate: CaCertificate | None = None
    """Certificates, as PEM, that the server's has to be signed by"""

    @field_validator("linkproperties")
    @classmethod
    def _names_are_symbols(cls, properties: dict[str, Any]) -> dict[str, Any]:
        for name in properties:
            if not _SYMBOL.fullmatch(name):
                raise ValueError("a name needs to be 1 to 128 visible ASCII characters")
        return properties


def address_of(url: str, settings: AmqpSettings) -> str:
    """The address of the node that receives the events; empty if not named."""
    return settings.address or unquote(urlsplit(url).path[1:])


def _why_unfit(url: str, settings: Mapping[str, Any], _: SinkCredential | None) -> Unfit | None:
    parts = urlsplit(url)
    if parts.query:
        return "sink", "a query has no meaning in AMQP"
    in_path = unquote(parts.path[1:])
    if bool(in_path) == bool(settings.get("address")):
        fault = "either the sink's path or this setting needs to name the node to send to"
        return "protocolsettings.address", fault
    if len(in_path) > _MOST_ADDRESS or not in_path.isprintable():
        return "sink", f"its path needs to be at most {_MOST_ADDRESS} printable characters"
    if settings.get("cacertificate") and parts.scheme != "amqps":
        return "protocolsettings.cacertificate", "it has a meaning for amqps only"
    return None


AMQP = DeliveryProtocol(
    schemes={"AMQP": ("amqp", "amqps")},
    settings=AmqpSettings,
    module="catalog.subscriptions.sinks.amqpsink",
    extra="amqp",
    library="proton",
    credentials=(PlainCredential,),
    why_unfit=_why_unfit,
)
