"""The identity of the caller that a request is of, and what it is permitted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from aiohttp import web

from catalog.model.concorderrors import Forbidden, Unauthenticated
from catalog.roles import Grant, Permission, Role, permitted_by, roles_with

IdentityKind = Literal["anonymous", "token", "jwt", "certificate"]

CHALLENGE = 'Bearer realm="concord"'
_HOW = (
    "Send a token with the header Authorization: Bearer TOKEN; `concord` sends that of "
    "CONCORD_TOKEN."
)


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller: how it is known, and what it may do.

    Args:
        name: the id of a token of the node's own, the subject of a JWT or of a certificate.
        issuer: who vouches for the name; empty for the node itself.
    """

    kind: IdentityKind
    name: str = ""
    issuer: str = ""
    grants: tuple[Grant, ...] = ()
    permissions: frozenset[Permission] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "permissions", permitted_by(self.grants))

    @property
    def roles(self) -> tuple[Role, ...]:
        return tuple(dict.fromkeys(grant.role for grant in self.grants))


EVERYBODY = Identity("anonymous", grants=(Grant("admin"),))
"""The caller of any request to a node that is open."""
IDENTITY: web.RequestKey[Identity] = web.RequestKey("identity", Identity)


def identity_of(request: web.Request) -> Identity:
    """The caller, once the request has passed the access control."""
    identity: Identity = request.get(IDENTITY, EVERYBODY)
    return identity


def demand(request: web.Request, permission: Permission) -> None:
    """Refuse a request whose caller may not do this; for what its path and method do not tell.

    Raises:
        Unauthenticated: the caller has shown no credential.
        Forbidden: it has, and is not permitted.
    """
    identity = identity_of(request)
    if permission in identity.permissions:
        return
    if identity.kind == "anonymous":
        raise unauthenticated(request, "it came without a credential")
    raise Forbidden(
        request.path,
        action=permission.value,
        roles=" or ".join(roles_with(permission)),
        identity=identity.name,
        detail=f"It has the roles: {', '.join(identity.roles) or 'none'}.",
    )


def unauthenticated(request: web.Request, fault: str, *, token: bool = False) -> Unauthenticated:
    """The refusal of a request whose caller is not known.

    Args:
        token: whether it came with a token, which is then what is wrong (RFC 6750, 3.1).
    """
    challenge = f'{CHALLENGE}, error="invalid_token"' if token else CHALLENGE
    return Unauthenticated(request.path, fault=fault, detail=_HOW, challenge=challenge)
