"""The creator of a subscription: what tells, long after its request, what it may see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

from catalog.model.rolerules import IdentityKind
from catalog.model.roles import Role

# What differs between two tokens of one caller, and says nothing of its rights.
_PASSING = frozenset({"exp", "iat", "nbf", "jti", "auth_time", "at_hash", "sid"})


@dataclass(frozen=True, slots=True)
class Creator:
    """A caller as it was known when it made, or took over, a subscription.

    Args:
        claims: what the conditions of rules compare.
        roles: those of a token of the node's own in the whole catalog, which never change.
    """

    kind: IdentityKind
    name: str = ""
    issuer: str = ""
    claims: Mapping[str, Any] = field(default_factory=dict)
    roles: tuple[Role, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Creator:
        """Read what `str` wrote."""
        stored = orjson.loads(text)
        return cls(**{**stored, "roles": tuple(stored["roles"])})

    def __str__(self) -> str:
        claims = {name: value for name, value in self.claims.items() if name not in _PASSING}
        return orjson.dumps({**asdict(self), "claims": claims}).decode()

    @property
    def principal(self) -> str:
        """The text by which it is found, the same for all its credentials."""
        return orjson.dumps([self.kind, self.issuer, self.name]).decode()


def token_principal(id: str) -> str:
    """The `principal` of the holder of a token of the node's own."""
    return Creator("token", id).principal
