"""Describes the operations on subscriptions as OpenAPI: what each takes, and each status of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from catalog.api import openapi_subscriptionanswers as answers
from catalog.api.openapi_operations import JSON_BODY, LIMIT, content, described_operation
from catalog.api.openapi_schemas import Json, reference
from catalog.api.openapi_subscriptions import SUBSCRIPTION
from catalog.subscriptions.commandbody import LONGEST_TEXT
from catalog.subscriptions.signingkeys import DEFAULT_OVERLAP_SECONDS, LONGEST_OVERLAP_SECONDS

_ONE = "/subscriptions/{id}"
_DEAD = f"{_ONE}/deadletters"
_KEYS = f"{_ONE}/signingkeys"
_REFUSED: Mapping[int, str] = {
    400: "The request is not as it is described here, or names what there cannot be.",
    404: "There is no such subscription, or nothing of this kind below it.",
    409: "What there is does not allow it; the error document says what to do.",
    412: "The subscription has another tag than the one in If-Match.",
    413: "The definition is larger than this node accepts.",
    429: "There are too many of these requests; Retry-After says when the next may come.",
}
_TEXT: Json = {"type": "string"}
_TAG: Json = {"ETag": {"description": "Its tag, for If-Match", "schema": _TEXT}}
_NEXT: Json = {"Link": {"description": 'The next page, as `rel="next"`', "schema": _TEXT}}
_PLACE: Json = {"Location": {"description": "The URL of what was made", "schema": _TEXT}}
_IF_MATCH: Json = {"name": "If-Match", "in": "header", "schema": _TEXT}
_CONSENT_KEY: Json = {"name": "key", "in": "query", "required": True, "schema": _TEXT}
_RATE: Json = {"name": "WebHook-Allowed-Rate", "in": "header", "schema": _TEXT}

_SHOWN = reference(answers.SHOWN)
_LETTER = reference(answers.WHOLE_DEAD_LETTER)
_WANTED = reference(SUBSCRIPTION)


def operation_on_subscriptions(method: str, path: str) -> Json | None:
    """One operation, without its summary; `None` if it is not one on subscriptions."""
    return _OPERATIONS.get((method, path))


def _operation(
    done: Mapping[int, Json],
    refused: Collection[int],
    *,
    parameters: Collection[Json] = (),
    taken: Json | None = None,
    is_needed: bool = False,
) -> Json:
    """Describe an operation, as `described_operation`, with the schema of the body in `taken`."""
    return described_operation(
        done,
        {status: _REFUSED[status] for status in refused},
        parameters=parameters,
        taken=None if taken is None else content(JSON_BODY, taken),
        is_needed=is_needed,
    )


def _done(schema: Json, description: str = "Done.", *, headers: Json | None = None) -> Json:
    shown: Json = {"description": description, "content": content(JSON_BODY, schema)}
    return {**shown, "headers": headers} if headers else shown


def _read(schema: Json, headers: Json | None = None) -> dict[int, Json]:
    """The answers to a read of which a client may have a copy."""
    return {
        200: _done(schema, headers=headers),
        304: {"description": "Nothing is new since its ETag."},
    }


def _page_of(name: str) -> dict[int, Json]:
    return _read({"type": "array", "items": reference(name)}, _NEXT)


def _body(**members: Json) -> Json:
    return {"type": "object", "properties": members, "additionalProperties": False}


def _consent() -> Json:
    done = {"description": "Events will be sent.", "content": content("text/plain", _TEXT)}
    return _operation({200: done}, (400, 404, 429), parameters=(_CONSENT_KEY, _RATE))


def _command(done: Mapping[int, Json], taken: Json, *, is_needed: bool = False) -> Json:
    """A command that changes the course of a delivery."""
    return _operation(
        done,
        (400, 404, 409, 412),
        parameters=(_IF_MATCH,),
        taken=taken,
        is_needed=is_needed,
    )


_SHOWN_NOW = {200: _done(_SHOWN, headers=_TAG)}
_PENDING = _done(_SHOWN, "Done; the sink has yet to consent before it gets events.", headers=_TAG)
_NOW_OR_LATER = {**_SHOWN_NOW, 202: _PENDING}
_ACCEPTED = _done(reference(answers.REDELIVERED), "They are due; the delivery follows.")
_REASON: Json = {"type": ["string", "null"], "maxLength": LONGEST_TEXT}
_SINCE: Json = {"type": ["string", "null"], "format": "date-time"}
_FROM: Json = {
    "type": "string",
    "maxLength": LONGEST_TEXT,
    "description": "now, earliest, the sequence of an event, or a time",
}
_OVERLAP: Json = {
    "type": "integer",
    "minimum": 0,
    "maximum": LONGEST_OVERLAP_SECONDS,
    "default": DEFAULT_OVERLAP_SECONDS,
    "description": "How long the old key signs beside the new one",
}

_OPERATIONS: Mapping[tuple[str, str], Json] = {
    ("GET", "/subscriptions"): _operation(_page_of(answers.SHOWN), (400,), parameters=(LIMIT,)),
    ("POST", "/subscriptions"): _operation(
        {
            201: _done(_SHOWN, "Created.", headers={**_TAG, **_PLACE}),
            202: {**_PENDING, "headers": {**_TAG, **_PLACE}},
        },
        (400, 409, 413),
        taken=_WANTED,
        is_needed=True,
    ),
    ("GET", _ONE): _operation(_SHOWN_NOW, (404,)),
    ("PUT", _ONE): _operation(
        _NOW_OR_LATER,
        (400, 404, 412, 413),
        parameters=(_IF_MATCH,),
        taken=_WANTED,
        is_needed=True,
    ),
    ("DELETE", _ONE): _operation(
        {200: _done(_SHOWN, headers=_TAG)}, (404, 412), parameters=(_IF_MATCH,)
    ),
    ("GET", f"{_ONE}/consent"): _consent(),
    ("POST", f"{_ONE}/consent"): _consent(),
    ("GET", _KEYS): _operation(
        _read({"type": "array", "items": reference(answers.SIGNING_KEY)}), (404,)
    ),
    ("POST", _KEYS): _operation(
        {201: _done(reference(answers.SIGNING_KEY), "Created.", headers=_PLACE)},
        (400, 404, 409, 412),
        parameters=(_IF_MATCH,),
        taken=_body(overlapseconds=_OVERLAP),
    ),
    ("DELETE", f"{_KEYS}/{{key}}"): _operation(
        {204: {"description": "Done."}}, (404, 409, 412), parameters=(_IF_MATCH,)
    ),
    ("POST", f"{_ONE}/pause"): _command(_NOW_OR_LATER, _body(reason=_REASON)),
    ("POST", f"{_ONE}/resume"): _command(_NOW_OR_LATER, _body()),
    ("POST", f"{_ONE}/replay"): _command(
        _SHOWN_NOW, {**_body(**{"from": _FROM}), "required": ["from"]}, is_needed=True
    ),
    ("POST", f"{_ONE}/test"): _operation(
        {200: _done(reference(answers.SINK_ANSWER), "The sink's answer.")}, (404, 409, 429)
    ),
    ("GET", f"{_ONE}/attempts"): _operation(
        _page_of(answers.ATTEMPT), (400, 404), parameters=(LIMIT,)
    ),
    ("GET", _DEAD): _operation(_page_of(answers.DEAD_LETTER), (400, 404), parameters=(LIMIT,)),
    ("DELETE", _DEAD): _operation(
        {200: _done(reference(answers.DELETED))}, (404, 412), parameters=(_IF_MATCH,)
    ),
    ("POST", f"{_DEAD}/redeliver"): _operation(
        {202: _ACCEPTED},
        (400, 404, 409, 412),
        parameters=(_IF_MATCH,),
        taken=_body(since=_SINCE),
    ),
    ("GET", f"{_DEAD}/{{number}}"): _operation(_read(_LETTER), (404,)),
    ("DELETE", f"{_DEAD}/{{number}}"): _operation(
        {200: _done(_LETTER)}, (404, 412), parameters=(_IF_MATCH,)
    ),
    ("POST", f"{_DEAD}/{{number}}/redeliver"): _operation(
        {202: _ACCEPTED}, (404, 409, 412), parameters=(_IF_MATCH,)
    ),
}
