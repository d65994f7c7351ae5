"""The callers for which the node reads and writes, and the groups that a caller may see or write.

Requests, links, commands on the node's machine and the tasks of the node are callers. Every read
and write has a caller, and a caller without restrictions is marked as one. The audit records the
author of a caller's writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, get_args

from catalog.model.errors import XRegistryError
from catalog.model.masking import MASK, printable

AuthorKind = Literal[
    "anonymous", "token", "jwt", "certificate", "link", "operator", "node", "others"
]

_LONGEST_NAME = 200
_LONGEST_PATH = 1000
_MOST_TARGETS = 20
# A node's own tokens, and JWTs, can end up in a name or a path by mistake.
_TOKEN = re.compile(
    r"concord_[A-Za-z0-9_-]{20,}|eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*", re.ASCII
)
# A text is cut with room to spare before masking: a mask is shorter than the hidden token, and an
# escape is longer than the hidden character.
_ROOM = 16


@dataclass(frozen=True, slots=True)
class PublishedAuthor:
    """The author of a change, as the authority of the entity publishes it; nothing proves it."""

    kind: AuthorKind
    name: str = ""
    issuer: str = ""

    @classmethod
    def read(cls, value: object) -> PublishedAuthor | None:
        """Read the author that another catalog tells; `None` for anything else."""
        if not isinstance(value, Mapping) or value.get("kind") not in get_args(AuthorKind):
            return None
        name, issuer = (value.get(part, "") for part in ("name", "issuer"))
        if not isinstance(name, str) or not isinstance(issuer, str):
            return None
        return cls(value["kind"], _harmless(name, _LONGEST_NAME), _harmless(issuer, _LONGEST_NAME))

    def members(self) -> dict[str, str]:
        """The members that have a value."""
        members = {"kind": self.kind, "name": self.name, "issuer": self.issuer}
        return {name: value for name, value in members.items() if value}


@dataclass(slots=True, kw_only=True)
class Author:
    """The caller of a request, a link, an operator on the node's machine, or the node itself.

    The texts are bounded and printable, and hold no token.

    Args:
        name: the name of the identity, the id of the link or the account of the operator.
        issuer: the issuer that vouches for the name; empty for the node.
        address: the address of the client, or the URL that the link reads.
        agent: the name that the client gives in the header User-Agent.
        method: the method of the request; empty without a request.
        path: the path of the request without the query, the path of the link, or the command of the
            operator.
        targets: the entities or objects made or changed, if missing in the request's path.
        is_published: whether the author is told with the changes, to followers, too.
        is_noted: whether the audit has a row about the request.
    """

    kind: AuthorKind
    name: str = ""
    issuer: str = ""
    address: str = ""
    agent: str = ""
    method: str = ""
    path: str = ""
    targets: list[str] = field(default_factory=list)
    is_published: bool = False
    is_noted: bool = False

    def __post_init__(self) -> None:
        self.name = _harmless(self.name, _LONGEST_NAME)
        self.issuer = _harmless(self.issuer, _LONGEST_NAME)
        self.address = _harmless(self.address, _LONGEST_NAME)
        self.agent = _harmless(self.agent, _LONGEST_NAME)
        self.path = _harmless(self.path, _LONGEST_PATH)

    @property
    def published(self) -> PublishedAuthor | None:
        """The author as told with the changes; `None` if not published."""
        return PublishedAuthor(self.kind, self.name, self.issuer) if self.is_published else None

    def name_target(self, target: str) -> None:
        if len(self.targets) < _MOST_TARGETS:
            self.targets.append(_harmless(target, _LONGEST_PATH))


def _harmless(text: str, most: int) -> str:
    if not text:
        return text
    # A lone surrogate has no form in UTF-8, which the database stores.
    known = text[: most * _ROOM].encode(errors="replace").decode()
    return printable(_TOKEN.sub(MASK, known))[:most]


class Everything(Enum):
    """The whole catalog, in place of rules that let a caller see or write groups."""

    EVERYTHING = "everything"


EVERYTHING: Final = Everything.EVERYTHING


@dataclass(frozen=True, slots=True)
class Visibility:
    """The rules that let a caller see groups with their content.

    The registry itself is always visible. Groups without a rule do not exist for the caller.
    """

    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteScope:
    """The rules that let a caller write to groups; writable groups are visible, too.

    Args:
        refusal_of: makes the error that refuses a write at a path outside of the groups.
    """

    rules: tuple[str, ...]
    refusal_of: Callable[[str], XRegistryError]


@dataclass(slots=True, kw_only=True)
class Caller:
    """A party for which the node reads and writes.

    Args:
        sees: the groups that the caller may see.
        writes: the groups in which the caller may write entities.
        client: the name of the client for fair shares of connections and work: an identity, an IPv4
            address or an IPv6 network of 64 bits; empty for the node's own tasks.
        make_author: makes the author of the caller's writes, on first use.
    """

    sees: Visibility | Everything
    writes: WriteScope | Everything
    client: str
    make_author: Callable[[], Author]
    _author: Author | None = field(default=None, init=False)

    @classmethod
    def unrestricted(cls, author: Author) -> Caller:
        """A caller without restrictions: a link, a command on the node's machine, or a task."""
        return cls(sees=EVERYTHING, writes=EVERYTHING, client="", make_author=lambda: author)

    @property
    def is_restricted(self) -> bool:
        """Whether rules limit the groups that the caller sees."""
        return self.sees is not EVERYTHING

    def sees_all_of(self, other: Caller) -> bool:
        """Whether the caller sees every group that `other` sees."""
        if self.sees is EVERYTHING:
            return True
        return other.sees is not EVERYTHING and {*other.sees.rules} <= {*self.sees.rules}

    @property
    def author(self) -> Author:
        """The author of the caller's writes."""
        if self._author is None:
            self._author = self.make_author()
        return self._author


def node_caller() -> Caller:
    """The node itself, as the caller for the reads and writes of its tasks."""
    return Caller.unrestricted(Author(kind="node"))
