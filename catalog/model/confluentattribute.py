"""The attribute of schema groups and versions that the Confluent dialect alone sets.

A version's attribute holds the id and the GUID under which Kafka messages name the text, and
everything else that the API knows of the version; a group's holds settings. The attribute is
digested, signed and replicated as every attribute is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalog.model.xid import Xid

CONFLUENT = "confluent"
SCHEMA_GROUPS = "schemagroups"
SCHEMAS = "schemas"


_KEPT = frozenset({CONFLUENT})


def kept_names(xid: Xid) -> frozenset[str]:
    """The attributes of a group or version that bodies of requests cannot set."""
    return _KEPT if xid.groups == SCHEMA_GROUPS else frozenset()


def schema_id_of(attributes: Mapping[str, Any]) -> int | None:
    """The id of a version for Kafka messages; `None` for a version without one."""
    kept = attributes.get(CONFLUENT)
    id = kept.get("id") if isinstance(kept, Mapping) else None
    return id if type(id) is int else None
