"""Builds responses: JSON, the header fields of every API, and entities that answers leave out."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import orjson
import structlog
from aiohttp import hdrs, web

from catalog.model.errors import DataRetrievalError
from catalog.writing.outcome import Outcome

CORRELATION_ID = "xRegistry-xregcorrelationid"
POSITION = "Concord-Position"
MORE_HEADERS: web.RequestKey[Mapping[str, str]] = web.RequestKey("more_headers", Mapping)
"""Headers that the answer to a request gets in addition to the headers of the handler."""
_NOT_IN_URL = re.compile(r"[^\x21-\x7e]")
JSON_TYPE = "application/json; charset=utf-8"
# A mark that is never sent; as a header, the mark stays with answers stored for repeated requests.
_MARK = "Concord-Untyped"
UNTYPED: Mapping[str, str] = {_MARK: "true"}
_log = structlog.get_logger(__name__)
_Shown = TypeVar("_Shown")
_MOST_REMEMBERED = 1000
_LONGEST_REASON = 300
_reported: OrderedDict[tuple[str, str], None] = OrderedDict()


def interaction_headers(outcome: Outcome) -> dict[str, str]:
    """The headers of a write: the id of the interaction, and the position to wait for in reads."""
    return {CORRELATION_ID: outcome.interaction, POSITION: str(outcome.cursor)}


def percent_encoded(found: re.Match[str]) -> str:
    """The percent-encoded text of a match, for `re.sub`."""
    return "".join(f"%{b:02X}" for b in found[0].encode())


def encode_url(url: str) -> str:
    """Percent-encode the characters of a URL that a header can't carry."""
    return _NOT_IN_URL.sub(percent_encoded, url)


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


def to_json(data: Any) -> bytes:
    """Write JSON, with times in UTC; an `orjson.Fragment` passes through unchanged."""
    return orjson.dumps(data, option=orjson.OPT_UTC_Z)


def json_response(
    data: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """A response with `data` as JSON."""
    return web.Response(
        body=to_json(data), status=status, headers={"Content-Type": JSON_TYPE, **(headers or {})}
    )


def leave_untyped(response: web.StreamResponse) -> None:
    """Remove the media type that aiohttp gave to a response with the headers of `UNTYPED`."""
    if response.headers.popall(_MARK, None) is not None:
        response.headers.popall(hdrs.CONTENT_TYPE, None)


def shown_or_none(xid: str, show: Callable[[], _Shown]) -> _Shown | None:
    """The result of `show`, or `None` and a line in the log if `show` fails.

    Args:
        xid: the xid of the entity.
        show: shows the entity without I/O, so that every exception is about the entity.
    """
    try:
        return show()
    except Exception as error:
        report_left_out(xid, error)
        return None


def json_or_none(xid: str, show: Callable[[], Any]) -> orjson.Fragment | None:
    """The result of `show` as JSON text, or `None` if the entity cannot be shown or written."""
    return shown_or_none(xid, lambda: orjson.Fragment(to_json(show())))


def report_left_out(xid: str, error: Exception) -> None:
    """Log that answers leave out an entity, once for each reason."""
    said = error.detail if isinstance(error, DataRetrievalError) else str(error)
    reason = f"{type(error).__name__}: {said}"[:_LONGEST_REASON]
    if (xid, reason) in _reported:
        return
    _reported[xid, reason] = None
    if len(_reported) > _MOST_REMEMBERED:
        _reported.popitem(last=False)
    _log.error("an entity cannot be shown, and is left out", xid=xid, reason=reason)
