"""The signatures of copies: the keys of each authority, and the verification of digest rows.

Keys that a catalog trusts come first: operators named the keys, or saw the keys at the first
contact. The key histories from catalogs only continue trusted keys. Without trusted keys, the
history from the authority's own catalog counts, since the operator has named the catalog's URL, and
the catalog's copies are the reference of the comparison anyway. Without the own catalog, the latest
history from the remaining catalogs counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

import pyarrow as pa

from catalog.client import Client
from catalog.keys.entitysignature import is_signed
from catalog.model.authoritykey import KeyHistory, PublicKey, signed_copy
from catalog.operations.signing import (
    GET_SIGNING,
    LIST_TRUST,
    Signing,
    TrustedAuthority,
    TrustedKeyAnswer,
)
from replication.deciding.trust import is_consistent, is_endorsed
from replication.peers.keyhistories import fetch_histories
from replication.reconcile.catalogs import SurveyedCatalog

if TYPE_CHECKING:
    from replication.reconcile.inputs.nodeinput import NodeInput

REVOKED = b""
"""The value of a revoked key."""
UNCHECKED, VERIFIED, UNSIGNED = 0, 1, 2
"""Codes of copies: the first two codes are no findings; codes above `UNSIGNED` mean
forged, and the last code damaged."""
DETAILS = (
    "it has no signature, and its authority signs everything",
    "it was not signed by the key that it names, or its content was changed since",
    "its authority has revoked the key that signed it",
    "no key that counts as its authority's has signed it",
    "its stored digest is not that of its content",
)
"""The reasons of the codes from `UNSIGNED` on, in the order of the codes."""
_FALSE, _REVOKED, _UNKNOWN = UNSIGNED + 1, UNSIGNED + 2, UNSIGNED + 3
DAMAGED = UNSIGNED + 4
"""The code of a copy with content that is not that of its digest, whatever its signature."""


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


@dataclass(frozen=True, slots=True)
class SignatureCheck:
    """Checks the signatures of copies by the keys of the authorities."""

    keys: Mapping[str, AuthorityKeys]

    @classmethod
    def of(cls, keys: Sequence[AuthorityKeys]) -> SignatureCheck:
        return cls({each.authority: each for each in keys})

    def codes(self, rows: pa.RecordBatch) -> pa.Int8Array:
        """The code of each row; the verification of one row takes a tenth of a millisecond.

        Raises:
            ValueError: a digest or a signature is not hexadecimal.
        """
        names = ("authority", "digest", "signature", "signedby")
        columns = (rows.column(name).to_pylist() for name in names)
        return pa.array([self._code(*row) for row in zip(*columns, strict=True)], pa.int8())

    def _code(self, authority: str, digest: str, signature: str, signedby: str) -> int:
        known = self.keys.get(authority)
        if known is None:
            return UNCHECKED
        if not signature:
            return UNSIGNED if known.signs else UNCHECKED
        key = known.keys.get(signedby)
        # A revoked key is present but empty.
        if not key:
            return _UNKNOWN if key is None else _REVOKED
        signed = signed_copy(bytes.fromhex(digest))
        return VERIFIED if is_signed(key, signed, bytes.fromhex(signature)) else _FALSE


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToldKeys:
    """The answers of a catalog about keys.

    Args:
        signs: whether the catalog signs every entity.
        pinned: the trusted keys by authority and key id.
        histories: the key histories that the catalog knows.
    """

    catalog: str
    authority: str
    signs: bool
    pinned: Mapping[str, Mapping[str, bytes]] = field(repr=False)
    histories: Sequence[KeyHistory] = field(repr=False)


def survey_keys(catalogs: Sequence[SurveyedCatalog]) -> list[AuthorityKeys]:
    """Ask the nodes for keys, and check the answers; authorities without keys are left out.

    Raises:
        CatalogUnread
    """
    with ThreadPoolExecutor(max_workers=min(16, len(catalogs))) as pool:
        asked = pool.map(lambda each: each.node and _ask_one(each, each.node), catalogs)
        told = [each for each in asked if each is not None]
    authorities = {name for each in told for name in each.pinned}
    authorities |= {history.authority for each in told for history in each.histories}
    checked = (_check(authority, told) for authority in sorted(authorities))
    return [each for each in checked if each is not None]


def _ask_one(catalog: SurveyedCatalog, node: NodeInput) -> _ToldKeys:
    signing, trusted, histories = node.call(_ask)
    return _ToldKeys(
        catalog=catalog.name,
        authority=catalog.authority,
        # Until a catalog has signed its older entities, a missing signature is no fault.
        signs=signing.on and signing.complete,
        pinned={each.authority: dict(map(_read_pin, each.keys)) for each in trusted},
        histories=histories,
    )


async def _ask(client: Client) -> tuple[Signing, list[TrustedAuthority], list[KeyHistory]]:
    signing = await client.call(GET_SIGNING)
    return signing, (await client.call(LIST_TRUST)).trusted, await fetch_histories(client, None)


def _read_pin(shown: TrustedKeyAnswer) -> tuple[str, bytes]:
    public = PublicKey.parse(shown.key)
    return public.id, REVOKED if shown.revokedat else public.key


def _check(authority: str, told: Sequence[_ToldKeys]) -> AuthorityKeys | None:
    if pinning := [each for each in told if authority in each.pinned]:
        return AuthorityKeys(
            authority=authority,
            keys=_continued(authority, _pinned(authority, pinning), told),
            signs=True,
            origin=f"trusted by {' and '.join(each.catalog for each in pinning)}",
        )
    own = [each for each in told if each.authority == authority]
    history = _latest(authority, own or told)
    if history is None:
        return None
    teller = next(each.catalog for each in own or told if history in each.histories)
    return AuthorityKeys(
        authority=authority,
        keys={e.public.id: REVOKED if e.revokedat else e.public.key for e in history.keys},
        signs=any(each.signs for each in own),
        origin=f"told by {teller}",
    )


def _pinned(authority: str, pinning: Sequence[_ToldKeys]) -> dict[str, bytes]:
    """The keys that at least one catalog trusts; a key with a revocation is `REVOKED`."""
    keys: dict[str, bytes] = {}
    for each in pinning:
        for id, key in each.pinned[authority].items():
            # `REVOKED` is empty, so a revoked key stays revoked whatever the order of catalogs.
            keys[id] = key and keys.get(id, key)
    return keys


def _continued(
    authority: str, pinned: Mapping[str, bytes], told: Sequence[_ToldKeys]
) -> dict[str, bytes]:
    """Trusted keys, continued by the key histories that the catalogs know."""
    keys = dict(pinned)
    for history in sorted(_histories(authority, told), key=attrgetter("order")):
        # Each history has to continue a trusted key; a key from a history vouches for no history.
        for entry in history.keys if is_endorsed(history, pinned) else ():
            if entry.revokedat is not None:
                keys[entry.public.id] = REVOKED
            # A history may list a key that a catalog knows as revoked.
            keys.setdefault(entry.public.id, entry.public.key)
    return keys


def _latest(authority: str, told: Iterable[_ToldKeys]) -> KeyHistory | None:
    found = (each for each in _histories(authority, told) if is_consistent(each))
    return max(found, key=attrgetter("order"), default=None)


def _histories(authority: str, told: Iterable[_ToldKeys]) -> list[KeyHistory]:
    return [h for each in told for h in each.histories if h.authority == authority]
