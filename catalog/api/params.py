"""Reads the query parameters: inline, epoch, limit and where a page begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from aiohttp import web

from catalog.api.paths import Target
from catalog.context import CONTEXT
from catalog.model.errors import BadFlag, BadInline, BadRequest, InlineNoninlineable
from catalog.model.schema import Model

# What to inline, by attribute name; `*` stands for everything from there on.
Inline: TypeAlias = Mapping[str, "Inline"]

EVERYTHING: Inline = {"*": {}}
_MOST_PATHS = 100


def inlines(inline: Inline, name: str) -> Inline | None:
    """What to inline inside `name`, or `None` where `name` itself is not to be inlined."""
    if "*" in inline:
        return EVERYTHING
    return inline.get(name)


def read_inline(request: web.Request, target: Target) -> Inline:
    """The `inline` flag (core/spec.md, "Inline Flag").

    Raises:
        BadInline: a path names nothing that could be inlined here.
    """
    given = request.query.getall("inline", [])
    paths = [path for value in given for path in (value.split(",") if value else ["*"])]
    if len(paths) > _MOST_PATHS:
        raise BadInline(request.path, value="…", error_detail=f"more than {_MOST_PATHS} paths")
    model = request.app[CONTEXT].model
    tree: dict[str, Inline] = {}
    for path in paths:
        _check_path(request.path, path, _inlineable(model, target))
        _add(tree, path.split("."))
    return tree


def _add(tree: dict[str, Inline], names: list[str]) -> None:
    for name in names:
        tree = tree.setdefault(name, {})  # type: ignore[assignment]  # built here, shown read-only


def _check_path(subject: str, path: str, inlineable: Inline) -> None:
    names = path.split(".")
    for position, name in enumerate(names):
        if name == "*" and position == len(names) - 1:
            return
        if name not in inlineable:
            error_detail = f'"{name}" is not something that can be inlined there'
            if position == 0 and name in ("name", "epoch", "labels", "xid", "self"):
                raise InlineNoninlineable(subject, name=name)
            raise BadInline(subject, value=path, error_detail=error_detail)
        inlineable = inlineable[name]


def _inlineable(model: Model, target: Target) -> Inline:
    """Everything that may be inlined in what `target` answers with."""
    groups: dict[str, Inline] = {
        groups: {
            resources: _in_resource(kind.singular if kind.hasdocument else "")
            for resources, kind in group_type.resources.items()
        }
        for groups, group_type in model.groups.items()
    }
    kind = target.resource_type
    document = kind.singular if kind is not None and kind.hasdocument else ""
    match target.kind, target.plural:
        case "registry", _:
            return {**groups, "model": {}, "modelsource": {}, "capabilities": {}}
        case "collection", "versions":
            return {document: {}} if document else {}
        case "collection", _ if kind is None:
            return groups[target.plural]
        case "group", _:
            return groups[target.xid.groups]
        case (("collection" | "resource"), _):
            return _in_resource(document)
        case "version", _:
            return {document: {}} if document else {}
        case _:
            return {}


def _in_resource(document: str) -> Inline:
    shown: dict[str, Inline] = {document: {}} if document else {}
    return {**shown, "meta": {}, "versions": dict(shown)}


def read_epoch_flag(request: web.Request) -> int | None:
    """The `epoch` flag of a DELETE (core/spec.md, "Epoch Flag").

    Raises:
        BadFlag: it is not an unsigned integer.
    """
    text = request.query.get("epoch")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadFlag(
            request.path, flag="epoch", detail="The epoch needs to be an unsigned integer."
        )
    return int(text)


def read_page(request: web.Request) -> tuple[str, int]:
    """The id after which a page begins, and the most entities that it may have.

    Raises:
        BadRequest: `limit` is not a number above 0.
    """
    most = request.app[CONTEXT].settings.page_size
    text = request.query.get("limit")
    if text is None:
        return request.query.get("after", ""), most
    if not (text.isascii() and text.isdigit() and len(text) < 21 and int(text) > 0):
        raise BadRequest(request.path, error_detail='"limit" needs to be an integer above 0')
    return request.query.get("after", ""), min(int(text), most)
