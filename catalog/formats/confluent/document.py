"""A schema of Confluent's Schema Registry with what it refers to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class SchemaDocument(NamedTuple):
    """The text of a schema, and the texts of its references by name, dependencies first."""

    text: str
    references: Mapping[str, str]
