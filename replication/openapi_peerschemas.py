"""JSON Schemas of what catalogs tell each other, and of the bodies that operators send."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from catalog.api.openapi_schemas import Json, reference
from catalog.model.authoritykey import MOST_KEYS
from catalog.model.digest import DIGEST_VERSION
from replication import wire
from replication.decide import Verdict

_PREFIX = "replication."
COPY = f"{_PREFIX}copy"
END = f"{_PREFIX}end"
LINE = f"{_PREFIX}line"
HANDSHAKE = f"{_PREFIX}handshake"
BUCKETS = f"{_PREFIX}buckets"
AUTHORITIES = f"{_PREFIX}authorities"
VERDICT = f"{_PREFIX}verdict"
PUSHED = f"{_PREFIX}pushed"
KEYS = f"{_PREFIX}keys"
LEARNT = f"{_PREFIX}learnt"
_HISTORY = f"{_PREFIX}keyhistory"

TEXT: Json = {"type": "string"}
COUNT: Json = {"type": "integer", "minimum": 0}
NO_TEXT: Json = {"type": ["string", "null"]}
NO_COUNT: Json = {"type": ["integer", "null"], "minimum": 0}
TIME: Json = {"type": "string", "format": "date-time"}
NO_TIME: Json = {"type": ["string", "null"], "format": "date-time"}
_URI: Json = {"type": "string", "minLength": 1, "maxLength": 1024}
_DIGEST: Json = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_BASE64: Json = {"type": "string", "contentEncoding": "base64"}
_KEY_ID: Json = {"type": "string", "pattern": "^[1-9][0-9]{0,8}-[0-9a-f]{16}$"}

_BODIES = (
    wire.LinkBody,
    wire.ChangeBody,
    wire.AcceptanceBody,
    wire.PinBody,
    wire.AllowBody,
    wire.PauseBody,
    wire.ResetBody,
    wire.OriginsBody,
    wire.KeysBody,
    wire.SigningBody,
    wire.RotateBody,
    wire.TrustBody,
    wire.ReconciliationBody,
    wire.RecoveryBody,
    wire.ResumeBody,
    wire.HandoverBody,
    wire.OfferBody,
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


def peer_schemas() -> dict[str, Json]:
    """The schemas of the protocol between two catalogs, by name."""
    return {
        HANDSHAKE: _handshake(),
        COPY: {"oneOf": [_entity(), _tombstone()]},
        END: _end(),
        LINE: {"anyOf": [reference(COPY), reference(END)]},
        BUCKETS: _buckets(),
        AUTHORITIES: object_of({"authorities": array_of(TEXT)}),
        VERDICT: _verdict(),
        PUSHED: {"anyOf": [reference(VERDICT), _push_end()]},
        _HISTORY: _history(),
        KEYS: object_of({"keys": array_of(reference(_HISTORY))}),
        LEARNT: object_of({"learnt": about(COUNT, "How many histories were new")}),
    }


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


def _handshake() -> Json:
    counted = about(COUNT, "The number of entities, if `count` asks for it")
    return object_of(
        {
            "instance": about(
                {"type": "string", "format": "uuid"}, "Of the log: another one has other cursors"
            ),
            "incarnation": about(
                {"type": "string", "format": "uuid"}, "The last start that the database has noted"
            ),
            "authority": about(_URI, "Whose the catalog's own entities are"),
            "base": about(TEXT, "The URL of the catalog"),
            "software": TEXT,
            "digestversion": about({"const": DIGEST_VERSION}, "The rule of digests"),
            "log": object_of({"dropped": TEXT, "now": TEXT}),
            "offers": about(array_of(TEXT), "Parts of this protocol; unknown ones are ignored"),
            "allowances": about(
                {"type": "object", "additionalProperties": TEXT},
                "What operators have allowed authorities to lose, as digests of questions",
            ),
            "pushbytes": about(COUNT, "The largest body of copies that it takes"),
            "entities": counted,
        },
        optional=("entities",),
    )


def _identity() -> dict[str, Json]:
    return {
        "xid": about(TEXT, "As `origin`"),
        "kind": {"enum": ["group", "resource", "version"]},
        "authority": _URI,
        "origin": about({"type": "string", "pattern": "^/"}, "The path at the authority"),
        "epoch": about(COUNT, "The authority's; a later copy has a higher one"),
        "digest": about(_DIGEST, "SHA-256 of the canonical form (docs/architecture.md, Digests)"),
        "signature": about(_BASE64, "Of the digest, by ed25519 (docs/signing.md)"),
        "signedby": about(_KEY_ID, "The id of the authority's key"),
    }


def _entity() -> Json:
    members = {
        **_identity(),
        "createdat": TIME,
        "modifiedat": TIME,
        "attributes": {"type": "object"},
        "document": about(_BASE64, "The bytes of the document of a version, if it has one"),
    }
    return object_of(members, optional=("signature", "signedby", "document"))


def _tombstone() -> Json:
    members = {**_identity(), "deleted": {"const": True}, "deletedat": TIME}
    return object_of(members, optional=("signature", "signedby"))


def _end() -> Json:
    left = about(COUNT, "About how many changes come after it, if `behind` asks for it")
    ended = object_of(
        {"cursor": about(TEXT, "Where to go on; opaque"), "behind": left}, optional=("behind",)
    )
    return about(
        {**ended, "additionalProperties": False},
        "The last line of a complete answer; without it, the answer was cut",
    )


def _buckets() -> Json:
    triple = {"type": "array", "prefixItems": [COUNT, COUNT, {"type": "integer"}], "items": False}
    return object_of(
        {
            "digestversion": {"const": DIGEST_VERSION},
            "bits": COUNT,
            "buckets": about(
                array_of(triple),
                "The number of a bucket (the first bits of the SHA-256 of authority, newline and "
                "origin), the number of entities in it, and the xor of the first 8 bytes of their "
                "digests, as signed integers",
            ),
        },
        optional=("bits",),
    )


def _verdict() -> Json:
    verdicts = {"enum": [each.value for each in Verdict]}
    return object_of(
        {
            "authority": TEXT,
            "origin": TEXT,
            "epoch": COUNT,
            "verdict": verdicts,
            "xid": about(TEXT, "The path at the target, if it is another one"),
            "detail": about(TEXT, "Why it is a conflict"),
        },
        optional=("xid", "detail"),
    )


def _push_end() -> Json:
    return object_of(
        {
            "cursor": about(
                {"type": ["string", "null"]}, "The last one that the target has; null for none"
            ),
            "changes": COUNT,
            "doubts": about({"type": "boolean"}, "Whether only a complete copy will do"),
        }
    )


def _history() -> Json:
    entry = object_of(
        {
            "key": about({"type": "string", "pattern": "^ed25519:"}, "`ed25519:NUMBER:BASE64URL`"),
            "id": _KEY_ID,
            "createdat": TIME,
            "retiredat": TIME,
            "revokedat": about(TIME, "Nothing is valid any more that it has signed"),
            "endorsement": about(TEXT, "The signature of the key before it, in base64url"),
        },
        optional=("retiredat", "revokedat", "endorsement"),
    )
    return object_of(
        {
            "authority": _URI,
            "at": TIME,
            "keys": {"type": "array", "items": entry, "minItems": 1, "maxItems": MOST_KEYS},
            "signature": about(TEXT, "Of the last key over the rest, in base64url"),
        }
    )
