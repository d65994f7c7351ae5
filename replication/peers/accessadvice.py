"""Advice for a peer that does not let a link in. Pure."""

from __future__ import annotations

from http import HTTPStatus

from catalog.client import Problem

_ROLES = "replicator, to follow or to push, or writer, to write by the standard API"
_SHOW = (
    "Give a token for it that has the role replicator there (--token-from, --tokens), or give a "
    "credential to a link that leads to it."
)
NO_LINK = ""
"""Stands for the id of a link where no link shows the credential."""
# The answer of a server of another make names no error.
_FORBIDDEN = frozenset({"forbidden", ""})


def another_credential(link: str = "ID") -> str:
    """The command that gives a link another credential."""
    return f"concord link credential {link} --token-from VARIABLE"


def access_advice(problem: Problem, link: str = "ID") -> str:
    """The advice for a peer's answer 401 or 403; empty if it is another one, or tells its own.

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
    """Whether a Concord node has not let a link in, so that it is no server of another make."""
    is_forbidden = problem.status == HTTPStatus.FORBIDDEN and problem.name == "forbidden"
    return problem.status == HTTPStatus.UNAUTHORIZED or is_forbidden
