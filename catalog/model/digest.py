"""Digest, fingerprint and bucket, by which copies of an entity are compared.

A digest covers the replicated content of an entity and nothing local to a node, so that every copy
in a federation has an equal digest. RFC 8785 (JCS) gives the canonical form.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson

from catalog.model.timestamps import format_time

DIGEST_VERSION = 1
BUCKETS = 1 << 16


def canonical(value: Any) -> bytes:
    """The RFC 8785 form of a JSON value.

    orjson writes identical bytes except for fractions, and is twenty times faster, so only
    fractions go to rfc8785. (JCS sorts keys by UTF-16 unit and orjson by code point; the orders
    differ above U+FFFF, so non-ASCII keys go to rfc8785, too, as do integers without an exact
    double.)

    Raises:
        ValueError: a number that has no exact double, or text that is not Unicode.
    """
    if _is_plain(value):
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    # Clients compute no digests, and do without the library.
    import rfc8785

    return rfc8785.dumps(value)


def _is_plain(value: Any) -> bool:
    waiting = [value]
    for item in waiting:
        kind = type(item)
        if kind is str or kind is bool or item is None:
            continue
        if kind is dict:
            if not "".join(item).isascii():
                return False
            waiting += item.values()
        elif kind is list:
            waiting += item
        elif kind is not int or not -(2**53) < item < 2**53:
            return False
    return True


def digest_entity(
    *,
    authority: str,
    origin: str,
    epoch: int,
    attributes: Mapping[str, Any],
    createdat: datetime,
    modifiedat: datetime,
    document_sha256: bytes | None,
) -> bytes:
    """The SHA-256 digest of a live entity, 32 bytes.

    Args:
        authority: URI of the catalog that controls the entity.
        origin: the entity's xid at its authority.
        epoch: the counter that only the authority raises.
        attributes: the entity's own attributes: no ids, URLs, counts or children.
        createdat: the authority's creation time.
        modifiedat: the authority's last modification time.
        document_sha256: SHA-256 of the version's document, `None` without a document.
    """
    created = format_time(createdat)
    form = {
        "attributes": dict(attributes),
        "authority": authority,
        "createdat": created,
        "deleted": False,
        "digestversion": DIGEST_VERSION,
        "document": document_sha256.hex() if document_sha256 is not None else None,
        "epoch": epoch,
        "modifiedat": created if modifiedat == createdat else format_time(modifiedat),
        "origin": origin,
    }
    return hashlib.sha256(canonical(form)).digest()


def digest_tombstone(*, authority: str, origin: str, epoch: int) -> bytes:
    """The SHA-256 digest of a deleted entity, 32 bytes; `epoch` is the tombstone's."""
    form = {
        "authority": authority,
        "deleted": True,
        "digestversion": DIGEST_VERSION,
        "epoch": epoch,
        "origin": origin,
    }
    # The form has no fractions and only ASCII names, so orjson writes canonical bytes.
    is_exact = epoch < 2**53
    written = orjson.dumps(form, option=orjson.OPT_SORT_KEYS) if is_exact else canonical(form)
    return hashlib.sha256(written).digest()


def fingerprint(digest: bytes) -> int:
    """The first 8 bytes of a digest as a signed, big-endian 64-bit integer."""
    return int.from_bytes(digest[:8], "big", signed=True)


def bucket(authority: str, origin: str) -> int:
    """The bucket of an origin, of 65,536."""
    return int.from_bytes(hashlib.sha256(f"{authority}\n{origin}".encode()).digest()[:2], "big")
