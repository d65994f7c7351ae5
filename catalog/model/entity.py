"""The content of a catalog: live entities, and tombstones of deleted ones."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime
from typing import Any, NamedTuple

from catalog.model.caller import PublishedAuthor
from catalog.model.digest import bucket, digest_entity, digest_tombstone, fingerprint
from catalog.model.record import record
from catalog.model.tracecontext import TraceContext
from catalog.model.xid import Kind, Xid


class Origin(NamedTuple):
    """The global identity of an entity: the authority, and the entity's xid at the authority."""

    authority: str
    xid: str


@record
class Entity:
    """A live entity. The row of a resource is the meta entity, with the epoch of the meta.

    `attributes` holds the entity's own attributes: no ids (see `xid`), no times, no URLs, no counts
    and no children. `document` is set only if loaded or about to be written; `document_sha256` is
    set for every entity with a document.

    `replaced` holds the authority's values of attributes that a replica shows with different
    values; each name is in `attributes`, too. Rows that are read only for showing lack `replaced`.

    `damage` is the reason why the stored attributes could not be read; `attributes` is empty then.
    `signature` is the authority's signature of the digest, and `signedby` the id of the key; both
    may be missing. `trace` is the trace of the write, and `author` the author of the last change if
    the authority publishes authors, while a copy is on the way between catalogs.
    """

    xid: str
    kind: Kind
    authority: str
    origin: str
    epoch: int
    attributes: Mapping[str, Any]
    replaced: Mapping[str, Any] | None = None
    createdat: datetime
    modifiedat: datetime
    digest: bytes = b""
    document_sha256: bytes | None = None
    document: bytes | None = None
    damage: str = ""
    signature: bytes | None = None
    signedby: str = ""
    trace: TraceContext | None = field(default=None, compare=False, repr=False)
    author: PublishedAuthor | None = field(default=None, compare=False, repr=False)

    @property
    def path(self) -> Xid:
        return Xid.parse(self.xid)

    @property
    def fingerprint(self) -> int:
        return fingerprint(self.digest)

    @property
    def bucket(self) -> int:
        return bucket(self.authority, self.origin)

    @property
    def published(self) -> Mapping[str, Any]:
        """The attributes as written by the authority, equal in every copy."""
        return {**self.attributes, **self.replaced} if self.replaced else self.attributes

    def content_digest(self) -> bytes:
        """The digest computed from the content, which differs from `digest` after damage."""
        return digest_entity(
            authority=self.authority,
            origin=self.origin,
            epoch=self.epoch,
            attributes=self.published,
            createdat=self.createdat,
            modifiedat=self.modifiedat,
            document_sha256=self.document_sha256,
        )

    def is_intact(self) -> bool:
        """Whether the digest of the content can be computed and equals `digest`."""
        try:
            return not self.damage and self.content_digest() == self.digest
        # Damaged content may have no canonical form, and so no digest.
        except (TypeError, ValueError, RecursionError):
            return False

    def sealed(self) -> Entity:
        """The entity with a computed digest; a given `document` sets `document_sha256`, too."""
        hashed = self.document_sha256
        if self.document is not None:
            hashed = hashlib.sha256(self.document).digest()
        entity = self if hashed == self.document_sha256 else replace(self, document_sha256=hashed)
        return replace(entity, digest=entity.content_digest())


@record
class Tombstone:
    """The record of a deleted entity, signed like an entity.

    The epoch is one above the entity's last epoch. `trace` and `author` are those of an entity.
    """

    xid: str
    kind: Kind
    authority: str
    origin: str
    epoch: int
    deletedat: datetime
    signature: bytes | None = None
    signedby: str = ""
    trace: TraceContext | None = field(default=None, compare=False, repr=False)
    author: PublishedAuthor | None = field(default=None, compare=False, repr=False)

    @property
    def digest(self) -> bytes:
        return digest_tombstone(authority=self.authority, origin=self.origin, epoch=self.epoch)
