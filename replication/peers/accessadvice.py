"""Advice for a peer that refuses the credential of a link. Pure."""

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
# Servers of other software answer 403 without the name of an error.
_FORBIDDEN = frozenset({"forbidden", ""})


def another_credential(link: str = "ID") -> str:
    """The command that replaces the credential of a link."""
    return f"concord link credential {link} --token-from VARIABLE"


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
