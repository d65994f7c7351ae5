"""The attribute of schema groups and versions that the Confluent dialect alone sets.

A version's attribute holds the id and the GUID under which Kafka messages name the text, and
everything else that the API knows of the version; a group's holds settings. The attribute is
digested, signed and replicated as every attribute is.

A name of a context or subject that is no legal id has an id derived from it, and the entity keeps
the name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from catalog.model.xid import Xid, is_valid_id

CONFLUENT = "confluent"
SCHEMA_GROUPS = "schemagroups"
SCHEMAS = "schemas"

CONFLICTS_ADVICE = (
    "Readers that name no subject get 409. Register one of the schemas anew, and let producers use "
    "the new id (docs/confluent.md, Ids)."
)
_MOST_LEGIBLE = 80
_ILLEGAL = re.compile(r"[^A-Za-z0-9\-._]+")
_KEPT = frozenset({CONFLUENT})
_MOST_NAMED, _LONGEST_NAMED = 4, 80


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaIdConflict:
    """A schema id that names several schemas within one context.

    Args:
        versions: the first version of each schema: the names of the subjects, by xid.
    """

    id: int
    versions: Mapping[str, str]

    @property
    def text(self) -> str:
        """The conflict as a sentence, which names the first versions."""
        named = [
            f"{subject[:_LONGEST_NAMED]} version {path.vid} in {path.gid}"
            for xid, subject in self.versions.items()
            for path in [Xid.parse(xid)]
        ]
        more = ["…"] if len(named) > _MOST_NAMED else []
        shown = ", ".join([*named[:_MOST_NAMED], *more])
        return f"The schema id {self.id} names several schemas: {shown}."


def kept_names(xid: Xid) -> frozenset[str]:
    """The attributes of a group or version that bodies of requests cannot set."""
    return _KEPT if xid.groups == SCHEMA_GROUPS else frozenset()


def schema_id_of(attributes: Mapping[str, Any]) -> int | None:
    """The id of a version for Kafka messages; `None` for a version without one."""
    kept = attributes.get(CONFLUENT)
    id = kept.get("id") if isinstance(kept, Mapping) else None
    return id if type(id) is int else None


def derived_id(name: str) -> str:
    """The id of an entity whose name is no legal id, or differs from another id in case only."""
    legible = _ILLEGAL.sub("-", name).strip("-.")[:_MOST_LEGIBLE]
    return f"{legible or 'subject'}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def possible_ids(name: str) -> tuple[str, ...]:
    """The ids that the entity of a name may have, the preferred id first."""
    derived = derived_id(name)
    return (name, derived) if is_valid_id(name) else (derived,)
