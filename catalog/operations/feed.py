"""The operations that move copies from catalog to catalog: the feed, digests, pushes.

Copies are lines of JSON, which `replication/feed/feedlines.py` writes and reads. The models of
lines serve only as descriptions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from catalog.model.confluentattribute import SchemaIdConflict
from catalog.model.digest import BUCKETS, DIGEST_VERSION
from catalog.model.linkterms import is_label, is_type
from catalog.model.roles import Permission
from catalog.operations.changes import ChangeAuthor
from catalog.operations.followers import FOLLOWER
from catalog.operations.operation import (
    LINES,
    AnswerBody,
    Anyone,
    Content,
    Flag,
    Operation,
    Query,
    Time,
)
from catalog.operations.peers import (
    MOST_NAMED,
    SENDER,
    Count,
    KeyId,
    ScopePath,
    Storable,
    Text,
    WantedOrigins,
    being,
)

MOST_CHANGES = 1000
LONGEST_WAIT = 30
MOST_BITS = 16
"""The bits of the number of a bucket."""
MOST_AGE_SECONDS = 60
MOST_RANGES = 250
"""The maximum number of ranges of buckets in a request."""
MOST_PUSHED = 1000
"""The maximum number of copies in a request."""
DIFFERING = "differing"
"""The value of `begin` if only differing copies follow."""
_LONGEST_CURSOR = 256
_RANGE = re.compile(r"([0-9]{1,5})-([0-9]{1,5})")
_RANGES = r"^[0-9]{1,5}-[0-9]{1,5}(,[0-9]{1,5}-[0-9]{1,5})*$"


class Verdict(StrEnum):
    """The decision about an incoming copy.

    Only `APPLY` changes entities of this node, and only `SIGNED` changes signatures of entities.
    """

    APPLY = "applied"
    """The copy is new: write the copy."""
    DELETED = "deleted"
    """The entity was deleted after the copy was made."""
    CURRENT = "current"
    """The node has the same copy already."""
    SIGNED = "signed"
    """The node has the same copy with a different signature, or none: write the signature."""
    STALE = "stale"
    """The node has a later copy already."""
    AHEAD = "ahead"
    """The copy comes from the authority, and the node has a copy with a higher epoch: the node's
    copy is forged, or the authority has lost data."""
    LEAPT = "leapt"
    """The epoch is further above the node's epoch than an authority can have counted."""
    DIVERGED = "diverged"
    """The node has a copy of equal epoch and other content; the sender has no precedence."""
    COLLIDED = "collided"
    """An entity of a different authority has the xid of the copy."""
    OWN = "own"
    """The node is the authority of the copy."""
    REFUSED = "refused"
    """The policy does not admit the authority or the xid."""
    DIRECT = "direct"
    """A relay sent the copy, and a link of the node follows the authority directly."""
    UNSIGNED = "unsigned"
    """The copy is unsigned, and the node accepts only copies that the authority has signed."""
    FORGED = "forged"
    """The signature is false, or of a key that the node does not trust."""
    AWAITED = "awaited"
    """A deletion in a group under handover to this node; the conflict ends with the handover."""
    INVALID = "invalid"
    """The copy has not passed the checks, or the parent is missing."""


def _read_ranges(given: object) -> object:
    text = given[0] if isinstance(given, list) else given
    if not isinstance(text, str):
        return given
    # A bounded split, so that a long text costs little: the last part of such a text never matches.
    parts = [_RANGE.fullmatch(part) for part in text.split(",", MOST_RANGES)]
    ranges = [(int(part[1]), int(part[2])) for part in parts if part is not None]
    bounds = [bound for each in ranges for bound in each]
    is_read = len(ranges) == len(parts) <= MOST_RANGES
    if not is_read or bounds != sorted(bounds) or bounds[-1] > BUCKETS:
        raise ValueError(
            f"it needs to be up to {MOST_RANGES} ranges of buckets in order, as 0-256,512-768"
        )
    return ranges


def is_push_cursor(text: str) -> bool:
    """Whether a text may be the cursor of a sender."""
    return 0 < len(text) <= _LONGEST_CURSOR and text.isprintable()


_Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Base64 = Annotated[str, Field(json_schema_extra={"contentEncoding": "base64"})]
_Type = Annotated[str, being(is_type, "a type, as endpoints or messagegroups/messages")]
_Label = Annotated[str, being(is_label, "a label, as name or name=value")]
_PushCursor = Annotated[str, being(is_push_cursor, "a cursor")]
_Bucket = Annotated[int, Field(ge=0, le=BUCKETS)]


