"""Verifies the signatures of digest rows, and gives a code to each row.

With Spark, the workers verify.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from catalog.keys.entitysignature import is_signed
from catalog.model.authoritykey import signed_copy
from replication.reconcile.signaturekeys import AuthorityKeys

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


@dataclass(frozen=True, slots=True)
class SignatureCheck:
    """Checks the signatures of copies by the keys of the authorities."""

    keys: Mapping[str, AuthorityKeys]

    @classmethod
    def of(cls, keys: Sequence[AuthorityKeys]) -> SignatureCheck:
        return cls({each.authority: each for each in keys})

    @classmethod
    def read(cls, written: Sequence[Mapping[str, Any]]) -> SignatureCheck:
        """Read a check back from the JSON values that the method `written` returns."""
        return cls.of(
            [
                AuthorityKeys(
                    authority=each["authority"],
                    keys={id: bytes.fromhex(key) for id, key in each["keys"].items()},
                    signs=each["signs"],
                    origin="",
                )
                for each in written
            ]
        )

    def written(self) -> list[dict[str, Any]]:
        """The check as JSON values, for a worker."""
        return [
            {
                "authority": each.authority,
                "keys": {id: key.hex() for id, key in each.keys.items()},
                "signs": each.signs,
            }
            for each in self.keys.values()
        ]

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
