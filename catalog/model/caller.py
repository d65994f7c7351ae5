"""The callers for which the node reads and writes, and the groups that a caller may see or write.

Requests, links, commands on the node's machine and the tasks of the node are callers. Every read
and write has a caller, and a caller without restrictions is marked as one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from catalog.model.author import Author
from catalog.model.errors import XRegistryError


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
