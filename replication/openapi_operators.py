"""Describes what operators do to links, keys and recoveries as OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from catalog.api.openapi_operations import JSON_BODY, LIMIT, content
from catalog.api.openapi_schemas import Json, reference
from catalog.store.links import Dialect, Mode, State
from replication import wire
from replication.openapi_parts import NEXT, PLACE, done, operation, query, read, switch
from replication.openapi_peerschemas import (
    COUNT,
    NO_COUNT,
    NO_TEXT,
    NO_TIME,
    TEXT,
    TIME,
    about,
    array_of,
    body,
    object_of,
)

_LINK, _CONFLICT = "replication.link", "replication.conflict"
_DRY_RUN = "replication.dryrun"

_NO_NUMBER: Json = {"type": ["number", "null"]}
_YES_NO: Json = {"type": "boolean"}


def operator_schemas() -> dict[str, Json]:
    """The schemas of what operators see, by name."""
    return {
        _LINK: _link(),
        _CONFLICT: _conflict(),
        _DRY_RUN: _dry_run(),
    }


def _link() -> Json:
    progress = {**object_of({"copies": COUNT, "of": NO_COUNT, "seconds": _NO_NUMBER})}
    found = object_of({"authority": TEXT, "software": TEXT, "followedby": array_of(TEXT)})
    return object_of(
        {
            "id": TEXT,
            "source": NO_TEXT,
            "target": NO_TEXT,
            "direction": {"enum": ["in", "out"]},
            "mode": {"enum": [*get_args(Mode)]},
            "dialect": {"enum": [*get_args(Dialect), None]},
            "authorities": array_of(TEXT),
            "scope": array_of(TEXT),
            "types": array_of(TEXT),
            "labels": array_of(TEXT),
            "prefix": TEXT,
            "map": {"type": "object", "additionalProperties": TEXT},
            "addresses": {"type": "object", "additionalProperties": TEXT},
            "trust": array_of(TEXT),
            "eventtopic": NO_TEXT,
            "token": about(NO_TEXT, "Stars, if it sends one"),
            "credential": about(
                {"type": ["object", "null"]}, "What it shows the other catalog, without secrets"
            ),
            "authority": about(NO_TEXT, "The one that the other catalog is pinned to"),
            "instance": NO_TEXT,
            "state": {"enum": [*get_args(State)]},
            "reason": about(NO_TEXT, "Why it is paused"),
            "cursor": NO_TEXT,
            "lag": about(_NO_NUMBER, "In seconds, the greatest age of a change that is missing"),
            "behind": about(NO_COUNT, "The number of changes that are to be read"),
            "confirmed": about(_NO_NUMBER, "The seconds since nothing was missing"),
            "currentat": NO_TIME,
            "applied": COUNT,
            "appliedat": NO_TIME,
            "succeededat": NO_TIME,
            "rate": about({"type": "number"}, "In copies per second"),
            "bytes": COUNT,
            "progress": {"anyOf": [progress, {"type": "null"}]},
            "conflicts": COUNT,
            "failures": about(COUNT, "In a row"),
            "error": NO_TEXT,
            "errors": {"type": "object", "additionalProperties": COUNT},
            "nextattemptat": NO_TIME,
            "question": about(
                {"type": ["object", "null"]},
                "What it asks: `deletions`, `of` so many entities, `first` of them, a `digest`",
            ),
            "subscription": NO_TEXT,
            "history": about(array_of({"type": "object"}), "Newest first"),
            "found": about(found, "The other catalog, in the answer that made the link"),
            "allowed": about(COUNT, "How many deletions were allowed, in the answer to that"),
        },
        optional=("found", "allowed"),
    )


def _conflict() -> Json:
    return object_of(
        {
            "authority": TEXT,
            "origin": TEXT,
            "xid": TEXT,
            "epoch": COUNT,
            "verdict": TEXT,
            "detail": TEXT,
            "remedy": TEXT,
            "at": TIME,
        }
    )


def _dry_run() -> Json:
    members: dict[str, Json] = {
        "isdecided": about(_YES_NO, "False if too much differs to tell it; `reason` says why"),
        "reason": TEXT,
        "rows": COUNT,
        "differing": COUNT,
        "outcomes": {
            "type": "object",
            "additionalProperties": object_of(
                {"number": COUNT, "first": array_of({"type": "object"})}
            ),
        },
        "question": {"type": ["object", "null"]},
    }
    return object_of(members, optional=[name for name in members if name != "isdecided"])


def _json(schema: Json) -> Json:
    return content(JSON_BODY, schema)


_ONE = "/replication/links/{id}"
_SHOWN = {200: done(reference(_LINK))}
_PAGE = (LIMIT, query("after", TEXT, "As the link to the next page has it."))
_FORCE = switch("force", "Do not ask the other catalog first.")
_DRY = switch("dryrun", "Tell what it would do, and do nothing.")
_DROP = switch("drop", "Drop what it brought first.")
_MADE_OR_TRIED: Mapping[int, Json] = {
    200: done(reference(_DRY_RUN), "The answer to a dry run."),
    201: done(reference(_LINK), "Created.", headers=PLACE),
}
_RUN_OR_TRIED = {200: done({"anyOf": [reference(_LINK), reference(_DRY_RUN)]})}
_DELETED: Mapping[int, Json] = {
    **_SHOWN,
    202: done(reference(_LINK), "It is deleted when its replicas are dropped."),
}

OPERATOR_OPERATIONS: Mapping[tuple[str, str], Json] = {
    ("GET", "/replication/links"): operation(
        read(object_of({"links": array_of(reference(_LINK))}), NEXT), (400,), parameters=_PAGE
    ),
    ("POST", "/replication/links"): operation(
        _MADE_OR_TRIED, (400, 409), parameters=(_FORCE, _DRY), taken=_json(body(wire.LinkBody))
    ),
    ("GET", _ONE): operation(read(reference(_LINK)), (404,)),
    ("PUT", _ONE): operation(_SHOWN, (400, 404), taken=_json(body(wire.LinkBody))),
    ("PATCH", _ONE): operation(
        _SHOWN, (400, 404), parameters=(_FORCE,), taken=_json(body(wire.ChangeBody))
    ),
    ("DELETE", _ONE): operation(_DELETED, (400, 404), parameters=(_DROP,)),
    ("POST", f"{_ONE}/pin"): operation(_SHOWN, (400, 404), taken=_json(body(wire.PinBody))),
    ("POST", f"{_ONE}/reset"): operation(_SHOWN, (400, 404), taken=_json(body(wire.ResetBody))),
    ("POST", f"{_ONE}/pause"): operation(
        _SHOWN, (400, 404), taken=_json(body(wire.PauseBody)), is_needed=False
    ),
    ("POST", f"{_ONE}/resume"): operation(_SHOWN, (404,)),
    ("POST", f"{_ONE}/run"): operation(_RUN_OR_TRIED, (400, 404, 409), parameters=(_DRY,)),
    ("POST", f"{_ONE}/allow"): operation(
        _SHOWN, (400, 404, 409), taken=_json(body(wire.AllowBody))
    ),
    ("GET", f"{_ONE}/conflicts"): operation(
        read(object_of({"conflicts": array_of(reference(_CONFLICT))}), NEXT),
        (400, 404),
        parameters=_PAGE,
    ),
    ("GET", "/replication/acceptances"): operation(
        read(object_of({"acceptances": array_of(reference(_LINK))}), NEXT),
        (400,),
        parameters=_PAGE,
    ),
    ("POST", "/replication/acceptances"): operation(
        {201: done(reference(_LINK), "Created.", headers=PLACE)},
        (400, 409),
        taken=_json(body(wire.AcceptanceBody)),
    ),
    ("DELETE", "/replication/acceptances/{id}"): operation(_DELETED, (404,), parameters=(_DROP,)),
}
