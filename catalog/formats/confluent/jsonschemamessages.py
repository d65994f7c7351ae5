"""Names what keeps a JSON schema from reading what another allows, in Confluent's words."""

from __future__ import annotations

import re
from typing import NamedTuple

_ABSENT = "The keyword at path '{}' in the {} schema is not present in the {} schema"
_MORE = "The value at path '{}' in the {} schema is more than its value in the {} schema"
_LESS = "The value at path '{}' in the {} schema is less than its value in the {} schema"
_VALUE = "The value at path '{}' is different between the {} and {} schema"
_FEWER = (
    "An array or combined type at path '{}' has fewer elements in the {} schema than the {} schema"
)
_LONGER = (
    "An array or combined type at path '{}' has more elements in the {} schema than the {} schema"
)
_TYPE = "A type at path '{}' is different between the {} schema and the {} schema"
_OPEN = (
    "The {1} schema has an open content model and has a property or item at path '{0}' "
    "which is missing in the {2} schema"
)
_UNOPEN = (
    "The {1} schema has an unopen content model and has a required property at path '{0}' "
    "which is missing in the {2} schema"
)
_CLOSED = (
    "The {1} schema has a closed content model and is missing a property or item present "
    "at path '{0}' in the {2} schema"
)
_UNCOVERED_REMOVAL = (
    "A property or item is missing in the {1} schema but present at path '{0}' in the {2} schema "
    "and is not covered by its partially open content model"
)
_UNCOVERED_ADDITION = (
    "The {1} schema has a property or item at path '{0}' which is missing in the {2} schema "
    "and is not covered by its partially open content model"
)
# The first pattern that finds the type of a difference gives the message.
_MESSAGES = (
    (r"^SCHEMA_ADDED$", ""),
    (r"_TO_OPEN_CONTENT_MODEL$", _OPEN),
    (r"_TO_UNOPEN_CONTENT_MODEL$", _UNOPEN),
    (r"_FROM_CLOSED_CONTENT_MODEL$", _CLOSED),
    (r"_REMOVED_NOT_COVERED_", _UNCOVERED_REMOVAL),
    (r"_ADDED_NOT_COVERED_", _UNCOVERED_ADDITION),
    (r"^(PATTERN|MULTIPLE_OF|DEPENDENCY_ARRAY)_CHANGED$", _VALUE),
    (r"^TYPE_NARROWED$|_CHANGED$", _TYPE),
    (r"_ADDED$|_REMOVED$", _ABSENT),
    (r"_INCREASED$|_EXPANDED$", _MORE),
    (r"_DECREASED$", _LESS),
    (r"_NARROWED$", _FEWER),
    (r"_EXTENDED$", _LONGER),
)


class Incompatibility(NamedTuple):
    """A difference between schemas, with the place in the schema as a path."""

    type: str
    path: tuple[str, ...] = ()

    def message(self, reader: str, writer: str) -> str:
        """Return Confluent's message, which calls the schemas by the names."""
        template = next(text for pattern, text in _MESSAGES if re.search(pattern, self.type))
        description = template.format("#/" + "/".join(self.path), reader, writer)
        return f'{{errorType:"{self.type}", description:"{description}"}}'
