"""Rewrites the members of a document's objects, and remembers what was done to each, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

# What cannot be rewritten is kept in this extension attribute of its entity, where it was.
OLDER = "older"
# An extension attribute of a document that this catalog wrote in an older edition: attributes
# that its entity has in the newest, null for none.
RC4_ATTRIBUTES = "rc4attributes"


@dataclass(frozen=True, slots=True)
class RewriteRule:
    """A way to rewrite: what holds now, and the last edition for which the old form was right.

    Without an edition the old form is a mistake in all of them. `is_evidence` tells whether only
    documents up to that edition have the old form: some have names that stand elsewhere now.
    """

    text: str
    edition: str | None = None
    is_evidence: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A change of a document: the JSON pointer of what was changed, and its old and new name
    or value; the new pointer of what went elsewhere.
    """

    pointer: str
    old: Any
    new: Any
    rule: RewriteRule


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """What has no newest form. `is_kept` tells whether it became part of an extension."""

    pointer: str
    value: Any
    reason: str
    is_kept: bool


@dataclass(slots=True)
class Rewriter:
    """What was done to a document so far. `stated` is the edition that it says it is of."""

    keep_unknown: bool = False
    stated: str | None = None
    rewrites: list[Rewrite] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    # Where a member of an object came from, if it was moved.
    origins: dict[tuple[int, str], str] = field(default_factory=dict)

    def forget_left_out(self, within: str) -> None:
        """What is below a pointer is there after all."""
        self.left_out = [left for left in self.left_out if not left.pointer.startswith(within)]


class DocumentPart:
    """An object of a document while it is rewritten.

    Args:
        members: the object, which changes.
        pointer: where it is in the document as it was given.
        entity: the entity that it belongs to, unless it is one.
    """

    __slots__ = ("entity", "members", "pointer", "trail")

    def __init__(
        self,
        members: dict[str, Any],
        pointer: str,
        trail: Rewriter,
        entity: DocumentPart | None = None,
    ) -> None:
        self.members = members
        self.pointer = pointer
        self.trail = trail
        self.entity = entity or self

    def where(self, name: str) -> str:
        """The pointer of a member, as it was given."""
        origin = self.trail.origins.get((id(self.members), name))
        return origin or f"{self.pointer}/{escaped(name)}"

    def inside(self, name: str) -> DocumentPart | None:
        """A member that is an object, as a part of this entity."""
        value = self.members.get(name)
        if not isinstance(value, dict):
            return None
        return DocumentPart(value, self.where(name), self.trail, self.entity)

    def opened(self, name: str) -> DocumentPart | None:
        """The same; it is made if there is none. `None` where it is something else."""
        self.members.setdefault(name, {})
        return self.inside(name)

    def parts(self) -> Iterator[tuple[str, DocumentPart]]:
        """The members that are objects."""
        for name in list(self.members):
            if (part := self.inside(name)) is not None:
                yield name, part

    def entities(self, name: str) -> Iterator[tuple[str, DocumentPart]]:
        """The entities in a collection."""
        collection = self.inside(name)
        for key, part in collection.parts() if collection is not None else ():
            part.entity = part
            yield key, part

    def rename(self, old: str, new: str, rule: RewriteRule) -> None:
        """Give a member its newer name."""
        self.move(old, self, new, rule)

    def move(self, old: str, to: DocumentPart, new: str, rule: RewriteRule) -> None:
        """Put a member elsewhere, unless something else is there already."""
        if old not in self.members or (to is self and old == new):
            return
        value = self.members[old]
        if new in to.members and to.members[new] != value:
            self.leave_out(old, f'"{new}" is there too, and differs')
            return
        pointer = self.where(old)
        del self.members[old]
        to.members[new] = value
        to.trail.origins[id(to.members), new] = pointer
        self._note(pointer, old, new if to is self else f"{to.pointer}/{escaped(new)}", rule)

    def set(self, name: str, value: Any, rule: RewriteRule) -> None:
        """Give a member another value; one that is missing is added."""
        old = self.members.get(name)
        if name not in self.members or old != value or type(old) is not type(value):
            self.members[name] = value
            self._note(self.where(name), old, value, rule)

    def drop(self, name: str, rule: RewriteRule) -> None:
        """Remove a member that says nothing that is not said elsewhere."""
        if name in self.members:
            self._note(self.where(name), self.members.pop(name), None, rule)

    def leave_out(self, name: str, reason: str) -> None:
        """Take out a member that has no newest form, and keep it aside if that is wanted."""
        if name not in self.members:
            return
        pointer, value = self.where(name), self.members.pop(name)
        is_kept = self.trail.keep_unknown and self.entity.keep(pointer, value)
        self.trail.left_out.append(
            LeftOut(pointer=pointer, value=value, reason=reason, is_kept=is_kept)
        )

    def keep(self, pointer: str, value: Any) -> bool:
        """Put a value into the extension of this entity, at the place that it had."""
        if RC4_ATTRIBUTES in self.members:
            return False
        *path, name = _names(pointer.removeprefix(self.pointer))
        place = self.members.setdefault(OLDER, {})
        for step in path:
            place = place.setdefault(step, {}) if isinstance(place, dict) else None
        if not isinstance(place, dict) or name in place:
            return False
        place[name] = value
        return True

    def _note(self, pointer: str, old: Any, new: Any, rule: RewriteRule) -> None:
        self.trail.rewrites.append(Rewrite(pointer=pointer, old=old, new=new, rule=rule))


def escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _names(pointer: str) -> list[str]:
    return [name.replace("~1", "/").replace("~0", "~") for name in pointer.split("/")[1:]]
