"""The reasons why a request to a sink has no answer.

PostFailure
  NoConnection      the sink cannot be reached, must not be connected to, or offers no TLS that
                    both sides accept
  NoAnswerInTime    the answer was not complete in time
  PostConnectionEnded   the sink ended the connection before the answer was complete
  NotHttp           the sink sent bytes that are not an answer of HTTP/1.1
"""

from __future__ import annotations

from catalog.model.connectionfailure import why_unreachable
from catalog.model.masking import described


class PostFailure(Exception):
    """A request without an answer; `reason` is for the subscriber, the text is for the log only."""

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
