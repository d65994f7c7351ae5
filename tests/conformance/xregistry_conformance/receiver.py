"""A web server that takes the deliveries of the tested server, and answers them as a case says."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

LARGEST_BODY = 16 * 1024 * 1024
_GRANTED = {"Allow": "POST", "WebHook-Allowed-Origin": "*", "WebHook-Allowed-Rate": "*"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A request that came; the names of its headers are in lower case, its time is monotonic."""

    method: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    at: float

    def __str__(self) -> str:
        headers = "".join(f"\n    {name}: {value}" for name, value in self.headers.items())
        return (
            f"{self.method} {self.query}{headers}\n    {self.body[:1500].decode(errors='replace')}"
        )


Faults = Callable[[Delivery], list[str]]


class Receiver:
    """What came for the case that runs, and how it is answered.

    Args:
        url: where the tested server reaches the receiver, without a path.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._path = ""
        self._changed = threading.Condition()
        self._waiting: list[Delivery] = []
        self._last = 0.0
        self._answers: deque[Mapping[str, Any]] = deque()
        self._consent: Mapping[str, Any] = {}

    @classmethod
    @contextmanager
    def open(cls, url: str) -> Iterator[Receiver]:
        """A receiver that listens at the port of a URL, or at a free one if the URL has none."""
        parts = urlsplit(url)
        with _Listening(parts.hostname or "", parts.port or 0) as listening:
            netloc = parts.netloc if parts.port else f"{parts.netloc}:{listening.server_port}"
            listening.receiver = receiver = cls(f"{parts.scheme}://{netloc}")
            thread = threading.Thread(target=listening.serve_forever, daemon=True)
            thread.start()
            try:
                yield receiver
            finally:
                listening.shutdown()

    def begin(self) -> str:
        """Forget the case before; return the URL of a sink that only the next case knows."""
        with self._changed:
            self._path = f"/{secrets.token_hex(8)}"
            self._waiting, self._answers, self._consent = [], deque(), {}
            return self._url + self._path

    def answer(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """Answer the next deliveries with these statuses and headers; those after with 204."""
        with self._changed:
            self._answers = deque(answers)

    def consent(self, answer: Mapping[str, Any]) -> None:
        """Answer validation requests so; otherwise they are granted."""
        with self._changed:
            self._consent = answer

    def take(self, faults: Faults, seconds: float, after: float = 0) -> list[str]:
        """Wait for a request without faults, and take it; what came in its place, if none does.

        Args:
            faults: what a request has that is not as it should be.
            seconds: the longest time to wait.
            after: the seconds that have to lie between the request taken last and this one.
        """
        deadline = time.monotonic() + seconds
        with self._changed:
            while True:
                for delivery in self._waiting:
                    if not faults(delivery):
                        early = self._last + after - delivery.at
                        self._waiting.remove(delivery)
                        self._last = delivery.at
                        return [f"it came {early:.1f} seconds too early"] if early > 0 else []
                if not self._changed.wait(deadline - time.monotonic()):
                    return [
                        f"it did not come within {seconds:.0f} seconds",
                        *(f"{'; '.join(faults(each))}: {each}" for each in self._waiting[:5]),
                    ]

    def absent(self, faults: Faults, seconds: float = 0) -> list[str]:
        """What came until now, or comes within some seconds, and has no faults."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while True:
                if found := [f"it came: {each}" for each in self._waiting if not faults(each)]:
                    return found
                if not self._changed.wait(deadline - time.monotonic()):
                    return []

    def handle(self, path: str, delivery: Delivery) -> tuple[int, Mapping[str, str]]:
        """Keep a request, and return the status and the headers of its answer."""
        with self._changed:
            if path != self._path:
                return 410, {}
            self._waiting.append(delivery)
            self._changed.notify_all()
            if delivery.method == "OPTIONS":
                answer = self._consent or {"status": 200, "headers": _GRANTED}
            else:
                answer = self._answers.popleft() if self._answers else {"status": 204}
        headers = {name: str(value) for name, value in answer.get("headers", {}).items()}
        return answer["status"], headers


class _Listening(ThreadingHTTPServer):
    """Listens on a loopback address if it is one, and else on all addresses of this machine."""

    receiver: Receiver

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host if _is_loopback(host) else "", port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_POST(self) -> None:
        self._take()

    def do_PUT(self) -> None:
        self._take()

    def do_OPTIONS(self) -> None:
        self._take()

    def log_message(self, *_: object) -> None:
        """Say nothing: the cases tell what came."""

    def _take(self) -> None:
        body = self._body()
        headers = {name.lower(): value for name, value in self.headers.items()}
        path, _, query = self.path.partition("?")
        delivery = Delivery(
            method=self.command, query=query, headers=headers, body=body, at=time.monotonic()
        )
        assert isinstance(self.server, _Listening)
        status, answered = self.server.receiver.handle(path, delivery)
        self.send_response(status)
        for name, value in answered.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", "0")
        self.end_headers()

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", "").lower():
            return self.rfile.read(min(int(self.headers.get("Content-Length", 0)), LARGEST_BODY))
        body = b""
        while size := int(self.rfile.readline(100).partition(b";")[0], 16):
            body += self.rfile.read(min(size, LARGEST_BODY - len(body)))
            self.rfile.readline(100)
        self.rfile.readline(100)
        return body


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
