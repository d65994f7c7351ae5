"""Rewrites the members of a document's objects, and records each rewrite with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

# The extension attribute that keeps members of an entity which cannot be rewritten.
OLDER = "older"
# The extension attribute of documents that were written in an older edition: attributes that
# the entity has in the newest edition; null for one that it has not.
RC4_ATTRIBUTES = "rc4attributes"


@dataclass(frozen=True, slots=True)
class RewriteRule:
    """A reason to rewrite.

    Args:
        text: the form of the newest edition, in words.
        edition: the last edition in which the older form was right; `None` for a form that is a
            mistake in every edition.
        is_evidence: only documents up to that edition have the older form.
    """

    text: str
    edition: str | None = None
    is_evidence: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A change of a document.

    Args:
        pointer: the JSON pointer of the member before the change.
        old: its old name or value.
        new: its new name or value, or its new pointer if it moved to another object.
    """

    pointer: str
    old: Any
    new: Any
    rule: RewriteRule


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A member without a form in the newest edition. `is_kept` in the extension `older`."""

    pointer: str
    value: Any
    reason: str
    is_kept: bool


@dataclass(slots=True)
class Rewriter:
    """The rewrites of one document, which states that it is of edition `stated`.

    `base` is the URL of its registry, if the document has it.
    """

    keep_unknown: bool = False
    stated: str | None = None
    base: str = ""
    rewrites: list[Rewrite] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    # The former pointers of members that moved, by the id of their object and their name.
    origins: dict[tuple[int, str], str] = field(default_factory=dict)


class DocumentPart:
    """An object of a document while it is rewritten.

    Args:
        members: the object, which is changed in place.
        pointer: its JSON pointer in the document as it was given.
        entity: the entity that it belongs to; by default it is one itself.
    """

    __slots__ = ("entity", "members", "pointer", "rewriter")

    def __init__(
        self,
        members: dict[str, Any],
        pointer: str,
        rewriter: Rewriter,
        entity: DocumentPart | None = None,
    ) -> None:
        self.members = members
        self.pointer = pointer
        self.rewriter = rewriter
        self.entity = entity or self

    def pointer_of(self, name: str) -> str:
        """The JSON pointer of a member in the document as it was given."""
        origin = self.rewriter.origins.get((id(self.members), name))
        return origin or f"{self.pointer}/{escaped(name)}"

    def inside(self, name: str) -> DocumentPart | None:
        """A member that is an object, as a part of the same entity; `None` if it is none."""
        value = self.members.get(name)
        if not isinstance(value, dict):
            return None
        return DocumentPart(value, self.pointer_of(name), self.rewriter, self.entity)

    def opened(self, name: str) -> DocumentPart | None:
        """A member that is an object, and is added if it is missing."""
        self.members.setdefault(name, {})
        return self.inside(name)

    def parts(self) -> Iterator[tuple[str, DocumentPart]]:
        """The members that are objects, with their names."""
        for name in list(self.members):
            if (part := self.inside(name)) is not None:
                yield name, part

    def entities(self, name: str) -> Iterator[tuple[str, DocumentPart]]:
        """The entities of a collection, with their ids."""
        collection = self.inside(name)
        for key, part in collection.parts() if collection is not None else ():
            part.entity = part
            yield key, part

    def rename_all(self, new_name: Callable[[str], str], rule: RewriteRule) -> None:
        """Give each member the name that a function makes of its older one."""
        for name in list(self.members):
            self.rename(name, new_name(name), rule)

    def lift(self, name: str, to: DocumentPart, rule: RewriteRule) -> None:
        """Move all members of an inner object to another one, and drop the inner object."""
        inner = self.inside(name)
        if inner is None:
            return
        for each in list(inner.members):
            inner.move(each, to, each, rule)
        self.drop(name, rule)

    def rename(self, old: str, new: str, rule: RewriteRule) -> None:
        """Give a member its newer name."""
        self.move(old, self, new, rule)

    def move(self, old: str, to: DocumentPart, new: str, rule: RewriteRule) -> None:
        """Move a member to another object, or leave it out if there is a different one."""
        if old not in self.members or (to is self and old == new):
            return
        value = self.members[old]
        if new in to.members and to.members[new] != value:
            self.leave_out(old, f'"{new}" is there too, and differs')
            return
        pointer = self.pointer_of(old)
        del self.members[old]
        to.members[new] = value
        to.rewriter.origins[id(to.members), new] = pointer
        self._note(pointer, old, new if to is self else f"{to.pointer}/{escaped(new)}", rule)

    def set(self, name: str, value: Any, rule: RewriteRule) -> None:
        """Give a member another value, or add it."""
        old = self.members.get(name)
        if name not in self.members or old != value or type(old) is not type(value):
            self.members[name] = value
            self._note(self.pointer_of(name), old, value, rule)

    def drop(self, name: str, rule: RewriteRule) -> None:
        """Remove a member whose value other members tell."""
        if name in self.members:
            self._note(self.pointer_of(name), self.members.pop(name), None, rule)

    def leave_out(self, name: str, reason: str) -> None:
        """Remove a member without a newest form, and keep it in `older` if that is asked for."""
        if name not in self.members:
            return
        pointer, value = self.pointer_of(name), self.members.pop(name)
        is_kept = self.rewriter.keep_unknown and self.entity.keep(pointer, value)
        self.rewriter.left_out.append(
            LeftOut(pointer=pointer, value=value, reason=reason, is_kept=is_kept)
        )

    def keep(self, pointer: str, value: Any) -> bool:
        """Put a value into the extension `older` of this entity, under its former names."""
        if RC4_ATTRIBUTES in self.members:
            return False
        *path, name = map(unescaped, pointer.removeprefix(self.pointer).split("/")[1:])
        owner = self.members.setdefault(OLDER, {})
        for step in path:
            owner = owner.setdefault(step, {}) if isinstance(owner, dict) else None
        if not isinstance(owner, dict) or name in owner:
            return False
        owner[name] = value
        return True

    def _note(self, pointer: str, old: Any, new: Any, rule: RewriteRule) -> None:
        self.rewriter.rewrites.append(Rewrite(pointer=pointer, old=old, new=new, rule=rule))


def escaped(name: str) -> str:
    """A name as a step of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def unescaped(step: str) -> str:
    """The name that a step of a JSON pointer stands for."""
    return step.replace("~1", "/").replace("~0", "~")
