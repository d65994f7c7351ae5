"""Short paths of entities: the same for as long as an entity has its xid.

A registry, group or resource has a key of its own; what is below a resource is found from
there. Source: core/spec.md, "`shortself` Attribute".
"""

from __future__ import annotations

import binascii
import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode

# So many bytes of a hash that nobody finds two xids with the same, and no padding in base64.
KEY_BYTES = 12


def short_path(xid: str) -> str:
    """The short form of a path: `/~KEY`, and `/versions/1` or `/meta` where that follows."""
    if xid == "/":
        return "/~"
    parts = xid.split("/", 5)
    own, below = "/".join(parts[:5]), parts[5:]
    digest = hashlib.sha256(own.encode()).digest()[:KEY_BYTES]
    return "/".join([f"/~{urlsafe_b64encode(digest).decode()}", *below])


def key_in(text: str) -> bytes | None:
    """What `/~` is followed by, as the bytes of a key; `None` if it is none."""
    try:
        key = urlsafe_b64decode(text)
    except binascii.Error:
        return None
    return key if len(key) == KEY_BYTES else None
