"""Gives the text in metadata headers the types that the model has for it.

Source: core/http.md, "HTTP Header Values"; core/spec.md, "Attributes".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from catalog.model.schema import Attribute, value_text

_INTEGER = re.compile(r"-?\d{1,16}", re.ASCII)
_DECIMAL = re.compile(r"-?\d{1,20}(\.\d{1,20})?([Ee][+-]?\d{1,3})?", re.ASCII)


def typed_metadata(
    texts: Mapping[str, str | None], definitions: Mapping[str, Attribute]
) -> dict[str, Any]:
    """Attributes from headers, by their names; what has a key behind a dot is part of a map.

    Text stays what it is where the model says nothing else of it; `None` deletes.
    """
    known = known_definitions(texts, definitions)
    body: dict[str, Any] = {}
    for name, text in texts.items():
        attribute, dot, key = name.partition(".")
        definition = known.get(attribute, known.get("*"))
        if not dot:
            body[attribute] = _typed(text, definition)
        elif isinstance(inner := body.setdefault(attribute, {}), dict):
            item = definition.item if definition is not None else None
            inner[key] = _typed(text, item)
    return body


def known_definitions(
    texts: Mapping[str, str | None], definitions: Mapping[str, Attribute]
) -> Mapping[str, Attribute]:
    """The definitions and what values add to them; any value can be there that is not given.

    Args:
        texts: values as headers have them, by the names of their attributes.
    """
    waiting = [one for one in definitions.values() if one.siblings]
    if not waiting:
        return definitions
    known = dict(definitions)
    for one in waiting:
        text = texts.get(one.name)
        key = None if text is None else value_text(_typed(text, one))
        for condition, siblings in one.siblings.items():
            if key is None or key == condition:
                waiting += [each for each in siblings.values() if each.siblings]
                known = {**siblings, **known}
    return known


def _typed(text: str | None, definition: Attribute | None) -> Any:
    if text is None:
        return None
    match definition.type if definition is not None else "string":
        case "boolean" if text in ("true", "false"):
            return text == "true"
        case "integer" | "uinteger" if _INTEGER.fullmatch(text):
            return int(text)
        case "decimal" if _DECIMAL.fullmatch(text):
            return int(text) if _INTEGER.fullmatch(text) else float(text)
        case _:
            return text
