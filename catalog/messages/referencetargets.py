"""The entities of the registry to which references to messages and schemas can lead.

Sources: message/spec.md, "basemessage" and "dataschemauri"; schema/spec.md, "Schema Formats".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from catalog.model.xid import Xid

_DETAILS = "$details"


@dataclass(frozen=True, slots=True)
class ReferenceTarget:
    """A resource or version, and the part of the document that a reference means."""

    xid: Xid
    part: str = ""


def reference_targets(reference: str, bases: Iterable[str]) -> list[ReferenceTarget]:
    """The entities that a reference can mean, likeliest first; empty for other registries.

    Args:
        reference: an xid, an xid as a fragment (the form in documents), or the URL of an entity.
        bases: the URLs of the registry's root, without a trailing slash.
    """
    # The path of a base may begin with that of another one.
    nearest = max((each for each in bases if reference.startswith(f"{each}/")), key=len, default="")
    path = reference.removeprefix(nearest).removeprefix("#")
    if not path.startswith("/"):
        return []
    path, _, fragment = path.partition("#")
    return list(_targets([unquote(step) for step in path.split("/")[1:]], fragment))


def _targets(steps: list[str], fragment: str) -> Iterator[ReferenceTarget]:
    length = 6 if steps[4:5] == ["versions"] else 4
    entity, rest = steps[:length], steps[length:]
    if not entity or (rest and fragment):
        return
    entity[-1] = entity[-1].removesuffix(_DETAILS)
    part = "".join(f"/{step}" for step in rest) or fragment
    if (xid := _xid(entity)) is not None:
        yield ReferenceTarget(xid, part)
    # An id may contain colons, so a split at the last colon is the second choice.
    id, colon, name = entity[-1].rpartition(":")
    if colon and not part and (xid := _xid([*entity[:-1], id])) is not None:
        yield ReferenceTarget(xid, name)


def _xid(steps: list[str]) -> Xid | None:
    try:
        xid = Xid.parse("/" + "/".join(steps))
    except ValueError:
        return None
    return xid if xid.rid else None
