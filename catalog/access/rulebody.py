"""The bodies by which rules of access are made and changed, and the rules as answers show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from catalog.model.errors import (
    InvalidAttribute,
    RequiredAttributeMissing,
    UnknownAttribute,
)
from catalog.model.timestamps import format_time
from catalog.rolerules import Who
from catalog.roles import ROLES, WHOLE_CATALOG, Role, is_wild, parse_path
from catalog.store.accessrules import MOST_PATHS, MOST_WILD_PATHS, AccessRule

LONGEST_NAME = 128
MOST_VALUES = 2 * MOST_PATHS
"""The most values of a body, so that a large one is refused before it is read."""
_MEMBERS = ("who", "role", "paths")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleBody:
    """The content of a rule, in the form in which it is kept."""

    who: str
    role: Role
    paths: tuple[str, ...]

    def changed_by(self, subject: str, body: Any) -> RuleBody:
        """This rule with some members replaced.

        Raises:
            InvalidAttribute, UnknownAttribute
        """
        before: dict[str, Any] = {"who": self.who, "role": self.role, "paths": [*self.paths]}
        return read_rule(subject, {**before, **body} if isinstance(body, dict) else body)


def read_rule(subject: str, body: Any) -> RuleBody:
    """The rule that a body asks for.

    Raises:
        InvalidAttribute, UnknownAttribute, RequiredAttributeMissing
    """
    if not isinstance(body, dict):
        raise InvalidAttribute(subject, name="body", error_detail="it needs to be an object")
    for member in body:
        if member not in _MEMBERS:
            raise UnknownAttribute(subject, name=member[:LONGEST_NAME])
    for member in _MEMBERS:
        if not body.get(member):
            raise RequiredAttributeMissing(subject, list=member)
    return RuleBody(
        who=_read_who(subject, body["who"]),
        role=read_role(subject, "role", body["role"]),
        paths=_read_paths(subject, body["paths"]),
    )


def read_role(subject: str, name: str, given: Any) -> Role:
    """A role in the member `name` of a body.

    Raises:
        InvalidAttribute
    """
    for role in ROLES:
        if given == role:
            return role
    fault = f"a role is one of {', '.join(ROLES)}"
    raise InvalidAttribute(subject, name=name, error_detail=fault)


def read_path(subject: str, name: str, given: Any) -> str:
    """A path in the member `name` of a body; it may be that of the whole catalog.

    Raises:
        InvalidAttribute
    """
    try:
        return parse_path(given if isinstance(given, str) else "")
    except ValueError as error:
        raise InvalidAttribute(subject, name=name, error_detail=f"a path {error}") from error


def _read_who(subject: str, given: Any) -> str:
    try:
        return str(Who.parse(given if isinstance(given, str) else ""))
    except ValueError as error:
        raise InvalidAttribute(subject, name="who", error_detail=f"it {error}") from error


def _read_paths(subject: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or len(given) > MOST_PATHS:
        fault = f"they need to be a list of at most {MOST_PATHS} paths"
        raise InvalidAttribute(subject, name="paths", error_detail=fault)
    paths = tuple(dict.fromkeys(read_path(subject, "paths", each) for each in given))
    if WHOLE_CATALOG in paths:
        fault = (
            'a rule gives roles in groups: "/*/*" are all of them, and roles for the whole catalog '
            "are those of tokens and of the settings"
        )
        raise InvalidAttribute(subject, name="paths", error_detail=fault)
    if sum(map(is_wild, paths)) > MOST_WILD_PATHS:
        fault = f"at most {MOST_WILD_PATHS} of them may have wildcards"
        raise InvalidAttribute(subject, name="paths", error_detail=fault)
    return paths


def show_rule(rule: AccessRule, paths: Sequence[str]) -> dict[str, Any]:
    """A rule as answers and commands tell it.

    Args:
        paths: all of its paths, or the first ones.
    """
    return {
        "id": rule.id,
        "who": rule.who,
        "role": rule.role,
        "paths": [*paths],
        "pathscount": rule.pathscount,
        "createdat": format_time(rule.createdat),
        "createdby": rule.createdby,
    }
