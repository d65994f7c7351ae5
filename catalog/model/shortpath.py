"""Short paths of entities, derived from xids.

A registry, group or resource has its own key; paths below a resource begin with the resource's key.
Source: core/spec.md, "`shortself` Attribute".
"""

from __future__ import annotations

import binascii
import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode

# Enough bytes of a hash to rule out collisions, and a multiple of 3: base64 adds no padding.
KEY_BYTES = 12


def short_path(xid: str) -> str:
    """The short form of a path: `/~KEY`, followed by `/versions/1` or `/meta` if present."""
    if xid == "/":
        return "/~"
    parts = xid.split("/", 5)
    own, below = "/".join(parts[:5]), parts[5:]
    digest = hashlib.sha256(own.encode()).digest()[:KEY_BYTES]
    return "/".join([f"/~{urlsafe_b64encode(digest).decode()}", *below])


def key_in(text: str) -> bytes | None:
    """Decode the text after `/~` into the bytes of a key; `None` if the text is no key."""
    try:
        key = urlsafe_b64decode(text)
    except binascii.Error:
        return None
    return key if len(key) == KEY_BYTES else None
