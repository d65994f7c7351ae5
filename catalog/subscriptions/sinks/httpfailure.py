"""Why a request to a sink has no answer.

PostFailure
  NoConnection      the sink cannot be reached, must not be connected to, or there is no TLS that
                    both sides accept
  NoAnswerInTime    the answer was not whole in time
  PostConnectionEnded   the sink ended the connection before its answer was whole
  NotHttp           the sink sent something else than an answer of HTTP/1.1
"""

from __future__ import annotations

from catalog.model.connectionfailure import why_unreachable
from catalog.model.masking import described


class PostFailure(Exception):
    """A request has no answer; `reason` tells a subscriber why, its text is for the log only."""

    reason: str


class NoConnection(PostFailure):
    def __init__(self, error: Exception) -> None:
        super().__init__(described(error))
        self.reason = f"the sink {why_unreachable(error)}"


class NoAnswerInTime(PostFailure):
    reason = "the sink did not answer in time"


class PostConnectionEnded(PostFailure):
    """The end of a connection; `is_unanswered` if no byte of an answer had come."""

    reason = "the sink did not answer as a whole"

    def __init__(self, text: str, *, is_unanswered: bool) -> None:
        super().__init__(text)
        self.is_unanswered = is_unanswered


class NotHttp(PostFailure):
    reason = "the answer of the sink is not HTTP"
