"""Describes the operations of `/access` and `/audit` as OpenAPI."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import get_args

from catalog.access.auditrequests import OUTCOMES
from catalog.access.rulebody import LONGEST_NAME
from catalog.api.openapi_operations import JSON_BODY, LIMIT, content, described_operation
from catalog.api.openapi_schemas import Json, reference
from catalog.api.routedescription import RouteDescription
from catalog.model.author import AuthorKind
from catalog.rolerules import LONGEST_WHO, IdentityKind
from catalog.roles import PATH, ROLES
from catalog.store.accessrules import MOST_PATHS

_GRANT, _WHOAMI = "access.grant", "access.whoami"
_TOKEN, _RULE, _AUDIT = "access.token", "access.rule", "access.audit"
_REFUSED: Mapping[int, str] = {
    400: "The request is not as it is described here, or names what there cannot be.",
    403: "The caller may not do this, or may not grant this there.",
    404: "There is no such thing, or the caller does not see it.",
    409: "There are as many as there may be.",
    413: "The body is larger than this node accepts.",
}
_TEXT: Json = {"type": "string"}
_TIME: Json = {"type": "string", "format": "date-time"}
_ROLE: Json = {"enum": [*ROLES]}
_PATH: Json = {
    "type": "string",
    "pattern": f"^(/|{PATH.pattern})$",
    "description": "`/` is the whole catalog, `/GROUPTYPE/GROUPID` a group with all below it; `*` "
    "stands for any characters in either part.",
}
_NAME: Json = {"type": "string", "maxLength": LONGEST_NAME}
_WHO: Json = {
    "type": "string",
    "minLength": 1,
    "maxLength": LONGEST_WHO,
    "description": "Whom the rule is for: `token=ID`, `anonymous`, or what the claims of a token "
    "or the names of a certificate have to be, as `groups=editors&iss=https://id.example`.",
}
_PATHS: Json = {
    "type": "array",
    "items": _PATH,
    "minItems": 1,
    "maxItems": MOST_PATHS,
    "uniqueItems": True,
}
_PLACE: Json = {"Location": {"description": "The URL of what was made", "schema": _TEXT}}
_NEXT: Json = {"Link": {"description": 'The next page, as `rel="next"`', "schema": _TEXT}}
_AFTER: Json = {"name": "after", "in": "query", "schema": _TEXT}
_OUTCOME: Json = {"enum": [*OUTCOMES]}
_COUNT: Json = {"type": "integer", "minimum": 0}
_ALL, _ONE = "/access/rules", "/access/rules/{id}"


def _object(needed: Collection[str], **members: Json) -> Json:
    return {"type": "object", "required": [*needed], "properties": members}


def _body(needed: Collection[str], **members: Json) -> Json:
    return {**_object(needed, **members), "additionalProperties": False}


def _done(schema: Json, *, headers: Json | None = None) -> Json:
    shown: Json = {"description": "Done.", "content": content(JSON_BODY, schema)}
    return {**shown, "headers": headers} if headers else shown


def _operation(
    done: Mapping[int, Json],
    refused: Collection[int],
    *,
    parameters: Collection[Json] = (),
    taken: Json | None = None,
) -> Json:
    return described_operation(
        done,
        {status: _REFUSED[status] for status in refused},
        parameters=parameters,
        taken=None if taken is None else content(JSON_BODY, taken),
    )


def _list_of(name: str, member: str) -> Json:
    return _object([member], **{member: {"type": "array", "items": reference(name)}})


def _condition(name: str, schema: Json, description: str) -> Json:
    return {"name": name, "in": "query", "schema": schema, "description": description}


_CONDITIONS = (
    _condition("since", _TIME, "Only entries from this time on"),
    _condition("until", _TIME, "Only entries before this time"),
    _condition(
        "identity",
        _TEXT,
        "Only entries of callers with this name, of this kind, or both as `KIND:NAME`",
    ),
    _condition(
        "path", _TEXT, "Only entries of requests, or of targets, whose paths begin with this"
    ),
    _condition("interaction", _TEXT, "Only the entry of the interaction with this id"),
    _condition(
        "outcome", _OUTCOME, "Only entries of requests that were done, or that were refused"
    ),
    _condition("after", _TEXT, "Only entries after the one with this `sequence`, the oldest first"),
    _condition(
        "before", _TEXT, "Only entries before the one with this `sequence`, the newest first"
    ),
)
_GONE: Mapping[int, Json] = {204: {"description": "Done."}}
_NEW_TOKEN = _body(
    ["grants"],
    name=_NAME,
    grants={
        "type": "array",
        "minItems": 1,
        "items": _body(["role"], role=_ROLE, path=_PATH),
    },
    expiresat=_TIME,
)
_NEW_RULE = _body(["who", "role", "paths"], who=_WHO, role=_ROLE, paths=_PATHS)
_CHANGES = _body([], who=_WHO, role=_ROLE, paths=_PATHS)

DESCRIPTION = RouteDescription(
    operations={
        ("GET", "/access/whoami"): _operation({200: _done(reference(_WHOAMI))}, ()),
        ("GET", "/access/tokens"): _operation({200: _done(_list_of(_TOKEN, "tokens"))}, (403,)),
        ("POST", "/access/tokens"): _operation(
            {201: _done(reference(_TOKEN), headers=_PLACE)}, (400, 403, 409, 413), taken=_NEW_TOKEN
        ),
        ("DELETE", "/access/tokens/{id}"): _operation(_GONE, (403, 404)),
        ("GET", _ALL): _operation(
            {200: _done(_list_of(_RULE, "rules"))}, (400, 403), parameters=(LIMIT, _AFTER)
        ),
        ("POST", _ALL): _operation(
            {201: _done(reference(_RULE), headers=_PLACE)}, (400, 403, 409, 413), taken=_NEW_RULE
        ),
        ("GET", _ONE): _operation({200: _done(reference(_RULE))}, (403, 404)),
        ("PUT", _ONE): _operation(
            {200: _done(reference(_RULE))}, (400, 403, 404, 413), taken=_NEW_RULE
        ),
        ("PATCH", _ONE): _operation(
            {200: _done(reference(_RULE))}, (400, 403, 404, 413), taken=_CHANGES
        ),
        ("DELETE", _ONE): _operation(_GONE, (403, 404)),
        ("GET", "/audit"): _operation(
            {200: _done(_list_of(_AUDIT, "audit"), headers=_NEXT)},
            (400, 403),
            parameters=(LIMIT, *_CONDITIONS),
        ),
    },
    schemas={
        _GRANT: _object(["role", "path"], role=_ROLE, path=_PATH),
        _WHOAMI: _object(
            ["kind", "grants", "open"],
            kind={"enum": [*get_args(IdentityKind)]},
            name=_TEXT,
            issuer=_TEXT,
            grants={"type": "array", "items": reference(_GRANT)},
            more={"type": "boolean", "description": "There are more grants than these."},
            open={"type": "boolean", "description": "Everybody may do everything."},
        ),
        _TOKEN: _object(
            ["id", "name", "grants", "createdat"],
            id=_TEXT,
            name=_NAME,
            grants={"type": "array", "items": reference(_GRANT)},
            createdat=_TIME,
            expiresat=_TIME,
            usedat={**_TIME, "description": "Its last use, to the minute"},
            token={**_TEXT, "description": "Its text, in the answer that made it only"},
        ),
        _RULE: _object(
            ["id", "who", "role", "paths", "pathscount", "createdat", "createdby"],
            id=_TEXT,
            who=_WHO,
            role=_ROLE,
            paths={**_PATHS, "description": "In a list of rules, the first ones"},
            pathscount={"type": "integer", "minimum": 1},
            createdat=_TIME,
            createdby=_TEXT,
        ),
        _AUDIT: _object(
            ["sequence", "time", "outcome", "identity"],
            sequence={**_TEXT, "description": "The place of the entry, in the order of texts"},
            time=_TIME,
            outcome=_OUTCOME,
            identity=_object(
                ["kind"], kind={"enum": [*get_args(AuthorKind)]}, name=_TEXT, issuer=_TEXT
            ),
            address=_TEXT,
            agent=_TEXT,
            method=_TEXT,
            path=_TEXT,
            interaction={**_TEXT, "description": "The id that its events carry, too"},
            changed={**_COUNT, "description": "The entities that were changed"},
            targets={
                "type": "array",
                "items": _object(["path"], path=_TEXT, action=_TEXT),
                "description": "The first of these",
            },
            status={"type": "integer", "description": "That of the refusal"},
            reason={**_TEXT, "description": "The name of the problem"},
            attempts={**_COUNT, "description": "The refusals that the entry stands for"},
        ),
    },
)
"""The description of the routes of `/access` and `/audit`, to be added to them."""
