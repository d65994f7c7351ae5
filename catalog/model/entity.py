"""The content of a catalog: live entities, and tombstones of deleted ones."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime
from typing import Any, NamedTuple

from catalog.model.digest import bucket, digest_entity, digest_tombstone, fingerprint
from catalog.model.record import record
from catalog.model.tracecontext import TraceContext
from catalog.model.xid import Kind, Xid


class Origin(NamedTuple):
    """An entity's identity everywhere: its authority and the xid that it has there."""

    authority: str
    xid: str


@record
class Entity:
    """One live entity. A resource's row is its meta entity, so its epoch is the meta's.

    `attributes` are the entity's own: no ids (they are in `xid`), no times, no URLs,
    no counts and no children. `document` is set only where it was loaded or is about to be
    written; `document_sha256` is set whenever there is one.

    `replaced` has those attributes as the authority wrote them that a replica shows otherwise; all
    of them are among `attributes`, too. It is missing where rows are read for showing only.

    `damage` says why the stored attributes could not be read; there are none then. `signature` is
    that of its authority over the digest, and `signedby` the id of the key; both may be missing.
    `trace` is that of the write of this state, while a copy is on its way between catalogs.
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
        """The attributes as the authority wrote them, which every copy has."""
        return {**self.attributes, **self.replaced} if self.replaced else self.attributes

    def content_digest(self) -> bytes:
        """The digest computed from the content, which may differ from a damaged `digest`."""
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
        """Whether the content has the entity's digest, and has one at all."""
        try:
            return not self.damage and self.content_digest() == self.digest
        except (TypeError, ValueError, RecursionError):
            return False

    def sealed(self) -> Entity:
        """The entity with its digest computed; a given `document` sets its hash too."""
        hashed = self.document_sha256
        if self.document is not None:
            hashed = hashlib.sha256(self.document).digest()
        entity = self if hashed == self.document_sha256 else replace(self, document_sha256=hashed)
        return replace(entity, digest=entity.content_digest())


@record
class Tombstone:
    """The record of a deleted entity, signed as one. Its epoch is one above the entity's last.

    `trace` is as that of an entity.
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

    @property
    def digest(self) -> bytes:
        return digest_tombstone(authority=self.authority, origin=self.origin, epoch=self.epoch)
