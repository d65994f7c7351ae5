"""The answer of an HTTP sink, read up to a bound."""

from __future__ import annotations

from dataclasses import dataclass

import httptools

_MOST_HEAD_BYTES = 16 * 1024
_MOST_BODY_BYTES = 64 * 1024
_SWITCHING_PROTOCOLS = 101
_FIRST_FINAL = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """The status and the headers of an answer. The body is not kept."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]

    def header(self, name: str) -> str | None:
        """The value of the first header with a name."""
        wanted = name.lower().encode()
        found = (value for each, value in self.headers if each.lower() == wanted)
        value = next(found, None)
        return None if value is None else value.decode("latin-1")


class AnswerReader:
    """Reads the answers of a connection in turn, with llhttp.

    The bounds count bytes as they come, so chunks, trailers and informational answers, however
    many, count as well. The body is read only to use the connection again: when the body exceeds
    its bound, the answer counts as read.
    """

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.begin()

    def begin(self) -> None:
        """Expect the next answer."""
        self.has_bytes = False
        self.is_done = False
        # Whether the connection can take a further request after the answer.
        self.is_reusable = False
        self._left = _MOST_HEAD_BYTES
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []

    @property
    def answer(self) -> HttpAnswer:
        """The answer that was read, once `is_done`."""
        return HttpAnswer(status=self._status, headers=tuple(self._headers))

    def feed(self, data: bytes) -> str | None:
        """Read bytes; return the fault if the bytes are not an answer.

        The fault is not raised: an exception would keep the data and its frames in memory until
        reference cycles are collected.
        """
        self.has_bytes = True
        while data and not self.is_done:
            piece, data = data[: self._left], data[self._left :]
            self._left -= len(piece)
            fault = self._parse(piece)
            if fault is not None:
                return fault
            if not self._left and not self.is_done:
                if not self._status:
                    return f"the head of the answer is longer than {_MOST_HEAD_BYTES} bytes"
                self.is_done, self.is_reusable = True, False
        if data:
            self.is_reusable = False
        return None

    def feed_end(self) -> bool:
        """Whether the end of the connection completes the answer (RFC 9112 6.3)."""
        names = {name.lower() for name, _ in self._headers}
        if self._status and not names & {b"content-length", b"transfer-encoding"}:
            self.is_done, self.is_reusable = True, False
        return self.is_done

    def on_header(self, name: bytes, value: bytes) -> None:
        # A trailer is no header.
        if not self._status:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self.is_done:
            return
        status = self._parser.get_status_code()
        if status == _SWITCHING_PROTOCOLS:
            raise ValueError("nobody asked for another protocol")
        if status < _FIRST_FINAL:
            self._headers.clear()
            return
        self._status = status
        self.is_reusable = self._parser.should_keep_alive()
        self._left += _MOST_BODY_BYTES

    def on_message_begin(self) -> None:
        # A second answer to one request: the connection cannot be used again.
        if self.is_done:
            self.is_reusable = False

    def on_message_complete(self) -> None:
        if self._status:
            self.is_done = True

    def _parse(self, piece: bytes) -> str | None:
        try:
            self._parser.feed_data(piece)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            # Bytes after a complete answer are ignored, with the connection.
            self.is_reusable = False
            return None if self.is_done else f"{type(error).__name__}: {error}"
        return None
