"""Describes the protocol between two catalogs as OpenAPI: enough to write either side of it."""

from __future__ import annotations

from collections.abc import Mapping

from catalog.api.openapi_operations import JSON_BODY, content
from catalog.api.openapi_schemas import Json, reference
from catalog.model.digest import BUCKETS as BUCKET_COUNT
from replication import openapi_peerschemas as schemas
from replication.digests import MOST_BITS, MOST_RANGES
from replication.feed import LONGEST_WAIT, MOST_NAMED
from replication.feedpages import MOST_CHANGES
from replication.openapi_parts import (
    CURSOR,
    done,
    header,
    lines_of,
    operation,
    query,
    read,
    switch,
)
from replication.openapi_peerschemas import COUNT, TEXT, array_of
from replication.receive import MOST_PUSHED
from replication.wire import KeysBody, OriginsBody

_NAMES: Json = {**array_of({"type": "string", "minLength": 1}), "maxItems": MOST_NAMED}
_BUCKET: Json = {"type": "integer", "minimum": 0, "maximum": BUCKET_COUNT}
_SWITCH: Json = {"type": "string", "enum": ["true", "false"]}
_SELECTION = (
    query("authority", _NAMES, "Whose entities; all by default."),
    query("scope", _NAMES, "Paths at the authority, with all below and above them."),
    query("type", _NAMES, "Types of groups (`endpoints`) or resources (`endpoints/messages`)."),
)
_LINES = {
    "description": "Copies, parents first, then the cursor.",
    "content": lines_of(schemas.LINE),
}
_SENDER = (
    header("Concord-Authority", TEXT, "The authority of the sender."),
    header("Concord-Instance", {"type": "string", "format": "uuid"}, "The sender's instance."),
)
_CSV = {
    "schema": {
        "type": "string",
        "description": "The columns authority, origin, xid, epoch, deleted, digest, bucket, with "
        "`signatures` also signature (hexadecimal) and signedby; a header, then a row for each "
        "entity and tombstone. If `ranges`, `authority`, `scope`, `type` or `label` is given, the "
        "last line is the cursor.",
    }
}
_DIGESTS: Json = {
    "description": "Digests of one moment.",
    "headers": CURSOR,
    "content": {
        JSON_BODY: {
            "schema": {
                "anyOf": [reference(schemas.BUCKETS), reference(schemas.AUTHORITIES)],
            }
        },
        "text/csv": _CSV,
    },
}

PEER_OPERATIONS: Mapping[tuple[str, str], Json] = {
    ("GET", "/replication"): operation(
        read(reference(schemas.HANDSHAKE)),
        parameters=[switch("count", "Count the entities, too.")],
    ),
    ("GET", "/replication/changes"): operation(
        {200: _LINES},
        (400, 410, 429),
        parameters=[
            query("after", TEXT, "A cursor of this feed or of a snapshot.", required=True),
            query(
                "limit",
                {"type": "integer", "minimum": 1, "maximum": MOST_CHANGES},
                "The most changes of the page.",
            ),
            query(
                "wait",
                {"type": "integer", "minimum": 0, "maximum": int(LONGEST_WAIT)},
                "How many seconds to wait for a change if there is none.",
            ),
            switch("behind", "Tell how many changes are left."),
            *_SELECTION,
        ],
    ),
    ("GET", "/replication/snapshot"): operation(
        {200: _LINES}, (400, 429, 503), parameters=_SELECTION
    ),
    ("GET", "/replication/digests"): operation(
        {200: _DIGESTS, 304: {"description": "Nothing is new since its ETag."}},
        (400, 429, 503),
        parameters=[
            query(
                "format",
                {"type": "string", "enum": ["json", "csv", "authorities"]},
                "Fingerprints of buckets (the default), rows, or the names of authorities.",
            ),
            query(
                "bits",
                {"type": "integer", "minimum": 0, "maximum": MOST_BITS},
                "Merge buckets by their first bits, and count tombstones, too.",
            ),
            query(
                "ranges",
                {"type": "string", "pattern": "^[0-9]{1,5}-[0-9]{1,5}(,[0-9]{1,5}-[0-9]{1,5})*$"},
                f"Up to {MOST_RANGES} ranges of buckets in order, as 0-256,512-768.",
            ),
            query("from", _BUCKET, "Rows of the buckets from this one."),
            query("to", _BUCKET, "Rows of the buckets before this one."),
            query("verify", _SWITCH, "Rows with digests that are computed from the content."),
            query("signatures", _SWITCH, "Rows with signatures."),
            query("label", _NAMES, "Labels, as name or name=value, all of which have to be there."),
            *_SELECTION,
        ],
    ),
    ("POST", "/replication/fetch"): operation(
        {200: _LINES}, (400, 413), taken=content(JSON_BODY, schemas.body(OriginsBody))
    ),
    ("POST", "/replication/entities"): operation(
        {
            200: {
                "description": "A line with the verdict for each copy, then one with the cursor.",
                "content": lines_of(schemas.PUSHED),
            }
        },
        (400, 403, 409, 413, 503),
        parameters=[
            *_SENDER,
            query(
                "begin",
                {"type": "string", "enum": ["", "differing"]},
                "A complete copy follows, or what differs; without copies.",
                allowEmptyValue=True,
            ),
            query("copies", COUNT, "How many copies the complete copy has, with `begin`."),
            query("lost", TEXT, "Why the sender may lack what it sent before, with `begin`."),
            query("after", TEXT, "The cursor that the copies come after."),
            switch("current", "There is nothing further."),
            query("conflicts", TEXT, "Tell conflicts after this one: authority, newline, origin."),
        ],
        taken={**lines_of(schemas.LINE)},
        is_needed=False,
    )
    | {
        "description": f"At most {MOST_PUSHED} copies, in any order. The sender begins with a "
        "complete copy (`begin`, then copies without `after`, the last of them with a cursor), and "
        "goes on with `after` and the cursor before. A request without parameters and copies asks "
        "for the cursor and for the copies that were not applied, after an answer was lost."
    },
    ("GET", "/replication/keys"): operation(
        read(reference(schemas.KEYS)),
        (400,),
        parameters=[query("authority", _NAMES, "Of these authorities only.")],
    ),
    ("POST", "/replication/keys"): operation(
        {200: done(reference(schemas.LEARNT))},
        (400, 403, 503),
        parameters=_SENDER,
        taken=content(JSON_BODY, schemas.body(KeysBody)),
    ),
    ("POST", "/notifications"): operation(
        {204: {"description": "The link is awake."}},
        (410, 413),
        parameters=[query("link", TEXT, "The id of a link of this node.", required=True)],
        taken=content("*/*", {}),
        is_needed=False,
    )
    | {
        "description": "An event of the source, which is not read: it only wakes the link. OPTIONS "
        "grants any origin to send such events, if the link waits for some (http-webhook.md)."
    },
}
