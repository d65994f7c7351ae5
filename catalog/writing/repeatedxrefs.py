"""What a request says of a resource twice: at its place, and where a cross reference shows it.

Source: core/spec.md, "Collections Flag". What a registry answers there is a request to another
one. It shows each cross reference with all that its target has, which "Cross Referencing
Resources" allows nobody to write there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from catalog.model.attributes import PROVENANCE
from catalog.model.interaction import Body, ResourceUpsert
from catalog.model.schema import Model
from catalog.writing.crossreferences import READONLY_OF_META, READONLY_OF_RESOURCE, target_in

_OF_THE_PLACE = READONLY_OF_RESOURCE | READONLY_OF_META | PROVENANCE


def without_repeated(upserts: Sequence[ResourceUpsert], model: Model) -> Iterator[ResourceUpsert]:
    """The same upserts, of which cross references say nothing that their targets' say, too.

    A cross reference that says anything else stays as it is, to be refused.
    """
    by_xid = {str(upsert.xid): upsert for upsert in upserts}
    for upsert in upserts:
        target = by_xid.get(str(target_in(upsert.meta)))
        id = f"{model.singular_of(upsert.xid)}id"
        if target is not None and _said(upsert, id) == _said(target, id):
            yield _reference_alone(upsert, id)
        else:
            yield upsert


def _said(upsert: ResourceUpsert, id: str) -> tuple[Any, ...]:
    """What an upsert says that does not depend on the place of the resource."""
    versions = {each.vid: _apart_from_place(each.body, id) for each in upsert.versions}
    parts = (upsert.default or {}, upsert.meta or {})
    return *(_apart_from_place(part, id) for part in parts), versions, upsert.document


def _apart_from_place(body: Body, id: str) -> Mapping[str, Any]:
    return {name: value for name, value in body.items() if name not in _OF_THE_PLACE | {id}}


def _reference_alone(upsert: ResourceUpsert, id: str) -> ResourceUpsert:
    parts = (upsert.default or {}, upsert.meta or {})
    default, meta = ({k: v for k, v in part.items() if k in (id, "xref")} for part in parts)
    return replace(upsert, default=default, meta=meta, versions=(), has_versions=False)
