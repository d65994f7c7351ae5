"""The conditions by which callers get roles: the claims of a token, or of a certificate. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from catalog.model.roles import ROLES, Grant, Role

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
        """Read a rule.

        Raises:
            ValueError: the rule is malformed, or the role does not exist.
        """
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
        """Read a condition.

        Raises:
            ValueError
        """
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
    return _values(name, _claim(claims, name))


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


def _values(name: str, claim: Any) -> Iterator[str]:
    if isinstance(claim, bool):
        yield str(claim).lower()
    elif isinstance(claim, str):
        yield from claim.split() if name in _SPACED else (claim,)
    elif isinstance(claim, list | tuple):
        yield from (each for each in claim if isinstance(each, str))
