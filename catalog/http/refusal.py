"""Answers clients whose connection is closed before a request of theirs could be handled."""

from __future__ import annotations

from http import HTTPStatus

from catalog.http.problems import problem_response
from catalog.model.concorderrors import LimitExceeded
from catalog.model.errors import XRegistryError


def refusal(error: XRegistryError) -> bytes:
    """A whole response that tells why."""
    response = problem_response(error)
    assert isinstance(response.body, bytes)
    headers = {**response.headers, "Content-Length": len(response.body), "Connection": "close"}
    lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + response.body


def header_too_large(most: int) -> LimitExceeded:
    return LimitExceeded(
        limit=str(most), things="bytes in its header", setting="CONCORD_MAX_HEADER_BYTES"
    )
