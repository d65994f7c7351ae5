"""Translates references to entities of the registry to the native form, and back.

A reference is a pointer into the registry's document, `#/definitionGroups/g`, or a URL of the
node. The native form of a pointer by a client of edition 0.4 is an xid; imported documents have
pointers with native names, `#/messagegroups/g`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from catalog.dialects.registry04.names import GROUP_TYPES, REGISTRY04_ROOT, has_names, path_of
from catalog.model.xid import Xid

# Some examples of the specification omit the last letter of a plural.
_PATH = re.compile(
    r"/(?P<groups>endpoints?|definitionGroups?|schemaGroups?)/(?P<gid>[^/]+)"
    r"(?:/(?P<resources>definitions?|schemas?)/(?P<rid>[^/]+)(?:/versions/(?P<vid>[^/]+))?)?"
)


@dataclass(frozen=True, slots=True)
class References:
    """Translates references to the registry; other references do not change.

    `bases` are the URLs of the node, without a trailing slash.
    """

    bases: tuple[str, ...] = ()

    def native(self, text: str, held: Iterable[Any] = ()) -> str:
        """The native form of a reference.

        Args:
            held: the present native references; a reference with the same meaning stays.
        """
        for before in held:
            if isinstance(before, str) and self.own(before) == text:
                return before
        # A JSON pointer writes ~ as ~0 (RFC 6901, section 3); ids have no slash to escape.
        if text.startswith("#/"):
            return _native_path(text[1:].replace("~0", "~")) or text
        for base in self.bases:
            if text.startswith(f"{base}{REGISTRY04_ROOT}/"):
                path = _native_path(text.removeprefix(base + REGISTRY04_ROOT))
                return base + path if path else text
        return text

    def own(self, text: str) -> str:
        """A reference in the form of edition 0.4."""
        pointed = text[1:].replace("~0", "~") if text.startswith("#/") else text
        if path := _own_path(pointed):
            return "#" + path.replace("~", "~0")
        for base in self.bases:
            if text.startswith(f"{base}/") and (path := _own_path(text.removeprefix(base))):
                return base + REGISTRY04_ROOT + path
        return text


def _native_path(path: str) -> str:
    """The native path of an entity; empty if the path leads to no entity."""
    found = _PATH.fullmatch(path)
    if found is None:
        return ""
    group, resource = GROUP_TYPES[found["groups"].removesuffix("s") + "s"]
    parts = ["", group.native, found["gid"]]
    if found["rid"]:
        if found["resources"].removesuffix("s") != resource.singular:
            return ""
        parts += [resource.native, found["rid"]]
    if found["vid"]:
        parts += ["versions", found["vid"]]
    native = "/".join(parts)
    return native if _entity(native) else ""


def _own_path(path: str) -> str:
    """The path of an entity by the names of edition 0.4; empty without such names."""
    xid = _entity(path)
    return path_of(xid) if xid is not None and has_names(xid) else ""


def _entity(path: str) -> Xid | None:
    try:
        xid = Xid.parse(path)
    except ValueError:
        return None
    return xid if xid.gid else None
