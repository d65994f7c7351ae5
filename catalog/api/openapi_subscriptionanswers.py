"""JSON Schemas of the answers of the Subscriptions API and of commands on subscriptions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from catalog.api.openapi_schemas import Json, reference
from catalog.model.signingkey import SignatureScheme
from catalog.model.sinkcredential import CredentialType
from catalog.rolerules import IdentityKind
from catalog.store.deadletters import DeadLetterState
from catalog.store.deliveryattempts import Outcome
from catalog.store.subscriptions import State

SHOWN = "subscription.shown"
SIGNING_KEY = "subscription.signingkey"
ATTEMPT = "subscription.attempt"
DEAD_LETTER = "subscription.deadletter"
WHOLE_DEAD_LETTER = "subscription.deadletter.whole"
REDELIVERED = "subscription.redelivered"
DELETED = "subscription.deleted"
SINK_ANSWER = "subscription.sinkanswer"
_STATUS = "subscription.status"
_COUNTS = "subscription.deadletters"
_EVENT = "subscription.event"

_TEXT: Json = {"type": "string"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_TIME: Json = {"type": "string", "format": "date-time"}
_NO_TEXT: Json = {"type": ["string", "null"]}
_NO_TIME: Json = {"type": ["string", "null"], "format": "date-time"}


def answer_components(protocolsettings: Json) -> dict[str, Json]:
    """The schemas by name.

    Args:
        protocolsettings: the schema of the settings of any protocol.
    """
    return {
        SHOWN: _shown(protocolsettings),
        _STATUS: _status(),
        _COUNTS: _object(dict.fromkeys(get_args(DeadLetterState), _COUNT)),
        SIGNING_KEY: _signing_key(),
        ATTEMPT: _attempt(),
        DEAD_LETTER: _dead_letter(),
        WHOLE_DEAD_LETTER: _dead_letter(event=reference(_EVENT)),
        REDELIVERED: _object(
            {"accepted": _about(_COUNT, "How many are due now"), "deadletters": reference(_COUNTS)}
        ),
        DELETED: _object({"deleted": _COUNT}),
        SINK_ANSWER: _sink_answer(),
        _EVENT: _event(),
    }


def _shown(protocolsettings: Json) -> Json:
    return _object(
        {
            "id": _TEXT,
            "source": {**_TEXT, "format": "uri"},
            "types": {"type": "array", "items": _TEXT},
            "config": reference("subscription._Config"),
            "filters": {"type": "array", "items": {"type": "object"}},
            "sink": _about(_TEXT, "Stars stand for the values in its query"),
            "sinkcredential": _credential(),
            "protocol": _TEXT,
            "protocolsettings": protocolsettings,
            "signingkeys": {"type": "array", "items": reference(SIGNING_KEY)},
            "status": reference(_STATUS),
        },
        optional=("source", "types", "config", "filters", "sinkcredential", "signingkeys"),
    )


def _credential() -> Json:
    kinds = {"type": "string", "enum": [*get_args(CredentialType)]}
    texts = ("identifier", "secret", "accesstoken", "accesstokentype", "refreshtoken")
    optional = {
        **dict.fromkeys((*texts, "refreshtokenendpoint"), _TEXT),
        "accesstokenexpiresutc": _TIME,
    }
    shown = _object({"credentialtype": kinds, **optional}, optional=optional)
    return _about(shown, "Stars stand for its secrets")


def _status() -> Json:
    rare = {
        "reason": _about(_TEXT, "Why it is in this state"),
        "createdby": _about(
            _object(
                {
                    "kind": {**_TEXT, "enum": [*get_args(IdentityKind)]},
                    "name": _TEXT,
                    "issuer": _TEXT,
                },
                optional=("name", "issuer"),
            ),
            "Whom it belongs to: its events are of what this caller may see",
        ),
        "initialevents": _TEXT,
        "refresh": _about(
            _object({"failures": _COUNT, "error": _TEXT}),
            "Why the access token could not be refreshed",
        ),
        "lost": _about(
            _object({"at": _TIME, "detail": _TEXT}),
            "Changes left the log before they were delivered",
        ),
    }
    return _object(
        {
            "state": {"type": "string", "enum": [*get_args(State)]},
            "createdat": _TIME,
            "failures": _about(_COUNT, "Failed attempts in a row"),
            "failingsince": _NO_TIME,
            "error": _about(_NO_TEXT, "Why the last attempt failed, while none has succeeded"),
            "nextattemptat": _NO_TIME,
            "delivered": _about(_COUNT, "Events that the sink accepted"),
            "deliveredat": _NO_TIME,
            "failed": _about(_COUNT, "Events that became dead letters"),
            "failedattempts": _COUNT,
            "failedat": _NO_TIME,
            "failedcause": _NO_TEXT,
            "lag": _about(_COUNT, "Changes after the cursor; 1000 stands for that many or more"),
            "lagseconds": {"type": "number", "minimum": 0},
            "oldestundelivered": _NO_TIME,
            "deadletters": reference(_COUNTS),
            **rare,
        },
        optional=rare,
    )


def _signing_key() -> Json:
    optional = {
        "publickey": _about(_TEXT, "What verifies the signatures of an ed25519 key"),
        "secret": _about(_TEXT, "Of hmac-sha256, in the answer that made the key only"),
        "endsat": _TIME,
    }
    kinds = {"type": "string", "enum": [*get_args(SignatureScheme)]}
    members = {"id": _TEXT, "signature": kinds, "createdat": _TIME, **optional}
    return _object(members, optional=optional)


def _attempt() -> Json:
    return _object(
        {
            "number": _COUNT,
            "at": _TIME,
            "events": _COUNT,
            "outcome": _outcome(),
            "reason": _about(_TEXT, "The sink's answer"),
            "milliseconds": _COUNT,
        }
    )


def _dead_letter(**more: Json) -> Json:
    return _object(
        {
            "number": _COUNT,
            "eventid": _TEXT,
            "subject": _TEXT,
            "at": _about(_TIME, "When it failed last"),
            "attempts": _COUNT,
            "reason": _TEXT,
            "state": {"type": "string", "enum": [*get_args(DeadLetterState)]},
            **more,
        }
    )


def _sink_answer() -> Json:
    members = {"outcome": _outcome(), "answer": _TEXT, "milliseconds": _COUNT}
    return _object({**members, "event": reference(_EVENT)})


def _outcome() -> Json:
    return {"type": "string", "enum": [*get_args(Outcome)]}


def _event() -> Json:
    required = ("specversion", "id", "source", "type")
    shown = _object({name: {**_TEXT, "minLength": 1} for name in required})
    return _about(shown, "An event in the JSON format of CloudEvents")


def _object(properties: dict[str, Json], *, optional: Iterable[str] = ()) -> Json:
    needed = [name for name in properties if name not in {*optional}]
    return {"type": "object", "required": needed, "properties": properties}


def _about(schema: Json, description: str) -> Json:
    return {**schema, "description": description}
