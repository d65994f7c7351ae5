"""Header fields of all APIs: the interaction of a write, and the encoding of values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes

from aiohttp import web

from catalog.writing.outcome import Outcome

CORRELATION_ID = "xRegistry-xregcorrelationid"
POSITION = "Concord-Position"
MORE_HEADERS: web.RequestKey[Mapping[str, str]] = web.RequestKey("more_headers", Mapping)
"""Headers that the answer to a request gets beside those of its handler."""
_NULL = "null"
_UNSAFE = re.compile(r"[^\x21\x23\x24\x26-\x7e]")
_NOT_IN_URL = re.compile(r"[^\x21-\x7e]")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")


def interaction_headers(outcome: Outcome) -> dict[str, str]:
    """The id of the interaction of a write, and its position, for which reads may wait."""
    return {CORRELATION_ID: outcome.interaction, POSITION: str(outcome.cursor)}


def encode_header(value: str) -> str:
    """Percent-encode the characters that a header can't carry, and quotes and spaces.

    The text "null" is encoded, too, as a plain `null` deletes an attribute.
    """
    return "%6Eull" if value == _NULL else _UNSAFE.sub(_percent_encoded, value)


def _percent_encoded(found: re.Match[str]) -> str:
    return "".join(f"%{b:02X}" for b in found[0].encode())


def decode_header(value: str) -> str:
    """Undo double quotes, then percent-encoding.

    Raises:
        ValueError: the result is not UTF-8.
    """
    plain = _QUOTED.sub(lambda found: _ESCAPE.sub(r"\1", found[1]), value.strip())
    return unquote_to_bytes(plain).decode()


def encode_url(url: str) -> str:
    """Percent-encode the characters of a URL that a header can't carry."""
    return _NOT_IN_URL.sub(_percent_encoded, url)


def write_item(token: str, parameters: Mapping[str, str | int]) -> str:
    """A structured field's token with parameters; non-ASCII texts are Display Strings."""
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
