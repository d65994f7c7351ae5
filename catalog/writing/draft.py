"""An entity while an interaction works on it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from catalog.model.digest import canonical
from catalog.model.entity import Entity
from catalog.model.xid import Xid


@dataclass(slots=True)
class Draft:
    """The state that an entity will have. `before` is `None` for one that is new.

    Its epoch will be above the one before and above `least_epoch`. One that `is_noted` is
    written though nobody updated it: its time stays. `named_time` is the `modifiedat` that a
    request names where it writes only changes. One that `is_erased` has no document because a
    request asked for just that.
    """

    xid: Xid
    before: Entity | None
    attributes: dict[str, Any]
    createdat: datetime
    modifiedat: datetime
    document_sha256: bytes | None = None
    document: bytes | None = None
    least_epoch: int = 0
    named_time: datetime | None = None
    is_touched: bool = False
    is_noted: bool = False
    is_deleted: bool = False
    is_erased: bool = False

    @classmethod
    def of(cls, entity: Entity) -> Draft:
        return cls(
            xid=entity.path,
            before=entity,
            attributes=dict(entity.attributes),
            createdat=entity.createdat,
            modifiedat=entity.modifiedat,
            document_sha256=entity.document_sha256,
        )

    @classmethod
    def new(cls, xid: Xid, now: datetime) -> Draft:
        return cls(xid=xid, before=None, attributes={}, createdat=now, modifiedat=now)

    @property
    def is_new(self) -> bool:
        return self.before is None

    @property
    def is_written(self) -> bool:
        """Whether anything about it is another than before."""
        return self.is_touched or self.is_noted or self.is_new

    @property
    def shown_as(self) -> str:
        """The xid of the entity that its attributes belong to: a resource's are its meta's."""
        return f"{self.xid}/meta" if self.xid.kind == "resource" else str(self.xid)

    @property
    def had_document(self) -> bool:
        return self.before is not None and self.before.document_sha256 is not None

    @property
    def content_sha256(self) -> bytes | None:
        """Of the document that the version will have; `None` if it will have none."""
        if self.document is not None:
            return hashlib.sha256(self.document).digest()
        return self.document_sha256

    @property
    def is_changed(self) -> bool:
        """Whether it differs from what it was in more than its epoch and `modifiedat`."""
        before = self.before
        return (
            before is None
            or self.createdat != before.createdat
            or self.content_sha256 != before.document_sha256
            or canonical(self.attributes) != canonical(before.attributes)
        )

    @property
    def xref(self) -> str | None:
        """What a cross reference refers to; `None` for every other entity."""
        return self.attributes.get("xref") if self.xid.kind == "resource" else None

    def set_document(self, body: bytes | None) -> None:
        """Give the version a document, or take it away with `None`."""
        self.document = body
        self.document_sha256 = None

    def keep_document(self) -> None:
        """Leave the version the document that it had."""
        assert self.before is not None, "what is new had none"
        self.document = None
        self.document_sha256 = self.before.document_sha256
