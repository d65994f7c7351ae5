"""The class of an error of a link, under which its errors are counted. Pure."""

from __future__ import annotations

from http import HTTPStatus
from typing import Literal

from catalog.client import ClientError, CursorExpired, Refused, Unreachable
from replication.linkbounds import TooMuchSent
from replication.pacedclient import TooManyRequests

ErrorClass = Literal[
    "unreachable",
    "too_many",
    "unauthenticated",
    "forbidden",
    "refused",
    "faulty",
    "expired",
    "too_much",
    "unusable",
    "internal",
]
"""No answer or not a whole one; 429; 401; 403; another 4xx; 5xx; a cursor that the log no longer
reaches; more than a link may bring; an answer or a peer that the link cannot work with; a fault of
this node."""


def class_of(error: Exception | None) -> ErrorClass:
    """The class of an error; one that is none of its peer's is the node's own."""
    match error:
        case Unreachable():
            return "unreachable"
        case CursorExpired():
            return "expired"
        case Refused() if error.problem.status == HTTPStatus.TOO_MANY_REQUESTS:
            return "too_many"
        case TooManyRequests():
            return "too_many"
        case Refused() if error.problem.status == HTTPStatus.UNAUTHORIZED:
            return "unauthenticated"
        case Refused() if error.problem.status == HTTPStatus.FORBIDDEN:
            return "forbidden"
        case Refused():
            return "faulty" if error.problem.status >= 500 else "refused"
        case TooMuchSent():
            return "too_much"
        case ClientError():
            return "unusable"
        case _:
            return "internal"
