"""The values that settings take: each is checked when it is read."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated
from urllib.parse import parse_qs, urlsplit

from pydantic import AfterValidator, BeforeValidator, SecretStr
from pydantic_settings import NoDecode

from catalog.keys.keyring import parse_keys
from catalog.model.roles import RoleRule


def _public_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an absolute http or https URL")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("must have no query, fragment or user")
    return value.rstrip("/")


def _origin(value: str) -> str:
    parts = urlsplit(value)
    if value != "*" and (not parts.hostname or value != f"{parts.scheme}://{parts.netloc}"):
        raise ValueError("must be * or origins such as https://example.com")
    return value


def _split(value: object) -> object:
    """The items of a list, separated by commas."""
    if not isinstance(value, str):
        return value
    return tuple(item.strip() for item in value.split(",") if item.strip())


def _host_name(value: str) -> str:
    if value != "*" and not _HOST_NAME.fullmatch(value):
        raise ValueError("must be * or names without a port such as catalog.example")
    return value.lower().removesuffix(".")


def _network(value: str) -> str:
    return str(ipaddress.ip_network(value))


def _kafka_url(value: SecretStr) -> SecretStr:
    parts = urlsplit(value.get_secret_value())
    if parts.scheme not in {"kafka", "kafkas"} or not parts.netloc.rpartition("@")[2]:
        raise ValueError("must be kafka:// or kafkas:// with brokers, such as kafkas://broker:9093")
    if parts.path.strip("/") or parts.fragment:
        raise ValueError("must have no path or fragment: links name topics")
    given = parse_qs(parts.query, strict_parsing=bool(parts.query))
    if not given.keys() <= {"saslmechanism", "cafile"}:
        raise ValueError("its query may have saslmechanism and cafile only")
    if not {*given.get("saslmechanism", ())} <= _SASL_MECHANISMS:
        raise ValueError(f"its saslmechanism must be one of {', '.join(sorted(_SASL_MECHANISMS))}")
    return value


def _issuer(value: str) -> str:
    """An issuer, unchanged, since it has to equal the name in tokens."""
    parts = urlsplit(value)
    if not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("must be URLs without query, fragment or user")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname)):
        raise ValueError("must be https URLs, since their keys say who is believed")
    return value


def _role_rule(value: str) -> str:
    RoleRule.parse(value)
    return value


def _algorithm(value: str) -> str:
    if value not in _ALGORITHMS:
        raise ValueError(f"must be of {', '.join(sorted(_ALGORITHMS))}")
    return value


def _keys(value: SecretStr) -> SecretStr:
    parse_keys(key_texts(value))
    return value


def key_texts(value: SecretStr) -> list[str]:
    """The keys of a setting, separated by commas."""
    return [text.strip() for text in value.get_secret_value().split(",")]


# Only algorithms without a shared secret: a public key could pass for a secret (RFC 8725, 2.1).
_ALGORITHMS = frozenset(
    {f"{family}{bits}" for family in ("RS", "PS", "ES") for bits in (256, 384, 512)} | {"Ed25519"}
)
_SASL_MECHANISMS = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
_HOST_NAME = re.compile(r"[A-Za-z0-9._~-]{1,253}", re.ASCII)
# The environment has lists as texts with commas, and not as JSON.
_SPLIT = BeforeValidator(_split)
HostNames = Annotated[tuple[Annotated[str, AfterValidator(_host_name)], ...], NoDecode, _SPLIT]
Networks = Annotated[tuple[Annotated[str, AfterValidator(_network)], ...], NoDecode, _SPLIT]
Origins = Annotated[tuple[Annotated[str, AfterValidator(_origin)], ...], NoDecode, _SPLIT]
PublicUrl = Annotated[str, AfterValidator(_public_url)]
PublicUrls = Annotated[tuple[PublicUrl, ...], NoDecode, _SPLIT]
Issuers = Annotated[tuple[Annotated[str, AfterValidator(_issuer)], ...], NoDecode, _SPLIT]
RoleRules = Annotated[tuple[Annotated[str, AfterValidator(_role_rule)], ...], NoDecode, _SPLIT]
Algorithms = Annotated[tuple[Annotated[str, AfterValidator(_algorithm)], ...], NoDecode, _SPLIT]
Texts = Annotated[tuple[str, ...], NoDecode, _SPLIT]
Keys = Annotated[SecretStr, AfterValidator(_keys)]
KafkaUrl = Annotated[SecretStr, AfterValidator(_kafka_url)]


def is_loopback(host: str) -> bool:
    """Whether a host, given without a port, is a loopback name or address."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
