"""The state of a link after an error, and the class under which the error is counted. Pure."""

from __future__ import annotations

from http import HTTPStatus
from typing import Literal

from catalog.client import ClientError, CredentialUnusable, CursorExpired, Refused, Unreachable
from catalog.model.linkterms import State
from replication.peers.accessadvice import access_advice
from replication.peers.handshake import may_pass
from replication.peers.linkbounds import TooMuchSent
from replication.peers.pacedclient import TooManyRequests

ErrorClass = Literal[
    "unreachable",
    "too_many",
    "unauthenticated",
    "forbidden",
    "credential",
    "refused",
    "faulty",
    "expired",
    "too_much",
    "unusable",
    "internal",
]
"""In order: no answer or an incomplete answer; 429; 401; 403; no valid credential to show; a
different 4xx; 5xx; a cursor that the log no longer reaches; more than a link may bring; an answer
or a peer that the link cannot work with; a fault of this node."""


def class_of(error: Exception | None) -> ErrorClass:
    """The class of an error; an error that no peer caused is "internal"."""
    match error:
        case Unreachable():
            return "unreachable"
        case CursorExpired():
            return "expired"
        case CredentialUnusable():
            return "credential"
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


def state_of(error: ClientError | None) -> State:
    """The state in which a link waits after an error; `None` stands for a fault of the node."""
    if error is None or may_pass(error):
        return "waiting"
    if isinstance(error, CredentialUnusable):
        return "unauthenticated"
    if isinstance(error, Refused) and access_advice(error.problem):
        is_unknown = error.problem.status == HTTPStatus.UNAUTHORIZED
        return "unauthenticated" if is_unknown else "forbidden"
    return "refused"
