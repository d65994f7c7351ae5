"""Handles `/apply`, which makes the catalog equal to documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from aiohttp import web

from catalog.api.documents import read_registry
from catalog.api.writeanswer import find_notes, notes_as_json
from catalog.context import CONTEXT, Context
from catalog.http.body import MOST_DEPTH, most_values_of
from catalog.http.responses import interaction_headers, json_response
from catalog.load.workthread import aside
from catalog.model.change import EntityDifference, ValueChange, differences_between
from catalog.model.errors import ActionNotSupported, BadFlag, BadRequest, MalformedXid
from catalog.model.interaction import Interaction
from catalog.model.schema import Model
from catalog.model.xid import Xid, is_valid_id
from catalog.operations.operation import READING
from catalog.writing.apply import Apply, Ownership, roots_of
from catalog.writing.outcome import Outcome

_KEEP = "$keep"
_SWITCHES = frozenset({"allowempty", "dryrun", "prune"})
_VALUES = frozenset({"ignore", "scope", "set", "specversion"})
_IGNORABLE = frozenset({"epoch", "readonly"})


async def get_apply(request: web.Request) -> web.Response:
    """Answer with the limits of an apply: the bytes and JSON values of a body, and its nesting."""
    settings = request[CONTEXT].settings
    return json_response(
        {
            "maxbodybytes": settings.max_body_bytes,
            "maxbodyvalues": most_values_of(settings),
            "maxdepth": MOST_DEPTH,
        }
    )


async def post_apply(request: web.Request) -> web.Response:
    """Create and change the entities that differ from the body, and leave the rest unwritten.

    The body has the form of `POST /`. `prune` deletes the owned entities that the body lacks (see
    `Ownership`); `$keep` lists the xids of further entities to keep. `dryrun` plans and checks the
    apply without writing.
    """
    context = request[CONTEXT]
    if not context.capabilities.is_mutable("entities"):
        raise ActionNotSupported(request.path, action=request.method, allow=READING)
    apply = await _read(request, context)
    configuration, writer = context.configuration, context.writer
    is_dry = "dryrun" in request.query
    outcome = await writer.apply_composed(configuration, apply, is_dry=is_dry)
    shown = await _shown(request, apply, outcome, configuration.model)
    if is_dry:
        return json_response(shown)
    return json_response(
        {"interaction": outcome.interaction, **shown}, headers=interaction_headers(outcome)
    )


async def _read(request: web.Request, context: Context) -> Apply:
    _check_flags(request)
    query = request.query
    body = await read_registry(request)
    interaction = Interaction(
        caller=request[CONTEXT].caller,
        path=request.path,
        writes_only_changes=True,
        ignore=_ignored(request),
        most_entities=request[CONTEXT].settings.max_request_entities,
    )
    ownership = Ownership(
        prunes="prune" in query,
        scopes=_xids(request, query.getall("scope", [])),
        set=query.get("set", ""),
        also=await aside(0, _xids, request, _kept(request, body.pop(_KEEP, []))),
    )
    model = context.model
    await aside(0, interaction.post_collections, model, Xid(), body)
    if ownership.scopes and ownership.set:
        _refuse(request, "scope", "A set owns what its applies brought, wherever that is.")
    is_empty = not interaction.groups and not ownership.also
    if ownership.prunes and is_empty and "allowempty" not in query:
        raise BadRequest(
            request.path,
            error_detail="there is nothing in it, so that everything it owns would be deleted",
            detail="?allowempty does that.",
        )
    return Apply(interaction, ownership, model, context.database.node.authority)


def _check_flags(request: web.Request) -> None:
    """Refuse unknown parameters: a misspelt `dryrun` would write."""
    for name, value in request.query.items():
        if name in _SWITCHES and value:
            _refuse(request, name, "It takes no value.")
        if name not in _SWITCHES | _VALUES:
            _refuse(request, name, f"There are {', '.join(sorted(_SWITCHES | _VALUES))}.")
    names = request.query.getall("set", [])
    if len(names) > 1 or not all(is_valid_id(name) for name in names):
        _refuse(request, "set", "It needs to be one name that an id could have.")


def _refuse(request: web.Request, flag: str, detail: str) -> NoReturn:
    raise BadFlag(request.path, flag=flag[:64], detail=detail)


def _ignored(request: web.Request) -> frozenset[str]:
    values = {
        value for text in request.query.getall("ignore", []) for value in text.lower().split(",")
    }
    if not values <= _IGNORABLE:
        _refuse(request, "ignore", f"These can be ignored: {', '.join(sorted(_IGNORABLE))}.")
    return frozenset(values)


def _kept(request: web.Request, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadRequest(request.path, error_detail=f"{_KEEP} needs to be an array of xids")
    return value


def _xids(request: web.Request, texts: Iterable[str]) -> tuple[Xid, ...]:
    found = []
    for text in texts:
        try:
            found.append(Xid.parse(text))
        except ValueError as error:
            raise MalformedXid(request.path, xid=text[:300], error_detail=str(error)) from error
    return tuple(found)


async def _shown(request: web.Request, apply: Apply, done: Outcome, model: Model) -> dict[str, Any]:
    context = request[CONTEXT]
    base_url = context.base_url(request)
    notes = await find_notes(context, model, base_url, apply.interaction, done)
    differences = await aside(len(done.after), differences_between, done.before, done.after, model)
    counts = dict.fromkeys(("created", "updated", "deleted"), 0)
    for difference in differences:
        counts[difference.action] += 1
    left_alone = {*done.left_alone, *apply.pruned.left_alone}
    return {
        **counts,
        "changes": [_difference(each) for each in differences],
        "leftalone": [str(xid) for xid in roots_of(map(Xid.parse, left_alone))],
        "kept": sorted(apply.pruned.kept),
        **notes_as_json(notes),
    }


def _difference(difference: EntityDifference) -> Mapping[str, Any]:
    shown: dict[str, Any] = {"xid": difference.xid, "action": difference.action}
    if difference.action == "updated":
        shown["changed"] = difference.changed
        shown["values"] = [_value(value) for value in difference.values]
    return shown


def _value(value: ValueChange) -> Mapping[str, Any]:
    sides = {"old": value.old, "new": value.new}
    return {"path": value.path, **{side: it for side, it in sides.items() if it is not None}}
