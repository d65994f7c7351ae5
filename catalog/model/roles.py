"""Roles of callers, the paths and permissions of grants, and the rules by which callers get roles.

A rule compares the claims of a token, or of a certificate. Pure.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, Literal, get_args

import orjson

Role = Literal["reader", "writer", "replicator", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
WHOLE_CATALOG = "/"
_WILDCARD = "*"
# Types and ids of groups, with few wildcards: each wildcard costs time when paths are compared.
PATH = re.compile(r"/([a-z_*][a-z0-9_*]{0,62})/([a-z0-9_*][a-z0-9\-._~:@*]{0,127})", re.ASCII)
_MOST_WILDCARDS = 8
IdentityKind = Literal["anonymous", "token", "jwt", "certificate"]

ANY = "*"
ANONYMOUS = "anonymous"
TOKEN = "token"
ISSUER = "iss"
CERTIFICATE_NAMES = frozenset({"cn", "o", "ou", "dns", "uri", "email"})
LONGEST_WHO = 1024
_MOST_CONDITIONS = 16
# Claims with values separated by spaces (RFC 8693, 4.2; "scp" is Microsoft's). The remaining claims
# are not split: a user who may choose a display name must not choose a role by the name.
_SPACED = frozenset({"scope", "scp"})
# Claims that differ between tokens of a caller and say nothing about rights.
_PASSING = frozenset({"exp", "iat", "nbf", "jti", "auth_time", "at_hash", "sid"})


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
    """The path of a grant, in the stored form; any other text is a ValueError.

    A path is `/`, or `/GROUPTYPE/GROUPID` with `*` for zero or more characters of a part. Ids are
    equal without regard to case, so the stored form is in lower case.
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


@dataclass(frozen=True, slots=True)
class RoleRule:
    """A role for callers with certain values of claims: `writer:scope=catalog.write`.

    Conditions are separated by `&`; `*` is any value. A name with dots leads into a claim that is
    an object, unless a claim has the whole name: `admin:realm_access.roles=admins`.
    """

    role: Role
    conditions: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, text: str) -> RoleRule:
        """Read a rule; a malformed rule, or a role that does not exist, is a ValueError."""
        role, _, rest = text.partition(":")
        conditions = tuple(_condition(each) for each in rest.split("&"))
        if role not in ROLES or not all(name and value for name, value in conditions):
            shape = "ROLE:CLAIM=VALUE, such as writer:scope=catalog.write"
            raise ValueError(f"must be {shape}, with a role of {', '.join(ROLES)}")
        return cls(role, conditions)

    def is_met_by(self, claims: Mapping[str, Any]) -> bool:
        return all(_has(claims, name, value) for name, value in self.conditions)

    def names(self, claim: str) -> set[str]:
        """The values that the rule requires of a claim."""
        return {value for name, value in self.conditions if name == claim}


@dataclass(frozen=True, slots=True)
class Who:
    """A condition on callers, in one of four forms.

    - `anonymous`: a caller without a credential;
    - `token=ID`: the holder of a node's own token;
    - `iss=ISSUER&CLAIM=VALUE`: a JWT of the issuer with the claims;
    - `cn=NAME&o=NAME`: a certificate with the names.
    """

    kind: IdentityKind
    conditions: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Who:
        """Read a condition; a malformed condition is a ValueError."""
        if text == ANONYMOUS:
            return cls("anonymous")
        # Cut before the split, so that a long text costs little; the length is checked below.
        conditions = tuple(_condition(each) for each in text[:LONGEST_WHO].split("&"))
        names = {name for name, _ in conditions}
        is_whole = all(name and value for name, value in conditions)
        if len(text) > LONGEST_WHO or len(conditions) > _MOST_CONDITIONS or not is_whole:
            raise ValueError(_FORMS)
        if TOKEN in names and (len(conditions) > 1 or conditions[0][1] == ANY):
            raise ValueError("token=ID needs the id of one token, and no other condition beside it")
        if TOKEN in names:
            return cls("token", conditions)
        if ISSUER in names:
            # Two issuers may give equal claims to different people.
            if (ISSUER, ANY) in conditions or len(names) < 2:
                raise ValueError("iss=ISSUER needs one issuer, and a claim of its tokens beside it")
            return cls("jwt", conditions)
        if not names <= CERTIFICATE_NAMES:
            raise ValueError(_FORMS)
        return cls("certificate", conditions)

    def __str__(self) -> str:
        return "&".join(f"{name}={value}" for name, value in self.conditions) or self.kind

    def is_met_by(self, kind: IdentityKind, claims: Mapping[str, Any]) -> bool:
        return kind == self.kind and all(_has(claims, *each) for each in self.conditions)


_FORMS = (
    "must be anonymous, token=ID, iss=ISSUER&CLAIM=VALUE for the claims of a JWT, or names of a "
    f"certificate ({', '.join(sorted(CERTIFICATE_NAMES))}) as cn=NAME&o=NAME"
)


def grants_from(rules: Iterable[RoleRule], claims: Mapping[str, Any]) -> tuple[Grant, ...]:
    """The grants that rules give to a caller with certain claims."""
    roles = dict.fromkeys(rule.role for rule in rules if rule.is_met_by(claims))
    return tuple(map(Grant, roles))


def _condition(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip(), value.strip()


def values_of(claims: Mapping[str, Any], name: str) -> Iterator[str]:
    """The values of a claim that conditions compare."""
    claim = _claim(claims, name)
    if isinstance(claim, bool):
        yield str(claim).lower()
    elif isinstance(claim, str):
        yield from claim.split() if name in _SPACED else (claim,)
    elif isinstance(claim, list | tuple):
        yield from (each for each in claim if isinstance(each, str))


def _has(claims: Mapping[str, Any], name: str, wanted: str) -> bool:
    values = [*values_of(claims, name)]
    return bool(values) if wanted == ANY else wanted in values


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(part)
    return found


@dataclass(frozen=True, slots=True)
class Creator:
    """A caller, as known when the caller made or took over a subscription.

    Args:
        claims: the claims that the conditions of rules compare.
        roles: the roles of a node's own token in the whole catalog, which never change.
    """

    kind: IdentityKind
    name: str = ""
    issuer: str = ""
    claims: Mapping[str, Any] = field(default_factory=dict)
    roles: tuple[Role, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Creator:
        """Parse the text that `str` returns."""
        stored = orjson.loads(text)
        return cls(**{**stored, "roles": tuple(stored["roles"])})

    def __str__(self) -> str:
        claims = {name: value for name, value in self.claims.items() if name not in _PASSING}
        return orjson.dumps({**asdict(self), "claims": claims}).decode()

    @property
    def principal(self) -> str:
        """The text by which the caller is found, the same for each of the caller's credentials."""
        return orjson.dumps([self.kind, self.issuer, self.name]).decode()


def token_principal(id: str) -> str:
    """The `principal` of the holder of a node's own token."""
    return Creator("token", id).principal
