"""Reads request bodies within bounds of size, time, depth and memory."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator
from typing import Any

from aiohttp import web

from catalog.context import CLIENT, CONTEXT
from catalog.documents import serialization
from catalog.http.requestchecks import check_json_texts
from catalog.load.limiter import Bytes, Things
from catalog.load.workthread import aside, note_request_bytes
from catalog.model import concorderrors
from catalog.model.errors import MissingBody, ParsingData
from catalog.settings import Settings
from catalog.settings.limits import Limits

# The deepest nesting of JSON; the parser that finds repeated keys reads at most 200 levels.
MOST_DEPTH = 64
# The first bytes of a body are not counted: small bodies are accepted while large bodies fill the
# memory.
_UNCOUNTED = 64 * 1024
CODINGS = ("gzip", "deflate")
"""The accepted content codings of request bodies (RFC 9110 8.4.1)."""
# A step takes less than a millisecond.
_STEP = 256 * 1024
# zlib copies the input that is not consumed at each step: short slices bound the copies.
_SLICE = 16 * 1024
_MOST_MEMBERS = 1024
_GZIP = 16 + zlib.MAX_WBITS
# The media type that aiohttp gives a body without a type. A page of another origin cannot send this
# type itself without a preflight.
_UNTYPED = "application/octet-stream"
SEND_JSON = "Send it with the header Content-Type: application/json."


class BodyMemory(Bytes):
    """The bytes of bodies that a node holds, in total and for each client."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(
            settings.max_body_memory_bytes,
            per_key=settings.max_body_memory_bytes // 4,
            things=Things("bytes of bodies", "CONCORD_MAX_BODY_MEMORY_BYTES"),
        )
        # Steps of inflation take turns, so that the load on the event loop does not grow with the
        # number of compressed bodies.
        self.inflating = asyncio.Lock()


class HeldBody:
    """The body of a request, while more of the body arrives."""

    def __init__(self, memory: BodyMemory, client: str) -> None:
        self.content: bytes | None = None
        self._memory = memory
        self._client = client
        self._counted = 0

    def grow(self, size: int) -> None:
        """Count the body with `size` bytes, unless a larger size is counted already.

        Raises:
            TooManyAtOnce, ServerBusy: see `BodyMemory.take`.
        """
        more = size - _UNCOUNTED - self._counted
        if more > 0:
            self._memory.take(self._client, more)
            self._counted += more

    def release(self) -> None:
        self.content = None
        self._memory.give_back(self._client, self._counted)
        self._counted = 0


BODY_MEMORY: web.AppKey[BodyMemory] = web.AppKey("body_memory", BodyMemory)
_HELD: web.RequestKey[HeldBody] = web.RequestKey("held_body", HeldBody)


def held_body(request: web.Request) -> HeldBody:
    """The body of a request, which is empty at first."""
    if _HELD not in request:
        request[_HELD] = HeldBody(request.app[BODY_MEMORY], request[CLIENT])
    return request[_HELD]


def release_body(request: web.Request) -> None:
    """Release the body of an answered request."""
    if _HELD in request:
        request[_HELD].release()


def inflate(sent: bytes, coding: str) -> Iterator[bytes]:
    """Inflate a body in pieces, which bound the time and the memory of a step.

    Args:
        sent: the body as sent.
        coding: an element of `CODINGS`.

    Raises:
        zlib.error: the body is damaged, ends early, or has too many members.
    """
    decoder, members = zlib.decompressobj(_window(sent, coding)), 1
    for start in range(0, len(sent), _SLICE):
        piece = sent[start : start + _SLICE]
        while piece:
            if decoder.eof:
                members += 1
                if coding != "gzip" or members > _MOST_MEMBERS:
                    raise zlib.error("there is more after its end")
                decoder = zlib.decompressobj(_GZIP)
            yield decoder.decompress(piece, _STEP)
            piece = decoder.unused_data or decoder.unconsumed_tail
    yield decoder.flush()
    if not decoder.eof:
        raise zlib.error("it ends early")


def _window(sent: bytes, coding: str) -> int:
    if coding == "gzip":
        return _GZIP
    # Some clients omit the header of zlib, which begins with the method, 8 (RFC 1950 2.2).
    return zlib.MAX_WBITS if sent[0] & 0xF == 8 else -zlib.MAX_WBITS


async def read_body(request: web.Request, *, most: int | None = None) -> bytes:
    """Read the whole body, inflated if the body is compressed; a missing body is empty.

    Args:
        request: the request; a second call returns the body that the first call has read.
        most: the most accepted bytes; `max_body_bytes` by default.

    Raises:
        RequestTooLarge: the body has more than the accepted bytes.
        RequestTimeout: the body did not arrive within `body_timeout_seconds`.
        ParsingData: the connection ended before the announced length, or the body is damaged.
        UnsupportedContentCoding: the compression is not one of `CODINGS`.
        TooManyAtOnce, ServerBusy: see `BodyMemory.take`.
    """
    held = held_body(request)
    if held.content is None:
        coding = _content_coding(request)
        most = most or request[CONTEXT].settings.max_body_bytes
        sent = await _receive(request, held, most)
        is_coded = bool(sent and coding)
        held.content = await _inflated(request, held, sent, coding, most) if is_coded else sent
        note_request_bytes(len(held.content))
    return held.content


