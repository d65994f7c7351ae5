"""The `xid`, the path of an entity in a catalog, and the short form of the path.

Source: core/spec.md, "xid Attribute", "<SINGULAR>id (id) Attribute" and "`shortself` Attribute".
"""

from __future__ import annotations

import binascii
import functools
import hashlib
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Literal, NamedTuple

Kind = Literal["registry", "group", "resource", "version"]

ID_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9\-._~:@]{0,127}")
RESERVED_VERSION_IDS = frozenset({"null", "request"})

_KIND_BY_DEPTH: dict[int, Kind] = {0: "registry", 2: "group", 4: "resource", 6: "version"}
# Enough bytes of a hash to rule out collisions, and a multiple of 3: base64 adds no padding.
KEY_BYTES = 12


def is_valid_id(value: str) -> bool:
    """Whether `value` may be the id of a group, resource or version."""
    return ID_PATTERN.fullmatch(value) is not None


class Xid(NamedTuple):
    """The path of an entity: the registry if empty, a version if `vid` is set.

    The meta entity of a resource has the resource's `Xid`: both share a row.
    """

    groups: str = ""
    gid: str = ""
    resources: str = ""
    rid: str = ""
    vid: str = ""

    def __str__(self) -> str:
        if not self.gid:
            return "/"
        if not self.rid:
            return f"/{self.groups}/{self.gid}"
        if not self.vid:
            return f"/{self.groups}/{self.gid}/{self.resources}/{self.rid}"
        return f"/{self.groups}/{self.gid}/{self.resources}/{self.rid}/versions/{self.vid}"

    @property
    def kind(self) -> Kind:
        if self.vid:
            return "version"
        if self.rid:
            return "resource"
        return "group" if self.gid else "registry"

    @property
    def id(self) -> str:
        """The last id of the path; empty for the registry."""
        return self.vid or self.rid or self.gid

    @property
    def group(self) -> Xid:
        return Xid(self.groups, self.gid)

    @property
    def resource(self) -> Xid:
        return Xid(self.groups, self.gid, self.resources, self.rid)

    @property
    def parent(self) -> Xid:
        if self.vid:
            return self.resource
        return self.group if self.rid else Xid()

    def version(self, vid: str) -> Xid:
        return Xid(self.groups, self.gid, self.resources, self.rid, vid)

    def child(self, plural: str, id: str) -> Xid:
        """The entity `id` of the collection `plural` of the registry, group or resource."""
        if not self.gid:
            return Xid(plural, id)
        if not self.rid:
            return Xid(self.groups, self.gid, plural, id)
        return self.version(id)

    def collection(self, plural: str) -> str:
        """The path of the collection `plural` of the registry, group or resource."""
        return f"/{plural}" if not self.gid else f"{self}/{plural}"

    # Each xid is parsed many times on the way of a request, and is immutable.
    @staticmethod
    @functools.lru_cache(maxsize=1 << 16)
    def parse(text: str) -> Xid:
        """Read the path of a registry, group, resource or version; else raise a ValueError."""
        parts = text.split("/")[1:] if text != "/" else []
        well_formed = (
            text.startswith("/")
            and len(parts) in _KIND_BY_DEPTH
            and all(is_valid_id(part) for part in parts)
            and (len(parts) < 6 or parts[4] == "versions")
        )
        if not well_formed:
            raise ValueError(f"{text!r} is not the path of an entity")
        del parts[4:5]
        return Xid(*parts)


def collection_of(xid: Xid) -> str:
    """The path of the collection that holds an entity: `/messagegroups/g/messages`."""
    if xid.vid:
        return f"/{xid.groups}/{xid.gid}/{xid.resources}/{xid.rid}/versions"
    if xid.rid:
        return f"/{xid.groups}/{xid.gid}/{xid.resources}"
    return f"/{xid.groups}" if xid.gid else ""


def depth(xid: str) -> int:
    """The depth of `xid` below the root, to sort parents before their children."""
    return 0 if xid == "/" else xid.count("/")


def parent_of(xid: str) -> str:
    """The parent's path, empty for the registry; a valid `xid` needs no parsing."""
    return "" if xid == "/" else xid.rsplit("/", 2)[0] or "/"


def group_path(xid: str) -> str:
    """The path of the group that contains an entity; a group or the registry returns its own."""
    return "/".join(xid.split("/", 3)[:3])


def resource_of(xid: str) -> str:
    """The xid of the resource of a version; xids of further kinds are returned unchanged."""
    return "/".join(xid.split("/", 5)[:5])


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
