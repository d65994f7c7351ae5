"""A caller: for whom the node reads and writes, with what the caller sees and may write.

Requests, links, commands on the node's machine and the tasks of the node are callers. Nothing is
read or written but for a caller, and a caller that sees everything says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from catalog.model.author import Author
from catalog.model.errors import XRegistryError


class Everything(Enum):
    """The whole catalog, in place of the rules that let a caller see or write some groups."""

    EVERYTHING = "everything"


EVERYTHING: Final = Everything.EVERYTHING


@dataclass(frozen=True, slots=True)
class Visibility:
    """The rules that let a caller see groups, with all that is in them.

    The registry itself is always visible. Everything else does not exist for the caller.
    """

    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteScope:
    """The rules that let a caller write to groups; the caller sees these groups, too.

    Args:
        refusal_of: makes the error that refuses to write at a path elsewhere.
    """

    rules: tuple[str, ...]
    refusal_of: Callable[[str], XRegistryError]


@dataclass(slots=True, kw_only=True)
class Caller:
    """For whom the node reads and writes.

    Args:
        sees: what the caller may see.
        writes: where the caller may write entities.
        client: names the client whose shares of connections and of work are used: an identity, an
            IPv4 address or an IPv6 network of 64 bits; empty for the node's own tasks.
        make_author: makes the author of what is written, once the author is needed.
    """

    sees: Visibility | Everything
    writes: WriteScope | Everything
    client: str
    make_author: Callable[[], Author]
    _author: Author | None = field(default=None, init=False)

    @classmethod
    def unrestricted(cls, author: Author) -> Caller:
        """A link, a command on the node's machine, or a task of the node: it sees everything."""
        return cls(sees=EVERYTHING, writes=EVERYTHING, client="", make_author=lambda: author)

    @property
    def is_restricted(self) -> bool:
        """Whether the caller sees some groups only."""
        return self.sees is not EVERYTHING

    def sees_all_of(self, other: Caller) -> bool:
        """Whether the caller sees at least what another caller sees."""
        if self.sees is EVERYTHING:
            return True
        return other.sees is not EVERYTHING and {*other.sees.rules} <= {*self.sees.rules}

    @property
    def author(self) -> Author:
        """The author of what is written for the caller."""
        if self._author is None:
            self._author = self.make_author()
        return self._author


def node_caller() -> Caller:
    """The node itself, as the caller of what its tasks read and write."""
    return Caller.unrestricted(Author(kind="node"))
