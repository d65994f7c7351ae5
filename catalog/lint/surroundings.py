"""What the rules of the domains can see of a catalog in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from catalog.lint.memory import Memory
from catalog.model.xid import Xid
from catalog.rules import Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Everything that documents, and what they are held against, say.

    Args:
        declared: the xids in the documents, of what a catalog would refuse, too.
        groups: those of which everything is known, so what is not here is nowhere.
        gone: the xids of what the documents had before, and have no more.
        bases: URLs of the catalog's root, without a trailing slash.
    """

    memory: Memory
    declared: Collection[str]
    groups: frozenset[str]
    gone: Collection[str] = frozenset()
    bases: Sequence[str] = ()

    def find(self, xid: Xid) -> Subject | None:
        found = None if self._is_gone(xid) else self.memory.version(xid)
        return Subject(xid=found.path, attributes=found.attributes) if found is not None else None

    def is_absent(self, xid: Xid) -> bool:
        if self._is_gone(xid):
            return True
        is_here = str(xid) in self.declared or str(xid) in self.memory.entities
        return not is_here and str(xid.group) in self.groups

    def _is_gone(self, xid: Xid) -> bool:
        above = (xid, xid.resource, xid.group) if xid.rid else (xid,)
        return any(str(each) in self.gone for each in above)
