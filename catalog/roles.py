"""Roles of callers, and what each of them permits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal, get_args

Role = Literal["reader", "writer", "replicator", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
WHOLE_CATALOG = "/"


class Permission(Enum):
    """A kind of action; the value names it in words."""

    READ = "read the catalog"
    WRITE = "write to the catalog"
    SUBSCRIBE = "manage subscriptions"
    REPLICATE = "replicate the catalog"
    ADMINISTER = "administer the node"


# A subscription belongs to nobody yet, so readers, who may be everybody, must not end others'.
PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    "reader": frozenset({Permission.READ}),
    "writer": frozenset({Permission.READ, Permission.WRITE, Permission.SUBSCRIBE}),
    "replicator": frozenset({Permission.READ, Permission.SUBSCRIBE, Permission.REPLICATE}),
    "admin": frozenset(Permission),
}


@dataclass(frozen=True, slots=True)
class Grant:
    """A role, for what is at or below a path: for now, the path is that of the whole catalog."""

    role: Role
    path: str = WHOLE_CATALOG


def permitted_by(grants: Iterable[Grant]) -> frozenset[Permission]:
    """The permissions of several grants together."""
    return frozenset[Permission]().union(*(PERMISSIONS[each.role] for each in grants))


def roles_with(permission: Permission) -> tuple[Role, ...]:
    """The roles that permit something, the least one first."""
    return tuple(role for role in ROLES if permission in PERMISSIONS[role])
