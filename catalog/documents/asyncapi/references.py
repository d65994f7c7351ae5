"""Follows the references of an AsyncAPI document, and names entities by identifiers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from catalog.documents.losses import Loss
from catalog.documents.rewriter import escaped, unescaped

Members = dict[str, Any]

LARGEST_EXPANSION = 200_000
"""The most values that the references of a document may stand for, besides its own values."""

EXTENSION = "x-xregistry"
"""The specification extension for attributes of the catalog without a home in AsyncAPI."""

_ENTITY_REFERENCE = re.compile(r"/(?:endpoints|messagegroups|schemagroups)/[^#]+")
_LONGEST_CHAIN = 50
_DEEPEST = 48
_LONGEST_ID = 100
_LONGEST_REFERENCE = 2048
_NOT_IN_ID = re.compile(r"[^A-Za-z0-9._-]+")
_ELSEWHERE = (
    "its target is in another document, which is not read; bundle the documents into one first, "
    "for example with `npx @asyncapi/cli bundle`"
)
_NOWHERE = "it leads nowhere in the document"


class AsyncApiError(Exception):
    """A document that cannot be translated. `hint` says how to correct the document."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Identifiers:
    """Ids that differ without regard to case, as entities of one collection need."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def allot(self, text: str) -> str:
        """An unused id that is similar to a text."""
        base = id = identifier(text)
        while id.lower() in self._counts:
            self._counts[base.lower()] += 1
            id = f"{base}-{self._counts[base.lower()]}"
        self._counts[id.lower()] = 1
        return id


def identifier(text: str) -> str:
    """A text as an id: letters, digits, dots, underscores and hyphens."""
    return _NOT_IN_ID.sub("-", text)[:_LONGEST_ID].strip("-.") or "unnamed"


def reference_of(value: Any) -> str:
    """The target of a reference object; empty for other values."""
    reference = value.get("$ref") if isinstance(value, dict) else None
    is_usable = isinstance(reference, str) and len(reference) <= _LONGEST_REFERENCE
    return str(reference) if is_usable else ""


def object_in(value: Any) -> Members:
    """A value that is an object; an empty object in place of other values."""
    return value if isinstance(value, dict) else {}


def without(members: Members, *names: str) -> Members:
    """An object without some members."""
    return {name: value for name, value in members.items() if name not in names}


def objects(value: Any) -> Iterator[tuple[str, Members]]:
    """The members of an object that are objects, in the order of the names."""
    if isinstance(value, dict):
        for name in sorted(value):
            if isinstance(value[name], dict):
                yield name, value[name]


def entity_reference(text: str) -> tuple[str, str]:
    """The xid and the fragment of a reference to an entity; both empty for other references."""
    path, _, fragment = text.partition("#")
    return (path, fragment) if _ENTITY_REFERENCE.fullmatch(path) else ("", "")


class SourceDocument:
    """A document whose references are followed.

    Args:
        document: the object of the file.
    """

    def __init__(self, document: Members) -> None:
        self.document = document
        self.losses: dict[tuple[str, str], Loss] = {}
        """Losses by pointer and reason."""
        self.used: set[str] = set()
        """JSON pointers, with `#`, of the objects that references led to."""
        self.xids: dict[str, str] = {}
        """Xids of the entities that are made of objects, by JSON pointer with `#`."""
        self._left = LARGEST_EXPANSION + size(document)

    def lose(self, pointer: str, value: Any, reason: str) -> None:
        loss = Loss(pointer=pointer.removeprefix("#"), value=value, reason=reason)
        self.losses.setdefault((loss.pointer, reason), loss)

    def follow(self, value: Any, pointer: str) -> tuple[Any, str]:
        """The object that a chain of references leads to, with the pointer of the object.

        A reference that cannot be followed is a loss, and the result is `None` with the pointer of
        the reference.
        """
        for _ in range(_LONGEST_CHAIN):
            reference = reference_of(value)
            if not reference:
                return value, pointer
            if not reference.startswith("#/"):
                self.lose(pointer, reference, _ELSEWHERE)
                return None, pointer
            found = self._find(reference)
            if found is None:
                break
            self.used.add(reference)
            value, pointer = found, reference
        self.lose(pointer, reference_of(value), _NOWHERE)
        return None, pointer

    def _find(self, reference: str) -> Any:
        found: Any = self.document
        for step in map(unescaped, reference.split("/")[1:]):
            if isinstance(found, dict):
                found = found.get(step)
            elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
                found = found[int(step)]
            else:
                return None
        return found

    def xid_of(self, reference: str) -> str:
        """The reference to an entity, or into an entity, that a local reference means."""
        for _ in range(_LONGEST_CHAIN):
            further = reference_of(self._find(reference))
            # A message that refers to another message is an entity; a schema is only a name.
            is_entity = reference in self.xids and not reference.startswith("#/components/schemas/")
            if is_entity or not further.startswith("#/"):
                break
            self.used.add(reference)
            reference = further
        prefix = reference
        while prefix not in self.xids and len(prefix) > 1:
            prefix = prefix.rpartition("/")[0]
        fragment = reference[len(prefix) :]
        if prefix not in self.xids:
            return ""
        return self.xids[prefix] + (f"#{fragment}" if fragment else "")

    def expand(self, value: Any, pointer: str, depth: int = 0) -> Any:
        """A copy with references to entities by xid, and other objects in place of references.

        References to other documents stay.

        Raises:
            AsyncApiError: the copy is too large.
        """
        self.spend(1)
        if isinstance(value, list):
            return [
                self.expand(item, f"{pointer}/{place}", depth + 1)
                for place, item in enumerate(value)
            ]
        if not isinstance(value, dict):
            return value
        reference = reference_of(value)
        if reference.startswith("#"):
            return self._expand_reference(value, reference, pointer, depth)
        if reference and not reference.startswith(("/", "https://", "http://")):
            self.lose(pointer, reference, _ELSEWHERE)
        return {
            name: self.expand(member, f"{pointer}/{escaped(name)}", depth + 1)
            for name, member in value.items()
        }

    def _expand_reference(
        self, value: Members, reference: str, pointer: str, depth: int
    ) -> Members | Any:
        xid = self.xid_of(reference)
        if xid:
            siblings = {
                name: self.expand(member, f"{pointer}/{escaped(name)}", depth + 1)
                for name, member in value.items()
                if name != "$ref"
            }
            return {"$ref": xid, **siblings}
        found, at = self.follow(value, pointer)
        if found is None:
            return dict(value)
        if depth > _DEEPEST:
            self.lose(pointer, reference, "it leads back to itself, or is nested too deep")
            return {}
        return self.expand(found, at, depth + 1)

    def spend(self, values: int) -> None:
        """Count values of copies.

        Raises:
            AsyncApiError: the copies are too large.
        """
        self._left -= values
        if self._left < 0:
            raise AsyncApiError(
                f"The references of the document stand for more than {LARGEST_EXPANSION:,} values.",
                "Split the document.",
            )

    def with_traits(self, definition: Members, pointer: str, *, traits_win: bool) -> Members:
        """An object without `traits`, merged with the members of the traits.

        Args:
            traits_win: the members of traits override those of the object, as in edition 2.
        """
        own = without(definition, "traits")
        traits = definition.get("traits")
        merged = own if traits_win else {}
        for place, each in enumerate(traits if isinstance(traits, list) else ()):
            trait, _ = self.follow(each, f"{pointer}/traits/{place}")
            if isinstance(trait, dict):
                self.spend(size(trait))
                merged = _merge(merged, trait)
        return merged if traits_win else _merge(merged, own)


def size(value: Any) -> int:
    """The number of JSON values in a value."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(size, inner))


def _merge(target: Members, patch: Members) -> Members:
    """A JSON merge patch (RFC 7396) that keeps null, since null is a value in schemas."""
    merged = dict(target)
    for name, value in patch.items():
        if isinstance(value, dict):
            inner = merged.get(name)
            merged[name] = _merge(inner if isinstance(inner, dict) else {}, value)
        else:
            merged[name] = value
    return merged
