"""Remedies for a peer that does not let a link in. Pure."""

from __future__ import annotations

from http import HTTPStatus

from catalog.client import Problem

_TOKEN = "concord link set ID --token-from VARIABLE"


def access_remedy(problem: Problem) -> str:
    """The remedy for a peer's answer 401 or 403; empty if it is another one, or tells its own."""
    if problem.status == HTTPStatus.UNAUTHORIZED:
        return f"Give the link a token that its other end knows: {_TOKEN}."
    if problem.status == HTTPStatus.FORBIDDEN and problem.name == "forbidden":
        roles = "replicator, to follow or to push, or writer, to write by the standard API"
        return f"Its token needs a role there: {roles} ({_TOKEN})."
    return ""
