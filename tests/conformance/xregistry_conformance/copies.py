"""The copies of the replication protocol: their form, their digests, and what buckets tell of them.

Concord's docs/protocol.md defines them.
"""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import rfc8785

_LONGEST_CURSOR = 256
_MEMBERS = {"authority", "origin", "xid", "kind", "epoch", "digest"}
_OF_ENTITIES = {"createdat", "modifiedat", "attributes"}


def read_lines(body: bytes) -> list[Any]:
    """The JSON values of the lines of a body. Raises `ValueError` for lines that are no JSON."""
    return [orjson.loads(line) for line in body.splitlines()]


def faults_of(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where lines are not a whole answer with copies: copies, then a cursor."""
    if not lines or {*lines[-1]} - {"behind"} != {"cursor"}:
        return ["the last line is no cursor, so that the answer was cut"]
    *copies, end = lines
    cursor = end["cursor"]
    found = [
        f"the cursor is {cursor!r}"
        for _ in [0]
        if not isinstance(cursor, str) or not cursor.isprintable() or len(cursor) > _LONGEST_CURSOR
    ]
    origins = {(copy.get("authority"), copy.get("origin")) for copy in copies}
    seen: set[Any] = set()
    for copy in copies:
        found += _faults_of_copy(copy)
        parent = copy.get("authority"), _parent(str(copy.get("origin")))
        if parent in origins - seen:
            found.append(f"{copy['origin']} comes before its parent")
        seen.add((copy.get("authority"), copy.get("origin")))
    return found


def _faults_of_copy(copy: Mapping[str, Any]) -> list[str]:
    is_deleted = copy.get("deleted", False)
    wanted = _MEMBERS | ({"deletedat"} if is_deleted else _OF_ENTITIES)
    if missing := wanted - copy.keys():
        return [f"the copy {copy} lacks {missing}"]
    found = []
    if copy["xid"] != copy["origin"]:
        found.append(f"the xid of {copy['origin']} is {copy['xid']}")
    if copy["kind"] not in ("group", "resource", "version"):
        found.append(f"the kind of {copy['origin']} is {copy['kind']}")
    if copy["digest"] != digest_of(copy):
        found.append(f"the digest of {copy['origin']} is not that of its content")
    return found


def _parent(origin: str) -> str:
    """The path of the entity above: of a version its resource, of a resource its group."""
    parts = origin.split("/")
    return "/".join(parts[:-2]) if len(parts) > 3 else ""


def digest_of(copy: Mapping[str, Any]) -> str:
    """The digest of a copy's content, in hexadecimal digits."""
    form = {name: copy[name] for name in ("authority", "origin", "epoch")}
    form |= {"digestversion": 1, "deleted": bool(copy.get("deleted", False))}
    if not form["deleted"]:
        document = copy.get("document")
        form |= {name: copy[name] for name in ("attributes", "createdat", "modifiedat")}
        form["document"] = None
        if document is not None:
            form["document"] = hashlib.sha256(base64.b64decode(document)).hexdigest()
    return hashlib.sha256(rfc8785.dumps(form)).hexdigest()


def bucket_of(copy: Mapping[str, Any], bits: int) -> int:
    """The number of the bucket of a copy's origin, of its first bits."""
    name = f"{copy['authority']}\n{copy['origin']}".encode()
    return int.from_bytes(hashlib.sha256(name).digest()[:2], "big") >> (16 - bits)


def buckets_of(copies: Sequence[Mapping[str, Any]], bits: int) -> list[list[int]]:
    """The buckets of copies: number, count, and the xor of the fingerprints."""
    found: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for copy in copies:
        bucket = found[bucket_of(copy, bits)]
        bucket[0] += 1
        bucket[1] ^= int.from_bytes(bytes.fromhex(copy["digest"])[:8], "big", signed=True)
    return sorted([number, *content] for number, content in found.items())
