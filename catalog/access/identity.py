"""The identity of the caller of a request, and the permissions of the identity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from aiohttp import web

from catalog.model.caller import EVERYTHING, Everything, Visibility, WriteScope
from catalog.model.concorderrors import Forbidden, Unauthenticated
from catalog.model.errors import XRegistryError
from catalog.model.roles import (
    WHOLE_CATALOG,
    Grant,
    IdentityKind,
    Permission,
    Role,
    RuleGrant,
    permitted_by,
    roles_with,
)

CHALLENGE = 'Bearer realm="concord"'
_HOW = (
    "Send a token with the header Authorization: Bearer TOKEN; `concord` sends that of "
    "CONCORD_TOKEN."
)


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller, identified by a credential, with permissions.

    Args:
        name: the id of a token of the node, or the subject of a JWT or of a certificate.
        issuer: the issuer who vouches for the name; empty for the node itself.
        claims: the values that the conditions of rules compare.
        rules: the rules that give roles in groups; looked up only if the permissions in the whole
            catalog do not suffice for the request.
    """

    kind: IdentityKind
    name: str = ""
    issuer: str = ""
    grants: tuple[Grant, ...] = ()
    claims: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    rules: tuple[RuleGrant, ...] = ()
    permissions: frozenset[Permission] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "permissions", permitted_by(self.grants))

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".strip()

    def may(self, permission: Permission) -> bool:
        """Whether the caller has a permission in the whole catalog or in at least one group."""
        return permission in self.permissions or bool(self.rules_with(permission))

    def rules_with(self, permission: Permission) -> tuple[str, ...]:
        """The rules that give a permission in their groups."""
        return tuple(each.rule for each in self.rules if permission in each.permissions)

    @property
    def visibility(self) -> Visibility | Everything:
        """The entities that the caller may see."""
        if Permission.READ in self.permissions:
            return EVERYTHING
        return Visibility(self.rules_with(Permission.READ))

    def scope_of(self, permission: Permission) -> WriteScope | Everything:
        """The groups in which the caller has a permission to write."""
        if permission in self.permissions:
            return EVERYTHING
        refusal_of = partial(refusal_at, self, permission)
        return WriteScope(self.rules_with(permission), refusal_of)

    @property
    def roles_in_all(self) -> tuple[Role, ...]:
        """The roles of the caller in the whole catalog."""
        return tuple(each.role for each in self.grants if each.path == WHOLE_CATALOG)

    @property
    def roles(self) -> tuple[Role, ...]:
        roles = [each.role for each in self.grants] + [each.role for each in self.rules]
        return tuple(dict.fromkeys(roles))


EVERYBODY = Identity("anonymous", grants=(Grant("admin"),))
"""The caller of every request to an open node."""
IDENTITY: web.RequestKey[Identity] = web.RequestKey("identity", Identity)


def identity_of(request: web.Request) -> Identity:
    """The caller of a request; everybody if the access control has stored no identity."""
    # It stores none on an open node, for an operation without a caller, and for a caller whose
    # credentials are refused: the error answer and the audit log ask for the identity, too.
    identity: Identity = request.get(IDENTITY, EVERYBODY)
    return identity


def demand(request: web.Request, permission: Permission) -> None:
    """Refuse a request whose caller has the permission in no group.

    A caller may have the permission in certain groups only; the handler checks the group.

    Raises:
        Unauthenticated: the caller has shown no credential.
        Forbidden: the caller has shown a credential without the permission.
    """
    identity = identity_of(request)
    if identity.may(permission):
        return
    if identity.kind == "anonymous":
        raise unauthenticated(request, "it came without a credential")
    detail = f"It has the roles: {', '.join(identity.roles) or 'none'}."
    raise _forbidden(identity, permission, request.path, permission.value, detail)


def refusal_at(identity: Identity, permission: Permission, path: str) -> XRegistryError:
    """The refusal of a permission that the caller has in certain groups, but not at a path."""
    if identity.kind == "anonymous":
        fault = f"it came without a credential, and concerns {path}"
        return Unauthenticated(path, fault=fault, detail=_HOW, challenge=CHALLENGE)
    detail = "Its roles are for other groups; `concord whoami` lists them."
    return _forbidden(identity, permission, path, f"{permission.value} at {path}", detail)


def _forbidden(
    identity: Identity, permission: Permission, subject: str, action: str, detail: str
) -> Forbidden:
    roles = " or ".join(roles_with(permission))
    return Forbidden(subject, action=action, roles=roles, identity=identity.name, detail=detail)


def unauthenticated(request: web.Request, fault: str, *, token: bool = False) -> Unauthenticated:
    """The refusal of a request from an unknown caller.

    Args:
        token: whether the request came with a token, so that the token is wrong (RFC 6750, 3.1).
    """
    challenge = f'{CHALLENGE}, error="invalid_token"' if token else CHALLENGE
    return Unauthenticated(request.path, fault=fault, detail=_HOW, challenge=challenge)
