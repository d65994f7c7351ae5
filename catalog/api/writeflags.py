"""The flags that change the effect of a write: epoch, ignore and setdefaultversionid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aiohttp import hdrs, web

from catalog.api.requesttarget import RequestTarget
from catalog.http.flags import Flags
from catalog.model.capabilities import Capabilities
from catalog.model.errors import BadDefaultVersionId, BadFlag, BadIgnore
from catalog.model.interaction import NEWEST, THE_NEW_ONE
from catalog.model.record import record
from catalog.model.xid import is_valid_id

_DEFAULT = "setdefaultversionid"


@record
class WriteFlags:
    """The flags of a write.

    `epoch` is the required epoch of an entity to be deleted; `ignore` names the parts of the
    body to ignore; `default` is the version to make the default one, or a word for it.
    """

    epoch: int | None = None
    ignore: frozenset[str] = frozenset()
    default: str | None = None


def read_write_flags(
    request: web.Request, target: RequestTarget, capabilities: Capabilities
) -> WriteFlags:
    """The flags of a write.

    Raises:
        BadFlag: a flag has no meaning here.
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
    """core/spec.md, "Epoch Flag"; refused where it would have no effect."""
    if not given:
        return None
    if request.method != hdrs.METH_DELETE or target.kind == "collection" or len(given) > 1:
        fault = "It goes with the DELETE of one entity, once."
    elif not (given[0].isascii() and given[0].isdigit() and len(given[0]) < 19):
        fault = "The epoch needs to be an unsigned integer."
    else:
        return int(given[0])
    raise BadFlag(request.path, flag="epoch", detail=fault)


def _read_ignore(
    request: web.Request, given: Sequence[str], offered: Iterable[str]
) -> frozenset[str]:
    """core/spec.md, "Ignore Flag"; core/http.md, "?ignore Flag"."""
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
    """core/spec.md, "SetDefaultVersionID Flag"."""
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
