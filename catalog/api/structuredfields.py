"""Writes structured fields: what header fields consist of (RFC 9651, section 4.1)."""

from __future__ import annotations

from collections.abc import Mapping


def write_item(token: str, parameters: Mapping[str, str | int]) -> str:
    """A token with parameters. Texts that are not ASCII are Display Strings."""
    return token + "".join(f";{name}={_value(value)}" for name, value in parameters.items())


def _value(value: str | int) -> str:
    if isinstance(value, int):
        return str(value)
    if value.isascii() and value.isprintable():
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    encoded = "".join(
        chr(byte) if 0x20 <= byte <= 0x7E and byte not in b'%"' else f"%{byte:02x}"
        for byte in value.encode()
    )
    return f'%"{encoded}"'
