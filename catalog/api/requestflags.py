"""The flags of a request: shape, filters, order and page of a read, and checks of a write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeAlias

from aiohttp import hdrs, web

from catalog.api.requesttarget import RequestTarget
from catalog.http.flags import Flags, number_above_zero
from catalog.model import errors
from catalog.model.attributereference import EntityKind
from catalog.model.capabilities import Capabilities
from catalog.model.configuration import Configuration
from catalog.model.filter import Filters, Sort, parse_filters, parse_sort
from catalog.model.interaction import NEWEST, THE_NEW_ONE
from catalog.model.record import record
from catalog.model.schema import Attribute, Model, ResourceType
from catalog.model.xid import is_valid_id

# A tree of attribute names; `*` stands for the whole subtree.
Inline: TypeAlias = Mapping[str, "Inline"]

INLINE_ALL: Inline = {"*": {}}
_MOST_PATHS = 100
# The tree below an inlineable attribute that is no collection.
_LEAF: Inline = MappingProxyType({})
_CONFIGURATION = ("capabilities", "model", "modelsource")
_ONLY_OWNERS = "It is for the registry and for groups, which have collections of their own."
_DEFAULT = "setdefaultversionid"


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
        raise errors.BadInline(flags.path, value="…", error_detail=f"more than {_MOST_PATHS} paths")
    inlineable = _inlineable(model, target)
    tree: dict[str, Any] = {}
    for path in paths:
        _check_path(flags.path, path, inlineable, _attributes(model, target))
        branch = tree
        for name in path.split("."):
            branch = branch.setdefault(name, {})
    for name in _CONFIGURATION:
        if name in tree and name not in flags.capabilities.available:
            raise errors.NotAvailable(name)
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
                raise errors.InlineNoninlineable(subject, name=name)
            error_detail = f'"{name}" is not something that can be inlined there'
            raise errors.BadInline(subject, value=path, error_detail=error_detail)
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


@record
class ReadFlags:
    """The flags of a read (core/spec.md, "Request Flags").

    `collections` shows the collections of the target without the target. Without `limit`, the
    server chooses the size of a page.
    """

    inline: Inline
    doc: bool = False
    binary: bool = False
    collections: bool = False
    filters: Filters | None = None
    sort: Sort | None = None
    limit: int | None = None
    after: str = ""


NO_FLAGS = ReadFlags(inline={})


def read_flags(
    request: web.Request,
    target: RequestTarget,
    configuration: Configuration,
    default: Inline | None = None,
) -> ReadFlags:
    """Read the flags of a read.

    Args:
        default: the tree to inline if the request has no `inline` flag.

    Raises:
        BadFlag: a flag is off, has too many values, or does not apply to the target.
        BadFilter, BadInline, BadSort, InlineNoninlineable, NotAvailable, SortNonCollection
        BadRequest: `limit` is not a number above 0.
    """
    if not request.query_string:
        return NO_FLAGS if default is None else ReadFlags(inline=default)
    flags = Flags(request, configuration.capabilities)
    return replace(
        _read(flags, target, configuration.model, default or {}),
        limit=_read_limit(request, flags) if target.kind == "collection" else None,
        after=request.query.get("after", ""),
    )


def read_answer_flags(
    request: web.Request, target: RequestTarget, able: Capabilities, model: Model
) -> ReadFlags:
    """Read the flags of a write that concern its answer, which has no pages.

    Source: core/http.md, "Creating or Updating Entities".

    Args:
        able: the capabilities in force before the write.
        model: the model in force after the write.

    Raises:
        BadFlag, BadFilter, BadInline, BadSort, InlineNoninlineable, NotAvailable
        SortNonCollection
    """
    if not request.query_string:
        return NO_FLAGS
    return _read(Flags(request, able), target, model, {})


def _read(flags: Flags, target: RequestTarget, model: Model, default: Inline) -> ReadFlags:
    inline = parse_inline(flags, model, target)
    collections = flags.is_set("collections")
    if collections and target.kind not in ("registry", "group"):
        raise errors.BadFlag(flags.path, flag="collections", detail=_ONLY_OWNERS)
    return ReadFlags(
        inline=INLINE_ALL if collections else inline or default,
        doc=flags.is_set("doc"),
        binary=flags.is_set("binary"),
        collections=collections,
        filters=_read_filters(flags, model, target),
        sort=_read_sort(flags, model, target),
    )


def _read_filters(flags: Flags, model: Model, target: RequestTarget) -> Filters | None:
    texts = flags.values("filter")
    if not texts:
        return None
    is_meta = target.kind == "meta"
    return parse_filters(texts, _kind_of(target, model), subject=flags.path, meta=is_meta)


def _kind_of(target: RequestTarget, model: Model) -> EntityKind:
    """The kind of the target, or of the entities in the target."""
    is_versions = target.kind == "version" or target.plural == "versions"
    collection = "" if is_versions else target.plural
    groups = target.xid.groups or collection
    resources = target.xid.resources or (collection if target.xid.groups else "")
    return EntityKind(model=model, groups=groups, resources=resources, versions=is_versions)


def _read_sort(flags: Flags, model: Model, target: RequestTarget) -> Sort | None:
    texts = flags.values("sort")
    if not texts:
        return None
    if target.kind != "collection":
        raise errors.SortNonCollection(flags.path)
    if len(texts) > 1:
        raise errors.BadSort(
            flags.path, value=", ".join(texts), error_detail="it can be given only once"
        )
    return parse_sort(texts[0], _kind_of(target, model), subject=flags.path)


def _read_limit(request: web.Request, flags: Flags) -> int | None:
    """The largest number of entities in a page (pagination/spec.md, "limit")."""
    texts = request.query.getall("limit", [])
    if not texts:
        return None
    if len(texts) > 1:
        raise errors.BadRequest(flags.path, error_detail='"limit" can be given only once')
    if not flags.capabilities.pagination:
        raise errors.BadFlag(flags.path, flag="limit", detail="This registry does not support it.")
    return number_above_zero(flags.path, texts[0])


@record
class WriteFlags:
    """The flags of a write.

    `epoch` is the required epoch of an entity to be deleted; `ignore` names the parts of the
    body to ignore; `default` is the id of the new default version, `request` (the version of the
    request) or `null` (the newest version).
    """

    epoch: int | None = None
    ignore: frozenset[str] = frozenset()
    default: str | None = None


def read_write_flags(
    request: web.Request, target: RequestTarget, capabilities: Capabilities
) -> WriteFlags:
    """The flags of a write.

    Raises:
        BadFlag: a flag does not apply to the request.
        BadIgnore, BadDefaultVersionId: the value of a flag is invalid.
    """
    if not request.query_string:
        return WriteFlags()
    flags = Flags(request, capabilities)
    return WriteFlags(
        epoch=_read_epoch(request, target, flags.values("epoch")),
        ignore=_read_ignore(request, flags.values("ignore"), capabilities.ignores),
        default=_read_default(request, target, flags.values(_DEFAULT)),
    )


def _read_epoch(request: web.Request, target: RequestTarget, given: Sequence[str]) -> int | None:
    """The `epoch` flag (core/spec.md, "Epoch Flag"); refused where the flag has no effect."""
    if not given:
        return None
    if request.method != hdrs.METH_DELETE or target.kind == "collection" or len(given) > 1:
        fault = "It goes with the DELETE of one entity, once."
    # Numbers of up to 18 digits fit into a bigint of PostgreSQL.
    elif not (given[0].isascii() and given[0].isdigit() and len(given[0]) < 19):
        fault = "The epoch needs to be an unsigned integer."
    else:
        return int(given[0])
    raise errors.BadFlag(request.path, flag="epoch", detail=fault)


def _read_ignore(
    request: web.Request, given: Sequence[str], offered: Iterable[str]
) -> frozenset[str]:
    """The `ignore` flag (core/spec.md, "Ignore Flag"; core/http.md, "?ignore Flag")."""
    known, ignored = frozenset(offered), set[str]()
    for value in (value for text in given for value in text.split(",")):
        if value in ("", "*"):
            ignored |= known
        elif value.lower() in known:
            ignored.add(value.lower())
        else:
            fault = f"these can be ignored: {', '.join(sorted(known))}"
            raise errors.BadIgnore(request.path, value=value, error_detail=fault)
    return frozenset(ignored)


def _read_default(request: web.Request, target: RequestTarget, given: Sequence[str]) -> str | None:
    """The `setdefaultversionid` flag (core/spec.md, "SetDefaultVersionID Flag")."""
    if not given:
        return None
    if not target.xid.rid:
        raise errors.BadFlag(request.path, flag=_DEFAULT)
    if len(given) > 1:
        fault = "there can be one default version only"
    elif not (given[0] in (NEWEST, THE_NEW_ONE) or is_valid_id(given[0])):
        fault = "it is no id of a version"
    elif request.method == hdrs.METH_DELETE and target.kind == "resource":
        fault = "no version is left"
    else:
        return given[0]
    raise errors.BadDefaultVersionId(request.path, value=given[0], error_detail=fault)
