"""The keys of an authority by which a comparison checks signatures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

REVOKED = b""
"""Stands for a key that was revoked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityKeys:
    """The keys of an authority by their ids, `REVOKED` among them.

    Args:
        signs: the authority signs everything, or a catalog trusts its keys: then copies without a
            signature are wrong.
        origin: who vouches for the keys, in words.
    """

    authority: str
    keys: Mapping[str, bytes]
    signs: bool
    origin: str
