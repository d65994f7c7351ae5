"""The terms in which links are defined: modes, dialects, states, and texts that name entities."""

from __future__ import annotations

import re
from typing import Literal

Mode = Literal["pull", "events", "push", "accept", "kafka", "publish", "walk", "write"]
Dialect = Literal["xregistry", "messagecatalog", "discovery", "registry04"]
State = Literal[
    "new",
    "copying",
    "behind",
    "current",
    "waiting",
    "unauthenticated",
    "forbidden",
    "refused",
    "asking",
    "paused",
]

RELAY = ("*",)
TRUST_FIRST = "first"
"""Stands for the keys that a source shows at the first contact."""
TOPIC_SCHEMES = ("kafka", "kafkas")
"""The schemes of the URLs of topics."""

_AUTHORITY = re.compile(r"(?=.{3,1024}\Z)[A-Za-z][A-Za-z0-9+.-]*:[!-~]+")
_TYPE = re.compile(r"[a-z_][a-z0-9_]{0,62}(/[a-z_][a-z0-9_]{0,62})?")
_LABEL = re.compile(r"[a-z_][a-z0-9_.:\-]{0,62}(=[^\x00-\x1f\x7f]{0,256})?")
_SCOPE = re.compile(r"(/[A-Za-z0-9_][A-Za-z0-9\-._~:@]{0,127}){1,6}")


def is_authority(text: object) -> bool:
    """Whether a text may be an authority, which operators read and copy, and requests carry."""
    return isinstance(text, str) and _AUTHORITY.fullmatch(text) is not None


def is_scope(path: str) -> bool:
    """Whether `path` may be the path of a collection or an entity."""
    return _SCOPE.fullmatch(path) is not None


def is_type(text: str) -> bool:
    """Whether `text` may be the type of groups, or of resources in groups of a type."""
    return _TYPE.fullmatch(text) is not None


def is_label(text: str) -> bool:
    """Whether `text` may select by a label, as `name` or `name=value`."""
    return _LABEL.fullmatch(text) is not None
