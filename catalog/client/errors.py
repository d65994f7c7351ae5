"""Why a request brought no result.

ClientError
├── Unreachable     nothing answers at the URL, or not in time
├── Refused         the node's answer is an error; `problem` is its document
└── BadAnswer       what answers is not a node of Concord
"""

from __future__ import annotations

from catalog.client.problem import Problem

_TOO_MANY_REQUESTS = 429
_LATER = frozenset({_TOO_MANY_REQUESTS, 502, 503, 504})


class ClientError(Exception):
    """A request that brought no result. `hint` says what to do about it, if that is known.

    `is_retryable` says whether the same request may succeed later. `is_doubtful` says whether
    the node may have done what was asked although it did not say so.
    """

    is_retryable = False
    is_doubtful = False

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Unreachable(ClientError):
    """Nothing answers at the URL, or not in time."""

    is_retryable = True

    def __init__(self, message: str, hint: str = "", *, is_doubtful: bool) -> None:
        super().__init__(message, hint)
        self.is_doubtful = is_doubtful


class BadAnswer(ClientError):
    """The answer is not what a node of Concord would say."""

    def __init__(self, url: str, what: str) -> None:
        super().__init__(f"{url} answered with {what}.", "Check that the URL is a Concord node's.")


class Refused(ClientError):
    """The node's answer is an error. `retry_after` is the pause that it asks for, in seconds."""

    def __init__(self, problem: Problem, *, retry_after: float = 0.0) -> None:
        super().__init__(problem.title, problem.detail)
        self.problem = problem
        self.retry_after = retry_after
        self.is_retryable = problem.status in _LATER
        self.is_doubtful = problem.status in _LATER - {_TOO_MANY_REQUESTS}
