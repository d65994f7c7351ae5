"""JSON Schemas of what catalogs tell each other, and of the bodies that operators send."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from catalog.api.openapi_schemas import Json, reference
from replication import wire

_PREFIX = "replication."

TEXT: Json = {"type": "string"}
COUNT: Json = {"type": "integer", "minimum": 0}
NO_TEXT: Json = {"type": ["string", "null"]}
NO_COUNT: Json = {"type": ["integer", "null"], "minimum": 0}
TIME: Json = {"type": "string", "format": "date-time"}
NO_TIME: Json = {"type": ["string", "null"], "format": "date-time"}

_BODIES = (
    wire.LinkBody,
    wire.ChangeBody,
    wire.AcceptanceBody,
    wire.PinBody,
    wire.AllowBody,
    wire.PauseBody,
    wire.ResetBody,
)


def body(model: type) -> Json:
    """A reference to the schema of a body."""
    return reference(f"{_PREFIX}{model.__name__}")


def object_of(properties: dict[str, Json], *, optional: Iterable[str] = ()) -> Json:
    """An object that always has these members, save the optional ones."""
    needed = [name for name in properties if name not in {*optional}]
    return {"type": "object", "required": needed, "properties": properties}


def about(schema: Json, description: str) -> Json:
    return {**schema, "description": description}


def array_of(item: Json) -> Json:
    return {"type": "array", "items": item}


def body_schemas() -> dict[str, Json]:
    """The schemas of the bodies of requests, by name."""
    made: dict[str, Json] = {}
    template = f"#/components/schemas/{_PREFIX}{{model}}"
    for model in _BODIES:
        schema = model.model_json_schema(ref_template=template)
        definitions = schema.pop("$defs", {})
        made |= {f"{_PREFIX}{name}": each for name, each in definitions.items()}
        if "description" in schema:
            schema["description"] = inspect.cleandoc(schema["description"])
        made[f"{_PREFIX}{model.__name__}"] = schema
    return made
