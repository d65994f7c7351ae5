"""Replaces `$include` and `$includes` in a modelsource document by the included objects.

Source: core/model.md, "Includes in the xRegistry Model Data". The target of an include lies in the
same document (`#/pointer`), or in a document that the caller fetches.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from catalog.model.attributesource import broken

MAX_DOCUMENTS = 100
MAX_MEMBERS = 100_000
MAX_SOURCE_DEPTH = 128
MAX_REFERENCE = 2048

Fetch: TypeAlias = Callable[[str], Awaitable[Any]]
# Calls a long-running function.
Run: TypeAlias = Callable[[Callable[[], dict[str, Any]]], Awaitable[dict[str, Any]]]


async def _at_once(function: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    return function()


async def resolve_includes(
    source: Mapping[str, Any],
    fetch: Fetch | None = None,
    *,
    base: str = "",
    run: Run = _at_once,
) -> dict[str, Any]:
    """Return a copy of `source` without include directives.

    Members beside a directive win over included members of the same name, and earlier includes win
    over later includes. Each document is fetched once.

    Args:
        fetch: gets a document by absolute URL, without fragment, as parsed JSON; `fetch` bounds the
            size and raises ModelError if the document is missing. Without `fetch`, only includes
            from the same document are resolved.
        base: the document's own URL, the base of relative references.
        run: runs a round of the resolution, which is long for documents with many members; a
            further round follows when documents were fetched.

    Raises:
        ModelError: an include is malformed, circular, leads nowhere or to no object, or exceeds
            MAX_DOCUMENTS, MAX_MEMBERS, MAX_REFERENCE or MAX_SOURCE_DEPTH, to which includes count.
    """
    documents: dict[str, Any] = {base: source}
    while True:
        resolution = _Resolution(can_fetch=fetch is not None, documents=documents)
        resolved = await run(functools.partial(resolution.members, source, _Spot(base, ""), (), 0))
        if fetch is None or not resolution.missing:
            return resolved
        # A fetched document may include further documents, so the resolution is repeated.
        for address in resolution.missing:
            documents[address] = await fetch(address)


class _Spot(NamedTuple):
    """The source of an include: a document, and a pointer into it."""

    document: str
    pointer: str

    def __str__(self) -> str:
        return f"{self.document}#{self.pointer}"


@dataclass(slots=True, kw_only=True)
class _Resolution:
    """The resolution of a document's includes, as far as the known documents allow.

    `missing` holds the addresses of documents to fetch, in the order of need.
    """

    can_fetch: bool
    documents: Mapping[str, Any]
    missing: dict[str, None] = field(default_factory=dict)
    members_left: int = field(default=MAX_MEMBERS)

    def members(
        self, source: Mapping[str, Any], spot: _Spot, chain: tuple[_Spot, ...], depth: int
    ) -> dict[str, Any]:
        """Resolve the members of an object in the document of `spot`."""
        if depth > MAX_SOURCE_DEPTH:
            raise broken(str(spot), f"it is nested deeper than {MAX_SOURCE_DEPTH} levels")
        if "$include" in source and "$includes" in source:
            raise broken(str(spot), '"$include" and "$includes" exclude each other')
        resolved: dict[str, Any] = {}
        for name, value in source.items():
            self._spend(spot)
            if name in ("$include", "$includes"):
                for reference in _references(name, value, spot):
                    included = self.include(reference, spot, chain, depth)
                    resolved |= {
                        key: one
                        for key, one in included.items()
                        if key not in source and key not in resolved
                    }
            else:
                resolved[name] = self._value(value, spot, chain, depth)
        return resolved

    def _value(self, value: Any, spot: _Spot, chain: tuple[_Spot, ...], depth: int) -> Any:
        if isinstance(value, Mapping):
            return self.members(value, spot, chain, depth + 1)
        if isinstance(value, list):
            return [self._value(one, self._spend(spot), chain, depth + 1) for one in value]
        return value

    def include(
        self, reference: str, spot: _Spot, chain: tuple[_Spot, ...], depth: int
    ) -> dict[str, Any]:
        """Resolve the object that a directive in the document of `spot` refers to."""
        self._spend(spot)
        # A long reference within an object that is included many times would be read many times.
        if len(reference) > MAX_REFERENCE:
            raise broken(str(spot), f"a reference is longer than {MAX_REFERENCE} characters")
        try:
            url, fragment = urldefrag(reference)
            address = urljoin(spot.document, url) if url else spot.document
        except ValueError as error:
            raise broken(reference, f"it is no URL: {error}") from error
        target = _Spot(address, _pointer(fragment))
        if target in chain:
            raise broken(reference, "it includes itself")
        if address not in self.documents:
            if not (self.can_fetch and urlsplit(address).scheme):
                raise broken(reference, "it cannot be fetched; only an absolute URL can")
            self.missing[address] = None
            if len(self.documents) + len(self.missing) > MAX_DOCUMENTS + 1:
                raise broken(reference, f"more than {MAX_DOCUMENTS} documents are included")
            return {}
        found = _at(self.documents[address], target.pointer, reference)
        if not isinstance(found, Mapping) or not all(isinstance(key, str) for key in found):
            raise broken(reference, "only an object can be included")
        return self.members(found, target, (*chain, target), depth + 1)

    def _spend(self, spot: _Spot) -> _Spot:
        # Nested includes can multiply, so that a budget for the whole resolution bounds the work.
        self.members_left -= 1
        if self.members_left < 0:
            raise broken(str(spot), f"the model has more than {MAX_MEMBERS} members")
        return spot


def _references(directive: str, value: Any, spot: _Spot) -> list[str]:
    references = value if directive == "$includes" else [value]
    if not isinstance(references, list) or not all(isinstance(one, str) for one in references):
        wanted = "an array of references" if directive == "$includes" else "a reference"
        raise broken(str(spot), f'"{directive}" must be {wanted}')
    return references


def _pointer(fragment: str) -> str:
    """A fragment as a JSON Pointer; "#groups", as in cloudevents/model.json, is "#/groups"."""
    pointer = unquote(fragment)
    return f"/{pointer}" if pointer and not pointer.startswith("/") else pointer


def _at(document: Any, pointer: str, reference: str) -> Any:
    """The value at a JSON Pointer (RFC 6901)."""
    found = document
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdigit() and len(name) < 10:
            found = found[int(name)] if int(name) < len(found) else None
        else:
            found = found.get(name) if isinstance(found, Mapping) else None
    if found is None:
        raise broken(reference, "there is nothing in the document")
    return found
