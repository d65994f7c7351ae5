"""The keys of an authority, for checking signatures in a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

REVOKED = b""
"""The value of a revoked key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityKeys:
    """The keys of an authority.

    Args:
        keys: the public keys by id; a revoked key is `REVOKED`.
        signs: whether copies need a signature, because the authority signs every entity, or a
            catalog trusts keys of the authority.
        origin: a description of the catalogs that vouch for the keys.
    """

    authority: str
    keys: Mapping[str, bytes]
    signs: bool
    origin: str
