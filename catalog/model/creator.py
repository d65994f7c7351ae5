"""The creator of a subscription, stored to decide later what the subscription may deliver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

from catalog.model.rolerules import IdentityKind
from catalog.model.roles import Role

# Claims that differ between tokens of a caller and say nothing about rights.
_PASSING = frozenset({"exp", "iat", "nbf", "jti", "auth_time", "at_hash", "sid"})


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
