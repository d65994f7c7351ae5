"""Errors of requests to a peer: in words, with advice, and as the state and the class of a link."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from http import HTTPStatus
from typing import Literal

import aiohttp

from catalog.client import (
    ClientError,
    CredentialUnusable,
    CursorExpired,
    Problem,
    Refused,
    Unreachable,
)
from catalog.model.connectionfailure import why_unreachable
from catalog.model.linkterms import State
from catalog.model.masking import described
from replication.peers.linkbounds import TooManyRequests, TooMuchSent

_LONGEST_TITLE = 300
_TLS_ADVICE = (
    "Name the authority of its certificate (`--ca-cert`) if this node's system does not trust it, "
    "and give the link the client certificate that it asks for (`--client-cert`)."
)

_ROLES = "replicator, to follow or to push, or writer, to write by the standard API"
_SHOW = (
    "Give a token for it that has the role replicator there (--token-from, --tokens), or give a "
    "credential to a link that leads to it."
)
NO_LINK = ""
"""Stands for the id of a link where no link shows the credential."""
# Servers of other software answer 403 without the name of an error.
_FORBIDDEN = frozenset({"forbidden", ""})
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

_BY_STATUS: Mapping[int, ErrorClass] = {
    HTTPStatus.UNAUTHORIZED: "unauthenticated",
    HTTPStatus.FORBIDDEN: "forbidden",
    HTTPStatus.TOO_MANY_REQUESTS: "too_many",
}


def another_credential(link: str = "ID") -> str:
    """The command that replaces the credential of a link."""
    return f"concord link set {link} --token-from VARIABLE"


def access_advice(problem: Problem, link: str = "ID") -> str:
    """The advice for a peer's answer 401 or 403; empty for other answers and more specific errors.

    Args:
        link: the id of the link; `NO_LINK` for a recovery or a handover.
    """
    is_refused = problem.status == HTTPStatus.UNAUTHORIZED or (
        problem.status == HTTPStatus.FORBIDDEN and problem.name in _FORBIDDEN
    )
    if link == NO_LINK and is_refused:
        return _SHOW
    if problem.status == HTTPStatus.UNAUTHORIZED:
        return (
            "Give the link a token that its other end knows (`concord token add --role "
            f"replicator` there), or another credential: {another_credential(link)}."
        )
    if is_refused:
        advice = f"What the link shows needs a role there: {_ROLES}"
        return f"{advice} ({another_credential(link)})."
    return ""


def is_kept_out(problem: Problem) -> bool:
    """Whether a Concord node refused the credential of a link, which rules out other software."""
    is_forbidden = problem.status == HTTPStatus.FORBIDDEN and problem.name == "forbidden"
    return problem.status == HTTPStatus.UNAUTHORIZED or is_forbidden


def class_of(error: Exception | None) -> ErrorClass:
    """The class of an error; an error that no peer caused is "internal"."""
    match error:
        case Unreachable():
            return "unreachable"
        case CursorExpired():
            return "expired"
        case CredentialUnusable():
            return "credential"
        case TooManyRequests():
            return "too_many"
        case Refused():
            status = error.problem.status
            return _BY_STATUS.get(status) or ("faulty" if status >= 500 else "refused")
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
    match class_of(error):
        case "unauthenticated" | "credential":
            return "unauthenticated"
        # A 403 with the name of another error is no matter of roles.
        case "forbidden" if isinstance(error, Refused) and access_advice(error.problem):
            return "forbidden"
        case _:
            return "refused"


def describe(error: ClientError, url: str, link: str = "ID") -> str:
    """An error of a request to a peer, in words for the operator of a link."""
    if isinstance(error, Refused):
        said = f"{url} answered {error.problem.status}: {error.message[:_LONGEST_TITLE]}"
        return f"{said} {access_advice(error.problem, link)}".strip()
    if isinstance(error, Unreachable) and _is_about_tls(error):
        return f"{url} {why_unreachable(error)}. {_TLS_ADVICE}"
    if isinstance(error, Unreachable):
        partly = "did not answer as a whole, or not in time"
        return f"{url} {partly if error.is_doubtful else why_unreachable(error)}."
    return f"{error.message} {error.hint}".strip()


def _is_about_tls(error: BaseException) -> bool:
    cause = error.__cause__
    if cause is None:
        return False
    return isinstance(cause, aiohttp.ClientSSLError | ssl.SSLError) or _is_about_tls(cause)


def cause_of(error: ClientError) -> str:
    """The cause of an error of a request to a peer, for the log."""
    return described(error.__cause__ or error)


def may_pass(error: ClientError) -> bool:
    """Whether an error may end without a change of the link or its source."""
    is_fault = isinstance(error, Refused) and error.problem.status >= 500
    return error.is_retryable or is_fault
