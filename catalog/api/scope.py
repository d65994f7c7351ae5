"""What of the catalog an answer shows: everything, or what filters leave over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from catalog.model.filter import EXCLUDE_ALL
from catalog.reading.visible import Visible

# What a query may hold as it is (RFC 3986, 3.4), save `+` and `&`, which mean something else.
_PLAIN = "=,.*!:/'@~()"


@dataclass(frozen=True, slots=True)
class Scope:
    """What filters leave over; without any, everything."""

    visible: Visible | None = None

    @property
    def roots(self) -> Sequence[str] | None:
        """What was found, which is shown with all that is below and above; `None` if nothing
        was looked for."""
        return None if self.visible is None else self.visible.roots

    def shows(self, xid: str) -> bool:
        """Whether an entity is shown."""
        return self.visible is None or self.visible.shows(xid)

    def ids(self, collection: str) -> set[str] | None:
        """Which entities of a collection are shown; `None` for all of them."""
        return None if self.visible is None else self.visible.within(collection)

    def count(self, collection: str) -> int | None:
        """How many entities of a collection are shown; `None` for as many as there are."""
        ids = self.ids(collection)
        return None if ids is None else len(ids)

    def query(self, collection: str, count: int) -> str:
        """What a collection's URL needs so that it shows the same (core/spec.md, "Filter
        Flag")."""
        if self.visible is None:
            return ""
        texts = self.visible.filter_of(collection) if count else [EXCLUDE_ALL]
        filters = "&".join(f"filter={quote(text, safe=_PLAIN)}" for text in texts)
        return f"?{filters}" if filters else ""


UNFILTERED = Scope()
