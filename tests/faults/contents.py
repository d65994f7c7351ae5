"""The groups of a node as its standard API shows them, without the parts of each server's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from catalog.client import Client

Contents = Mapping[str, Any]
"""The groups, each with all that is in it, by path."""

_COLLECTIONS = ("messagegroups", "schemagroups")
# A server counts epochs and notes times by itself, and tells whose its replicas are.
_OF_SERVERS = frozenset({"epoch", "createdat", "modifiedat", "authority", "origin", "readonly"})
# What a link has written is marked.
_MARK = "concord.link"


async def read_contents(client: Client) -> Contents:
    """All that a node has in the groups that writers write, with the documents."""
    exported = await client.get("/export")
    return {
        f"/{plural}/{id}": _shared(group)
        for plural in _COLLECTIONS
        for id, group in exported.get(plural, {}).items()
    }


def among(contents: Contents, groups: Iterable[str]) -> Contents:
    """Some groups, if they are there."""
    return {path: contents[path] for path in groups if path in contents}


def _shared(value: Any) -> Any:
    """A value without what differs between servers that have the same."""
    if not isinstance(value, dict):
        return value
    return {
        name: found
        for name, each in value.items()
        if name not in _OF_SERVERS and name != _MARK and not name.endswith("url")
        if (found := _shared(each)) != {}
    }
