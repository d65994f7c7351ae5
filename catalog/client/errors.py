"""Errors of requests to a node.

ClientError
├── Unreachable         no answer, not in time, or not a whole one
├── Refused             the answer is an error; `problem` is its document
│   └── CursorExpired   the change log does not reach back to the cursor
└── BadAnswer           the answer is not one of a Concord node
"""

from __future__ import annotations

import aiohttp

from catalog.client.problem import Problem

_GONE = 410
_TOO_MANY_REQUESTS = 429
_LATER = frozenset({_TOO_MANY_REQUESTS, 502, 503, 504})


class ClientError(Exception):
    """A request without a result. `hint` says what to do about it, if that is known.

    `is_retryable` says whether the same request may succeed later, and `retry_after` after how
    many seconds if the node asks for a pause. `is_doubtful` says whether the node may have
    carried out the request all the same.
    """

    is_retryable = False
    is_doubtful = False
    retry_after = 0.0

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Unreachable(ClientError):
    """There is no answer from the URL, not in time, or not a whole one."""

    def __init__(
        self, message: str, hint: str = "", *, is_doubtful: bool, is_retryable: bool = True
    ) -> None:
        super().__init__(message, hint)
        self.is_doubtful = is_doubtful
        self.is_retryable = is_retryable


class BadAnswer(ClientError):
    """The answer is not one of a Concord node."""

    def __init__(self, url: str, content: str) -> None:
        hint = "Check that the URL is a Concord node's."
        super().__init__(f"{url} answered with {content}.", hint)


class Refused(ClientError):
    """The node's answer is an error. `retry_after` is the pause that it asks for, in seconds."""

    def __init__(self, problem: Problem, *, retry_after: float = 0.0) -> None:
        super().__init__(problem.title, problem.detail)
        self.problem = problem
        self.retry_after = retry_after
        self.is_retryable = problem.status in _LATER
        self.is_doubtful = problem.status in _LATER - {_TOO_MANY_REQUESTS}


class CursorExpired(Refused):
    """The node's change log does not reach back to the cursor, or is another one."""


def refusal(problem: Problem, retry_after: float) -> Refused:
    kind = CursorExpired if problem.status == _GONE else Refused
    return kind(problem, retry_after=retry_after)


class AddressRefused(OSError):
    """A session does not connect to an address, since that is not a public one."""


class ResponseTooLarge(aiohttp.ClientError):
    """A response has more bytes than its reader accepts."""
