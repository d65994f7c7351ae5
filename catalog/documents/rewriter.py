"""Rewrites the members of a document's objects, and records each rewrite with a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

# The extension attribute for members of an entity without a form in the newest edition.
OLDER = "older"
# The extension attribute for attributes that an older edition cannot express: the values of the
# newest edition, or null for an attribute that the entity lacks in the newest edition.
RC4_ATTRIBUTES = "rc4attributes"


@dataclass(frozen=True, slots=True)
class RewriteRule:
    """A reason to rewrite.

    Args:
        text: the form of the newest edition, in words.
        edition: the last edition in which the older form was right; `None` for a form that is a
            mistake in every edition.
        is_evidence: only documents up to `edition` have the older form.
    """

    text: str
    edition: str | None = None
    is_evidence: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A change of a document.

    Args:
        pointer: the JSON pointer of the member before the change.
        old: the old name or value.
        new: the new name or value, or the new pointer of a member that moved to another object.
    """

    pointer: str
    old: Any
    new: Any
    rule: RewriteRule


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A member without a form in the newest edition; the extension `older` has it if `is_kept`."""

    pointer: str
    value: Any
    reason: str
    is_kept: bool


@dataclass(slots=True)
class Rewriter:
    """The rewrites of one document.

    Args:
        keep_unknown: keep members that cannot be rewritten in the extension `older`.
        stated: the edition that the document states.
        base: the URL of the registry that wrote the document; empty if unknown.
    """

    keep_unknown: bool = False
    stated: str | None = None
    base: str = ""
    rewrites: list[Rewrite] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    # The former pointers of moved members, by the id of the new object and the new name.
    origins: dict[tuple[int, str], str] = field(default_factory=dict)


class DocumentPart:
    """An object of a document during the rewrite.

    Args:
        members: the object, which is changed in place.
        pointer: the JSON pointer of the object in the given document.
        entity: the entity that the object belongs to; by default the object is an entity.
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
        """The JSON pointer of a member in the given document."""
        origin = self.rewriter.origins.get((id(self.members), name))
        return origin or f"{self.pointer}/{escaped(name)}"

    def inside(self, name: str) -> DocumentPart | None:
        """A member as a part of the same entity; `None` if the member is no object."""
        value = self.members.get(name)
        if not isinstance(value, dict):
            return None
        return DocumentPart(value, self.pointer_of(name), self.rewriter, self.entity)

    def opened(self, name: str) -> DocumentPart | None:
        """A member as a part of the same entity; adds an empty object if the member is missing."""
        self.members.setdefault(name, {})
        return self.inside(name)

    def parts(self) -> Iterator[tuple[str, DocumentPart]]:
        """The names and values of the members that are objects."""
        for name in list(self.members):
            if (part := self.inside(name)) is not None:
                yield name, part

    def entities(self, name: str) -> Iterator[tuple[str, DocumentPart]]:
        """The ids and entities of a collection."""
        collection = self.inside(name)
        for key, part in collection.parts() if collection is not None else ():
            part.entity = part
            yield key, part

    def rename_all(self, new_name: Callable[[str], str], rule: RewriteRule) -> None:
        """Give each member the name that a function makes of the older name."""
        for name in list(self.members):
            self.rename(name, new_name(name), rule)

    def lift(self, name: str, to: DocumentPart, rule: RewriteRule) -> None:
        """Move the members of an inner object to another object, and drop the inner object."""
        inner = self.inside(name)
        if inner is None:
            return
        for each in list(inner.members):
            inner.move(each, to, each, rule)
        self.drop(name, rule)

    def rename(self, old: str, new: str, rule: RewriteRule) -> None:
        """Give a member the newer name."""
        self.move(old, self, new, rule)

    def move(self, old: str, to: DocumentPart, new: str, rule: RewriteRule) -> None:
        """Move a member, or leave the member out if the target has a different value."""
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
        """Change the value of a member, or add the member."""
        old = self.members.get(name)
        # 1 and true are equal in Python, and differ in JSON.
        if name not in self.members or old != value or type(old) is not type(value):
            self.members[name] = value
            self._note(self.pointer_of(name), old, value, rule)

    def drop(self, name: str, rule: RewriteRule) -> None:
        """Remove a member with a value that follows from the rest of the document."""
        if name in self.members:
            self._note(self.pointer_of(name), self.members.pop(name), None, rule)

    def leave_out(self, name: str, reason: str) -> None:
        """Remove a member without a newest form; `keep_unknown` keeps the value in `older`."""
        if name not in self.members:
            return
        pointer, value = self.pointer_of(name), self.members.pop(name)
        is_kept = self.rewriter.keep_unknown and self.entity.keep(pointer, value)
        self.rewriter.left_out.append(
            LeftOut(pointer=pointer, value=value, reason=reason, is_kept=is_kept)
        )

    def keep(self, pointer: str, value: Any) -> bool:
        """Put a value into the extension `older` of the entity, under the former names.

        Returns:
            Whether the value is kept.
        """
        # `rc4attributes` restores the entity exactly; `older` would be an additional attribute.
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
    """The name in a step of a JSON pointer."""
    return step.replace("~1", "/").replace("~0", "~")
