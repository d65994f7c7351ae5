"""Errors of requests to a node, and their problem documents (core/http.md, "Error Processing").

ClientError
├── Unreachable         no answer, a late answer, or an incomplete answer
├── Refused             the answer is an error; `problem` is its document
│   └── CursorExpired   the change log does not reach back to the cursor
├── BadAnswer           the answer is no answer of a Concord node
└── CredentialUnusable  the client has no valid credential to send
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

_TOO_MANY_REQUESTS = 429
_LATER = frozenset({_TOO_MANY_REQUESTS, 502, 503, 504})
_LONGEST_TEXT = 500
_BEFORE_NAME = re.compile(r".*[#:]", re.DOTALL)


class ClientError(Exception):
    """A request without a result; `hint` advises the user or is empty.

    `is_retryable` says whether the same request may succeed later. `retry_after` is the pause in
    seconds for which the node asks. `is_doubtful` says whether the node may have carried out the
    request nevertheless.
    """

    is_retryable = False
    is_doubtful = False
    retry_after = 0.0

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Unreachable(ClientError):
    """The URL gave no answer, a late answer, or an incomplete answer."""

    def __init__(
        self, message: str, hint: str = "", *, is_doubtful: bool, is_retryable: bool = True
    ) -> None:
        super().__init__(message, hint)
        self.is_doubtful = is_doubtful
        self.is_retryable = is_retryable


class BadAnswer(ClientError):
    """The answer is no answer of a Concord node."""

    def __init__(self, url: str, content: str) -> None:
        hint = "Check that the URL is a Concord node's."
        super().__init__(f"{url} answered with {content}.", hint)


class Refused(ClientError):
    """The node answered with an error; `retry_after` is the requested pause, in seconds."""

    def __init__(self, problem: Problem, *, retry_after: float = 0.0) -> None:
        super().__init__(problem.title, problem.detail)
        self.problem = problem
        self.retry_after = retry_after
        # The read has waited already, so a repetition would wait a second time.
        self.is_retryable = problem.status in _LATER and problem.name != "position_not_reached"
        self.is_doubtful = problem.status in _LATER - {_TOO_MANY_REQUESTS}


class CursorExpired(Refused):
    """The change log of the node does not reach back to the cursor, or is a different log."""


class CredentialUnusable(ClientError):
    """The request was not sent, since the client has no valid credential."""

    def __init__(
        self, message: str, hint: str = "", *, is_retryable: bool = False, retry_after: float = 0.0
    ) -> None:
        super().__init__(message, hint)
        self.is_retryable = is_retryable
        self.retry_after = retry_after


class ResponseTooLarge(aiohttp.ClientError):
    """A response has more bytes than the reader accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A rule that a request breaks, with the xid of the entity and the reason.

    `args` are the values that the title was made of, by name, such as the `name` of an attribute.
    """

    subject: str
    title: str
    type: str = ""
    detail: str = ""
    args: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def name(self) -> str:
        """The last part of the type, such as `mismatched_epoch`."""
        return _BEFORE_NAME.sub("", self.type)

    @classmethod
    def parse(cls, source: Mapping[str, Any]) -> Violation:
        args = source.get("args")
        return cls(**_texts(source), args=args if isinstance(args, dict) else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem(Violation):
    """The problem document with which a node refuses a request.

    `violations` is never empty: a problem that lists no violations is itself the only violation.
    """

    status: int
    violations: tuple[Violation, ...]

    @property
    def others(self) -> list[Violation]:
        """The violations except for the violation that the problem itself describes."""
        own = (self.type, self.subject, self.title)
        return [v for v in self.violations if (v.type, v.subject, v.title) != own]

    @classmethod
    def read(cls, status: int, body: bytes, reason: str) -> Problem:
        """Read a problem document, or make a problem of a body that is none."""
        with contextlib.suppress(orjson.JSONDecodeError):
            source = orjson.loads(body)
            if isinstance(source, dict) and "title" in source:
                return cls._of(status, source)
        text = body.decode(errors="replace").strip()
        title = f"The answer was {status} {reason}."
        return cls._of(status, {"title": title, "detail": text[:_LONGEST_TEXT]})

    @classmethod
    def _of(cls, status: int, source: Mapping[str, Any]) -> Problem:
        found = source.get("violations")
        listed = [
            Violation.parse(item)
            for item in (found if isinstance(found, list) else ())
            if isinstance(item, dict)
        ]
        violations = tuple(listed) or (Violation.parse(source),)
        args = source.get("args")
        return cls(
            **_texts(source),
            args=args if isinstance(args, dict) else {},
            status=status,
            violations=violations,
        )


def _texts(source: Mapping[str, Any]) -> dict[str, Any]:
    return {name: str(source.get(name, "")) for name in ("subject", "title", "type", "detail")}
