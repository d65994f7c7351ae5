"""The flags of a request: shape, filters, order and page of a read, and checks of a write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from aiohttp import hdrs, web

from catalog.api.inline import INLINE_ALL, Inline, parse_inline
from catalog.api.requesttarget import RequestTarget
from catalog.http.flags import Flags, number_above_zero
from catalog.model.capabilities import Capabilities
from catalog.model.configuration import Configuration
from catalog.model.errors import (
    BadDefaultVersionId,
    BadFlag,
    BadIgnore,
    BadRequest,
    BadSort,
    SortNonCollection,
)
from catalog.model.filter import Filters, Sort, parse_filters, parse_sort
from catalog.model.interaction import NEWEST, THE_NEW_ONE
from catalog.model.record import record
from catalog.model.schema import Model
from catalog.model.xid import is_valid_id

_ONLY_OWNERS = "It is for the registry and for groups, which have collections of their own."


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
        raise BadFlag(flags.path, flag="collections", detail=_ONLY_OWNERS)
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
    return parse_filters(texts, model, subject=flags.path, meta=is_meta, **_aim(target))


def _aim(target: RequestTarget) -> dict[str, Any]:
    """The types of the entities of the target, as arguments for the parsers of filter and sort."""
    is_versions = target.kind == "version" or target.plural == "versions"
    collection = "" if is_versions else target.plural
    groups = target.xid.groups or collection
    resources = target.xid.resources or (collection if target.xid.groups else "")
    return {"groups": groups, "resources": resources, "versions": is_versions}


def _read_sort(flags: Flags, model: Model, target: RequestTarget) -> Sort | None:
    texts = flags.values("sort")
    if not texts:
        return None
    if target.kind != "collection":
        raise SortNonCollection(flags.path)
    if len(texts) > 1:
        raise BadSort(flags.path, value=", ".join(texts), error_detail="it can be given only once")
    return parse_sort(texts[0], model, subject=flags.path, **_aim(target))


def _read_limit(request: web.Request, flags: Flags) -> int | None:
    """The largest number of entities in a page (pagination/spec.md, "limit")."""
    texts = request.query.getall("limit", [])
    if not texts:
        return None
    if len(texts) > 1:
        raise BadRequest(flags.path, error_detail='"limit" can be given only once')
    if not flags.capabilities.pagination:
        raise BadFlag(flags.path, flag="limit", detail="This registry does not support it.")
    return number_above_zero(flags.path, texts[0])


_DEFAULT = "setdefaultversionid"


@record
class WriteFlags:
    """The flags of a write.

    `epoch` is the required epoch of an entity to be deleted; `ignore` names the parts of the
    body to ignore; `default` is the id of the new default version, or a word for a version.
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
    raise BadFlag(request.path, flag="epoch", detail=fault)


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
            raise BadIgnore(request.path, value=value, error_detail=fault)
    return frozenset(ignored)


def _read_default(request: web.Request, target: RequestTarget, given: Sequence[str]) -> str | None:
    """The `setdefaultversionid` flag (core/spec.md, "SetDefaultVersionID Flag")."""
    if not given:
        return None
    if not target.xid.rid:
        raise BadFlag(request.path, flag=_DEFAULT)
    if len(given) > 1:
        fault = "there can be one default version only"
    elif not (given[0] in (NEWEST, THE_NEW_ONE) or is_valid_id(given[0])):
        fault = "it is no id of a version"
    elif request.method == hdrs.METH_DELETE and target.kind == "resource":
        fault = "no version is left"
    else:
        return given[0]
    raise BadDefaultVersionId(request.path, value=given[0], error_detail=fault)