class _CopyLine(AnswerBody):
    xid: str = Field(description="As `origin`.")
    kind: Literal["group", "resource", "version"]
    authority: Text
    origin: str = Field(pattern="^/", description="The path at the authority.")
    epoch: Count = Field(description="The authority's; a later copy has a higher one.")
    digest: _Digest = Field(description="SHA-256 of the canonical form (docs/internals.md).")
    signature: _Base64 | None = Field(
        default=None, description="By ed25519, of the digest (docs/signing.md)."
    )
    signedby: KeyId | None = Field(default=None, description="The id of the authority's key.")
    author: ChangeAuthor | None = Field(
        default=None,
        description="Who made the last change, if the authority publishes authors; not in the "
        "digest, and without proof.",
    )


class EntityLine(_CopyLine):
    """A live entity."""

    createdat: Time
    modifiedat: Time
    attributes: dict[str, Any]
    document: _Base64 | None = Field(default=None, description="The document of a version, if any.")


class TombstoneLine(_CopyLine):
    """A deleted entity."""

    deleted: Literal[True]
    deletedat: Time


class CursorLine(AnswerBody):
    """The last line of a complete answer; without it, the answer was cut."""

    model_config = ConfigDict(extra="forbid")

    cursor: str = Field(description="Where to go on; opaque.")
    behind: Count | None = Field(
        default=None, description="About how many changes come after it, if `behind` asks for it."
    )


class VerdictLine(AnswerBody):
    """The decision about a pushed copy."""

    authority: str
    origin: str
    epoch: Count
    verdict: Verdict
    xid: str | None = Field(
        default=None, description="The path at the target, if it is another one."
    )
    detail: str | None = Field(default=None, description="Why it is a conflict.")


class PushEndLine(AnswerBody):
    """The last line of an answer to a push."""

    cursor: Annotated[str | None, WithJsonSchema({"type": ["string", "null"]})] = Field(
        description="The last one that the target has; null for none."
    )
    changes: Count
    doubts: bool = Field(description="Whether only a complete copy will do.")


class CopyQuery(Query):
    """The copies that a catalog wants."""

    authority: list[Storable] = Field(
        default=[], max_length=MOST_NAMED, description="Of these only."
    )
    scope: list[ScopePath] = Field(
        default=[],
        max_length=MOST_NAMED,
        description="Paths at the authority, with all below and above them.",
    )
    type: list[_Type] = Field(
        default=[],
        max_length=MOST_NAMED,
        description="Types of groups (`endpoints`) or resources (`endpoints/messages`).",
    )


class ChangesQuery(CopyQuery):
    """A page of the feed."""

    after: str = Field(description="A cursor of this feed or of a snapshot.")
    limit: int = Field(
        default=MOST_CHANGES,
        ge=0,
        description=f"The most changes of the page, of which none has more than {MOST_CHANGES}.",
    )
    wait: int = Field(
        default=0,
        ge=0,
        description="How many seconds to wait for a change if there is none, at most "
        f"{LONGEST_WAIT}.",
    )
    behind: Flag = Field(default=False, description="Tell how many changes are left.")


class DigestsQuery(CopyQuery):
    """The digests that a catalog wants."""

    format: Literal["json", "csv", "authorities", "schemaids"] = Field(
        default="json",
        description="Fingerprints of buckets (the default), rows, the names of authorities, or the "
        "schema ids for Kafka that name several schemas.",
    )
    bits: int | None = Field(
        default=None,
        ge=0,
        le=MOST_BITS,
        description="Merge buckets by their first bits, and count tombstones, too.",
    )
    ranges: Annotated[
        list[tuple[int, int]],
        BeforeValidator(_read_ranges),
        WithJsonSchema({"type": "string", "pattern": _RANGES}),
    ] = Field(
        default=[(0, BUCKETS)],
        description=f"Up to {MOST_RANGES} ranges of buckets in order, as 0-256,512-768.",
    )
    label: list[_Label] = Field(
        default=[],
        max_length=MOST_NAMED,
        description="Labels, as name or name=value, all of which have to be there.",
    )
    start: _Bucket = Field(
        default=0, alias="from", description="Rows of the buckets from this one."
    )
    stop: _Bucket = Field(
        default=BUCKETS, alias="to", description="Rows of the buckets before this one."
    )
    verify: bool = Field(
        default=False, description="Rows with digests that are computed from the content."
    )
    signatures: bool = Field(default=False, description="Rows with signatures.")
    maxage: int = Field(
        default=0,
        ge=0,
        le=MOST_AGE_SECONDS,
        description="How many seconds old the answer may be, with `bits=8` for whole authorities.",
    )

    @property
    def is_narrowed(self) -> bool:
        """Whether the rows cover only a part of the catalog, and so end with a cursor."""
        return bool(self.model_fields_set & {"ranges", "authority", "scope", "type", "label"})

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.start > self.stop:
            raise ValueError('"from" must not exceed "to"')
        if self.is_narrowed and (self.verify or self.signatures):
            raise ValueError('"verify" and "signatures" take "from" and "to" only')
        return self


