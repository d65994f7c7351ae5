"""HTTP as a delivery protocol: its settings (subscriptions-spec.md 3.2.2.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from catalog.model.credentials import PlainCredential, SinkCredential
from catalog.model.sinkterms import SignatureScheme
from catalog.subscriptions.sinks.sink import DeliveryProtocol, ProtocolSettings, Unfit

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,1022}[\x21-\x7e])?")
_RESERVED_HEADERS = re.compile(
    r"host|content-.*|transfer-encoding|connection|keep-alive|te|trailer|upgrade|expect|"
    r"proxy-.*|ce-.*|webhook-.*",
    re.IGNORECASE,
)


class HttpSettings(ProtocolSettings):
    """The settings of an HTTP sink. `contentmode`, `compression` and `signature` are additions.

    Batches are compressed only where the subscriber asks for it, since no answer tells beforehand
    whether a sink takes them so.
    """

    headers: dict[str, str] = Field(default_factory=dict, max_length=32)
    """Headers of every request, whose values are never shown"""
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    """Method of the requests"""
    contentmode: Literal["binary", "structured", "batched"] = "binary"
    """Whether an event is in headers and body, is one JSON object, or several are an array"""
    compression: Literal["none", "gzip"] = "none"
    """Compression of the bodies of batches"""
    signature: Literal["none", SignatureScheme] = "none"
    """Signature of requests, as Standard Webhooks say"""

    @field_validator("headers")
    @classmethod
    def _headers_are_ours_to_send(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            _check_header(name, value)
        return headers

    @field_validator("compression")
    @classmethod
    def _is_of_batches(cls, compression: str, info: ValidationInfo) -> str:
        if compression != "none" and info.data.get("contentmode", "batched") != "batched":
            raise ValueError('only the content mode "batched" is compressed')
        return compression


def _check_header(name: str, value: str) -> None:
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError(f'"{name[:64]}" is not the name of an HTTP header')
    if _RESERVED_HEADERS.fullmatch(name):
        raise ValueError(f'the header "{name}" is set by the delivery itself')
    if name.lower() == "authorization":
        raise ValueError('what authorizes the delivery belongs into "sinkcredential"')
    if not _HEADER_VALUE.fullmatch(value):
        raise ValueError(f'the value of the header "{name}" needs to be 1 to 1024 ASCII characters')


def _why_unfit(_: str, __: Mapping[str, Any], credential: SinkCredential | None) -> Unfit | None:
    if isinstance(credential, PlainCredential) and ":" in credential.identifier:
        return "sinkcredential.PLAIN.identifier", "it must not contain a colon (RFC 7617 2)"
    return None


HTTP = DeliveryProtocol(
    schemes={"HTTP": ("http", "https"), "HTTPS": ("https",)},
    settings=HttpSettings,
    masked=("headers",),
    why_unfit=_why_unfit,
    module="catalog.subscriptions.sinks.httpsink",
)
