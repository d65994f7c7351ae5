"""The terms in which links are defined: modes, dialects, states, and texts that name entities."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal, Self
from urllib.parse import urlsplit

Mode = Literal["pull", "events", "push", "accept", "kafka", "publish", "walk", "write"]
Dialect = Literal["xregistry", "messagecatalog", "discovery", "registry04", "confluent"]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeTerms:
    """The common properties of the links of a mode.

    Args:
        needs: the mandatory member of a link: `source`, `target`, or `authority` if the source
            sends on its own.
        members: the optional members of a link, beside a scope and types.
        sends: the links send local entities; without `sends`, links bring remote entities.
        is_topic: the links lead to or from a topic of Kafka.
        is_told: the source reports from time to time that no changes were made.
        is_fixed: the links cannot be changed.
        is_nameless: the remote catalog names no authority, so that an operator may choose a name.
        drops: the entities that a link has brought can be dropped again.
        moves: the remote catalog may get a new URL.
    """

    needs: Literal["source", "target", "authority"]
    members: frozenset[str]
    sends: bool = False
    is_topic: bool = False
    is_told: bool = False
    is_fixed: bool = False
    is_nameless: bool = False
    drops: bool = True
    moves: bool = False

    def has(self, member: str) -> bool:
        """Whether links of the mode may have a member."""
        return member == self.needs or member in self.members or member in _OF_ALL


_OF_ALL = frozenset({"mode", "scope", "types"})
_NAMED_HERE = frozenset({"prefix", "map", "addresses"})
_WALKED = _NAMED_HERE | {"authority", "trust"}
_FOLLOWED = _WALKED | {"authorities"}
_PUSHED = frozenset({"authority", "authorities"})
MODE_TERMS: Mapping[Mode, ModeTerms] = {
    "pull": ModeTerms(needs="source", members=_FOLLOWED | {"labels"}, moves=True),
    "events": ModeTerms(needs="source", members=_FOLLOWED | {"labels", "eventtopic"}, moves=True),
    "accept": ModeTerms(
        needs="authority", members=_NAMED_HERE | {"authorities"}, is_told=True, is_fixed=True
    ),
    "kafka": ModeTerms(needs="source", members=_FOLLOWED, is_topic=True, is_told=True),
    "walk": ModeTerms(needs="source", members=_WALKED | {"dialect"}, is_nameless=True),
    "push": ModeTerms(needs="target", members=_PUSHED, sends=True, drops=False, moves=True),
    "publish": ModeTerms(
        needs="target",
        members=frozenset({"authorities"}),
        sends=True,
        is_topic=True,
        drops=False,
    ),
    "write": ModeTerms(needs="target", members=frozenset({"authorities", "dialect"}), sends=True),
}

DEFAULT_GROUP = "schemagroups/default"
"""The group of the default context of a registry of the Confluent API, at that registry."""
RELAY = ("*",)
TRUST_FIRST = "first"
"""Stands for the keys that a source shows at the first contact."""
TOPIC_SCHEMES = ("kafka", "kafkas")
"""The schemes of the URLs of topics."""

_AUTHORITY = re.compile(r"(?=.{3,1024}\Z)[A-Za-z][A-Za-z0-9+.-]*:[!-~]+")
_TYPE = re.compile(r"[a-z_][a-z0-9_]{0,62}(/[a-z_][a-z0-9_]{0,62})?")
_LABEL = re.compile(r"[a-z_][a-z0-9_.:\-]{0,62}(=[^\x00-\x1f\x7f]{0,256})?")
_SCOPE = re.compile(r"(/[A-Za-z0-9_][A-Za-z0-9\-._~:@]{0,127}){1,6}")


def names_in_context(name: str) -> tuple[str, dict[str, str]]:
    """The prefix and the map of a link that follows a registry of the Confluent API.

    `name` is the local context for the default context of the registry. The names of the other
    contexts of the registry get the prefix `<name>.` here.
    """
    return f"{name}.", {DEFAULT_GROUP: f"schemagroups/{name}"}


def context_for(source: str) -> str:
    """The context for a registry of the Confluent API that the operator has given no context."""
    parts = urlsplit(source)
    _, _, context = parts.path.rstrip("/").partition("/contexts/")
    words = [parts.hostname or "", str(parts.port or ""), context.lstrip(":.").rstrip(":")]
    name = "-".join(filter(None, words))
    return re.sub(r"[^A-Za-z0-9\-._]+", "-", name).strip("-.")[:63] or "registry"


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


_MINUTE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTraffic:
    """The traffic of a link: counters of copies by which the rate and the progress are told."""

    bytes: int = 0
    behind: int | None = None
    minuteat: datetime | None = None
    minutecopies: int = 0
    earliercopies: int = 0
    copyat: datetime | None = None
    copied: int = 0
    copyof: int | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        return cls(**{field.name: row[field.name] for field in fields(cls)})

    def rate(self, now: datetime) -> float:
        """The copies per second in the minute before `now`.

        Of the earlier of the two counted minutes, only the part within the minute before `now`
        counts.
        """
        if self.minuteat is None:
            return 0.0
        minutes = max(0.0, (now - self.minuteat).total_seconds() / _MINUTE)
        if minutes < 1:
            copies = self.minutecopies + self.earliercopies * (1 - minutes)
        else:
            copies = self.minutecopies * max(0.0, 2 - minutes)
        return copies / _MINUTE