class PushQuery(Query):
    """The step of a push."""

    begin: Literal["", "differing"] | None = Field(
        default=None, description="A complete copy follows, or what differs; without copies."
    )
    copies: Annotated[int, Field(ge=0, lt=10**9)] | None = Field(
        default=None, description="How many copies the complete copy has, with `begin`."
    )
    lost: str = Field(
        default="", description="Why the sender may lack what it sent before, with `begin`."
    )
    after: _PushCursor | None = Field(
        default=None, description="The cursor that the copies come after."
    )
    current: Flag = Field(default=False, description="There is nothing further.")
    conflicts: str | None = Field(
        default=None, description="Tell conflicts after this one: authority, newline, origin."
    )


class NotificationQuery(Query):
    """The link that an event wakes."""

    link: str = Field(description="The id of a link of this node.")


class BucketDigests(AnswerBody):
    """The fingerprints of buckets of origins."""

    digestversion: int = Field(json_schema_extra={"const": DIGEST_VERSION})
    bits: int | None = Field(default=None, ge=0)
    buckets: list[tuple[Count, Count, int]] = Field(
        description="The number of a bucket (the first bits of the SHA-256 of authority, newline "
        "and origin), the number of entities in it, and the xor of the first 8 bytes of their "
        "digests, as signed integers."
    )


class DigestAuthorities(AnswerBody):
    """The authorities of entities and tombstones."""

    authorities: list[str]


class DigestSchemaIds(AnswerBody):
    """The first 100 schema ids that name several schemas within one context."""

    schemaids: list[SchemaIdConflict]


def _one_of(*models: type[AnswerBody]) -> Mapping[str, Any]:
    return {"anyOf": [{"$ref": f"#/components/schemas/{model.__name__}"} for model in models]}


_COPIES = (EntityLine, TombstoneLine, CursorLine)
_VERDICTS = (VerdictLine, PushEndLine)
_DIGESTS = (BucketDigests, DigestAuthorities, DigestSchemaIds)
_CSV = {
    "type": "string",
    "description": "The columns authority, origin, xid, epoch, deleted, digest, bucket, changedat "
    "(microseconds since 1970) and intact, with `signatures` also signature (hexadecimal) and "
    "signedby; a header, then a row for each entity and tombstone. If `ranges`, `authority`, "
    "`scope`, `type` or `label` is given, the last line is the cursor.",
}
COPY_LINES = Content(answered={LINES: _one_of(*_COPIES)}, models=_COPIES)
"""Copies, parents first, then the cursor."""

READ_CHANGES = Operation(
    "GET",
    "/replication/changes",
    Permission.FOLLOW,
    query=ChangesQuery,
    given={FOLLOWER: "Who follows, as JSON: `authority`, and optionally `card`."},
    content=COPY_LINES,
    refuses=(410, 429),
)
READ_SNAPSHOT = Operation(
    "GET",
    "/replication/snapshot",
    Permission.FOLLOW,
    query=CopyQuery,
    content=COPY_LINES,
    refuses=(429, 503),
)
READ_DIGESTS = Operation(
    "GET",
    "/replication/digests",
    Permission.FOLLOW,
    query=DigestsQuery,
    content=Content(
        answered={"application/json": _one_of(*_DIGESTS), "text/csv": _CSV}, models=_DIGESTS
    ),
    headers={"Concord-Cursor": "The end of the log at the time of the answer"},
    refuses=(429, 503),
)
FETCH = Operation(
    "POST",
    "/replication/fetch",
    Permission.FOLLOW,
    takes=WantedOrigins,
    content=COPY_LINES,
    is_repeatable=True,
)
PUSH = Operation(
    "POST",
    "/replication/entities",
    Permission.PUSH,
    requires=SENDER,
    query=PushQuery,
    content=Content(
        taken={LINES: _one_of(*_COPIES)},
        answered={LINES: _one_of(*_VERDICTS)},
        models=(*_COPIES, *_VERDICTS),
    ),
    is_optional=True,
    is_repeatable=True,
    refuses=(409, 503),
    description=f"At most {MOST_PUSHED} copies, in any order. The sender begins with a complete "
    "copy (`begin`, then copies without `after`, the last of them with a cursor), and goes on "
    "with `after` and the cursor before. A request without parameters and copies asks for the "
    "cursor and for the copies that were not applied, after an answer was lost.",
)
NOTIFY = Operation(
    "POST",
    "/notifications",
    Anyone.UNASKED,
    query=NotificationQuery,
    content=Content(taken={"*/*": {}}),
    is_optional=True,
    refuses=(410,),
    description="An event of the source, which is not read: it only wakes the link. OPTIONS grants "
    "any origin to send such events, if the link waits for some (http-webhook.md).",
)
GRANT_NOTIFICATIONS = Operation("OPTIONS", "/notifications", Anyone.UNASKED)