def _content_coding(request: web.Request) -> str:
    """The coding of the body, an element of `CODINGS`; empty for a body without coding."""
    named = ",".join(request.headers.getall("Content-Encoding", [])).strip().lower()
    if named in ("", "identity"):
        return ""
    coding = named.removeprefix("x-")
    if coding not in CODINGS:
        raise concorderrors.UnsupportedContentCoding(request.path, coding=named)
    return coding


async def _receive(request: web.Request, held: HeldBody, most: int) -> bytes:
    """Receive the body as sent.

    A body is inflated only when complete: a stalled client costs no more memory than the bytes
    already sent.
    """
    settings = request[CONTEXT].settings
    if (request.content_length or 0) > most:
        raise concorderrors.RequestTooLarge(request.path, limit=str(most))
    received = bytearray()
    try:
        if request.content.is_eof():
            # The body came with the header, as most bodies do, and needs no timeout.
            while not request.content.at_eof():
                _add(received, request.content.read_nowait(), request, held, most)
            return bytes(received)
        async with asyncio.timeout(settings.body_timeout_seconds):
            async for piece in request.content.iter_any():
                _add(received, piece, request, held, most)
    except TimeoutError as error:
        raise concorderrors.RequestTimeout(
            request.path, seconds=f"{settings.body_timeout_seconds:g}"
        ) from error
    except (web.RequestPayloadError, ValueError) as error:
        raise _mismatch(request) from error
    return bytes(received)


async def _inflated(
    request: web.Request, held: HeldBody, sent: bytes, coding: str, most: int
) -> bytes:
    memory = request.app[BODY_MEMORY]
    pieces, inflated = inflate(sent, coding), bytearray()
    try:
        while True:
            async with memory.inflating:
                piece = next(pieces, None)
                if piece is None:
                    return bytes(inflated)
                _add(inflated, piece, request, held, most, besides=len(sent))
                # Within the lock: other requests run before the next step of any body.
                await asyncio.sleep(0)
    except zlib.error as error:
        raise _mismatch(request) from error


def _add(
    body: bytearray,
    piece: bytes,
    request: web.Request,
    held: HeldBody,
    most: int,
    besides: int = 0,
) -> None:
    if len(body) + len(piece) > most:
        raise concorderrors.RequestTooLarge(request.path, limit=str(most))
    held.grow(len(body) + len(piece) + besides)
    body += piece


def _mismatch(request: web.Request) -> ParsingData:
    return ParsingData(
        request.path, error_detail="the body does not match its declared length or encoding"
    )


async def read_json(request: web.Request, *, most_values: int | None = None) -> Any:
    """Read the body as JSON.

    Args:
        most_values: the most JSON values, for operations that check the body as a whole.

    Raises:
        MissingBody: the body is empty.
        UnsupportedMediaType: the declared media type is not JSON.
        ParsingData: the body is not JSON in UTF-8, is nested deeper than `MOST_DEPTH`, or has
            U+0000 in a text.
        LimitExceeded: the body has more values than `most_values` or `most_values_of` allow.
    """
    value, body = await _read_json(request, most_values)
    check_json_texts(value, body)
    return value


async def _read_json(request: web.Request, most_values: int | None = None) -> tuple[Any, bytes]:
    """The parsed value and the body."""
    body = await read_body(request)
    if not body:
        raise MissingBody(request.path)
    media_type = request.content_type.lower()
    if not (media_type == _UNTYPED or media_type.endswith(("/json", "+json"))):
        raise concorderrors.UnsupportedMediaType(
            request.path, contenttype=media_type, detail=SEND_JSON
        )
    if most_values is not None:
        check_number_of_values(body, most_values, "fixed")
    return await aside(0, parse_json, body, request[CONTEXT].settings), body


async def read_object(request: web.Request) -> dict[str, Any]:
    """Read the body as a JSON object.

    Raises:
        ParsingData: the body is no JSON object; and the errors of `read_json`.
    """
    return _object(request, await read_json(request))


async def read_attributes(request: web.Request) -> dict[str, Any]:
    """Read the body as a JSON object, and leave the texts to the checks of attributes.

    Raises:
        ParsingData: the body is no JSON object; and the errors of `read_json`.
    """
    value, _ = await _read_json(request)
    return _object(request, value)


def _object(request: web.Request, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ParsingData(request.path, error_detail="a JSON object is needed")
    return value


def parse_json(body: bytes, limits: Limits) -> Any:
    """Parse JSON of bounded size and depth.

    Raises:
        ParsingData: the text is not JSON in UTF-8, is nested too deep, or repeats a key with a
            different value.
        LimitExceeded: the text has too many values.
    """
    check_number_of_values(body, most_values_of(limits))
    try:
        return serialization.parse_json(body, MOST_DEPTH)
    except serialization.NotParsable as error:
        raise ParsingData(error_detail=str(error)) from error


def most_values_of(limits: Limits) -> int:
    """The most JSON values of a body: one value for each 32 bytes of `max_body_bytes`.

    A parsed value takes about a hundred bytes, even if the text of the value is short.
    """
    return limits.max_body_bytes // 32


def check_number_of_values(body: bytes, most: int, setting: str = "CONCORD_MAX_BODY_BYTES") -> None:
    """Refuse JSON of many values before parsing, because parsed values take far more memory.

    Commas and brackets in texts count as well: to tell texts apart would cost as much as parsing.

    Raises:
        LimitExceeded: the body has more than `most` values.
    """
    if len(body) > most and body.count(b",") + body.count(b"{") + body.count(b"[") > most:
        raise concorderrors.LimitExceeded(limit=str(most), things="JSON values", setting=setting)
