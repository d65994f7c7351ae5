"""Roles of callers, the permissions of each role, and the paths of grants. Pure."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal, get_args

Role = Literal["reader", "writer", "replicator", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
WHOLE_CATALOG = "/"
_WILDCARD = "*"
# Types and ids of groups, with few wildcards: each wildcard costs time when paths are compared.
PATH = re.compile(r"/([a-z_*][a-z0-9_*]{0,62})/([a-z0-9_*][a-z0-9\-._~:@*]{0,127})", re.ASCII)
_MOST_WILDCARDS = 8


class Permission(Enum):
    """A kind of action; the value names the action in words."""

    READ = "read the catalog"
    WRITE = "write to the catalog"
    SUBSCRIBE = "manage subscriptions"
    FOLLOW = "read the feed of the catalog"
    PUSH = "push copies to the catalog"
    REPLICATE = "replicate the catalog"
    GRANT = "grant roles in a group"
    ADMINISTER = "administer the node"


_READER = frozenset({Permission.READ})
_WRITER = _READER | {Permission.WRITE, Permission.SUBSCRIBE}
_REPLICATOR = _READER | {Permission.SUBSCRIBE, Permission.FOLLOW, Permission.PUSH}
# Readers, who may be everybody, have no subscriptions: each subscription costs deliveries.
PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    "reader": _READER,
    "writer": _WRITER,
    "replicator": _REPLICATOR | {Permission.REPLICATE},
    "admin": frozenset(Permission),
}
PATH_PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    "reader": _READER,
    "writer": _WRITER,
    "replicator": _REPLICATOR,
    "admin": _WRITER | {Permission.GRANT},
}
"""The permissions of roles at the paths of groups: none concerns the node as a whole."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A role at and below a path: the whole catalog, or groups (see `parse_path`)."""

    role: Role
    path: str = WHOLE_CATALOG


@dataclass(frozen=True, slots=True)
class RuleGrant:
    """A role at the paths of a rule in the database."""

    rule: str
    role: Role

    @property
    def permissions(self) -> frozenset[Permission]:
        return PATH_PERMISSIONS[self.role]


def permitted_by(grants: Iterable[Grant]) -> frozenset[Permission]:
    """The permissions in the whole catalog that several grants give together."""
    return frozenset[Permission]().union(
        *(PERMISSIONS[each.role] for each in grants if each.path == WHOLE_CATALOG)
    )


def roles_with(permission: Permission) -> tuple[Role, ...]:
    """The roles with a permission, least powerful first."""
    return tuple(role for role in ROLES if permission in PERMISSIONS[role])


def parse_path(text: str) -> str:
    """The path of a grant, in the stored form.

    A path is `/`, or `/GROUPTYPE/GROUPID` with `*` for zero or more characters of a part. Ids are
    equal without regard to case, so the stored form is in lower case.

    Raises:
        ValueError
    """
    path = text.lower() if text.isascii() else ""
    is_valid = PATH.fullmatch(path) and path.count(_WILDCARD) <= _MOST_WILDCARDS
    if path != WHOLE_CATALOG and not is_valid:
        raise ValueError(
            f'must be "/" or /GROUPTYPE/GROUPID, such as /schemagroups/contoso.*, with at most '
            f"{_MOST_WILDCARDS} wildcards"
        )
    return path


def is_wild(path: str) -> bool:
    """Whether a path may name several groups."""
    return _WILDCARD in path


def covers(path: str, xid: str) -> bool:
    """Whether the path of a grant names a group, or the group that contains an entity."""
    if path == WHOLE_CATALOG:
        return True
    _, plural, id, *_ = [*xid.lower().split("/", 3), "", ""]
    # The wildcard is the only character of a part that is special in a pattern of fnmatch.
    _, wanted_plural, wanted_id = path.split("/")
    return (
        id != ""
        and fnmatch.fnmatchcase(plural, wanted_plural)
        and fnmatch.fnmatchcase(id, wanted_id)
    )
