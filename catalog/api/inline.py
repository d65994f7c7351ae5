"""The `inline` flag: the paths to inline in an answer, as a tree."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from catalog.api.requesttarget import RequestTarget
from catalog.http.flags import Flags
from catalog.model.errors import BadInline, InlineNoninlineable, NotAvailable
from catalog.model.schema import Attribute, Model, ResourceType

# A tree of attribute names; `*` stands for the whole subtree.
Inline: TypeAlias = Mapping[str, "Inline"]

INLINE_ALL: Inline = {"*": {}}
_MOST_PATHS = 100
# The tree below an inlineable attribute that is no collection.
_LEAF: Inline = MappingProxyType({})
_CONFIGURATION = ("capabilities", "model", "modelsource")


def inlines(inline: Inline, name: str) -> Inline | None:
    """The tree below `name`; `None` if `name` itself is not inlined."""
    if "*" in inline:
        return INLINE_ALL
    return inline.get(name)


def parse_inline(flags: Flags, model: Model, target: RequestTarget) -> Inline:
    """Parse the `inline` flag (core/spec.md, "Inline Flag"); an empty flag stands for `*`.

    Raises:
        BadInline: a path names no inlineable attribute.
        InlineNoninlineable: a path names an attribute that is always shown.
        NotAvailable: the capabilities do not offer the part of the configuration.
    """
    given = flags.values("inline")
    paths = [path for value in given for path in (value.split(",") if value else ["*"])]
    if not paths:
        return {}
    if len(paths) > _MOST_PATHS:
        raise BadInline(flags.path, value="…", error_detail=f"more than {_MOST_PATHS} paths")
    inlineable = _inlineable(model, target)
    tree: dict[str, Any] = {}
    for path in paths:
        _check_path(flags.path, path, inlineable, _attributes(model, target))
        branch = tree
        for name in path.split("."):
            branch = branch.setdefault(name, {})
    for name in _CONFIGURATION:
        if name in tree and name not in flags.capabilities.available:
            raise NotAvailable(name)
    return tree


def _check_path(
    subject: str, path: str, inlineable: Inline, attributes: Mapping[str, Attribute]
) -> None:
    names = path.split(".")
    for position, name in enumerate(names):
        if name == "*" and position == len(names) - 1 and inlineable is not _LEAF:
            return
        if name not in inlineable:
            is_attribute = name in attributes and name != "*"
            if position == 0 and is_attribute and not name.endswith("base64"):
                raise InlineNoninlineable(subject, name=name)
            error_detail = f'"{name}" is not something that can be inlined there'
            raise BadInline(subject, value=path, error_detail=error_detail)
        inlineable = inlineable[name]


def _attributes(model: Model, target: RequestTarget) -> Mapping[str, Attribute]:
    """The attributes of the target, or of the members of a target that is a collection."""
    kind = target.resource_type
    if kind is not None:
        if target.kind == "meta":
            return kind.metaattributes
        return {**kind.attributes, **kind.resourceattributes}
    groups = target.xid.groups or target.plural
    return model.groups[groups].attributes if groups else model.attributes


def _inlineable(model: Model, target: RequestTarget) -> Inline:
    """The tree of the names that may be inlined in an answer about `target`."""
    kind = target.resource_type
    match target.kind, target.plural:
        case "registry", _:
            groups = {plural: _in_group(model, plural) for plural in model.groups}
            return {**groups, **dict.fromkeys(_CONFIGURATION, _LEAF)}
        case "collection", "versions":
            return _document_of(kind)
        case "collection", _ if kind is None:
            return _in_group(model, target.plural)
        case "group", _:
            return _in_group(model, target.xid.groups)
        case (("collection" | "resource"), _):
            return _in_resource(kind)
        case "version", _:
            return _document_of(kind)
        case _:
            return {}


def _in_group(model: Model, groups: str) -> Inline:
    resources = model.groups[groups].resources
    return {plural: _in_resource(kind) for plural, kind in resources.items()}


def _in_resource(kind: ResourceType | None) -> Inline:
    return {**_document_of(kind), "meta": _LEAF, "versions": _document_of(kind)}


def _document_of(kind: ResourceType | None) -> Inline:
    return {kind.singular: _LEAF} if kind is not None and kind.hasdocument else {}
