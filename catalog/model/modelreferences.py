"""Checks that a model has the types that targets and xids among values refer to.

Source: core/model.md, "attributes.<STRING>.target"; core/spec.md, "Data Types".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from catalog.model.attributesource import breaks, broken
from catalog.model.scalars import check_reference
from catalog.model.schema import Attribute, Model


def check_references(model: Model) -> None:
    """Reject a model that refers to missing types.

    Raises:
        ModelError: about the first reference to a missing type.
    """
    for where, attributes in _levels(model):
        for path, attribute in _all(attributes, where):
            _check(attribute, path, model)


def points_to_types(attributes: Mapping[str, Attribute]) -> bool:
    """Whether values of attributes, at any depth, refer to types of the model."""
    return any(
        attribute.type in ("xid", "xidtype") or attribute.target
        for _, attribute in _all(attributes, "")
    )


def _check(attribute: Attribute, path: str, model: Model) -> None:
    _, groups, resources, *_ = f"{attribute.target}//".split("/")
    resources = resources.removesuffix("[")
    is_known = model.resource_type(groups, resources) if resources else model.group_type(groups)
    if attribute.target and not is_known:
        raise broken(path, f'"{attribute.target}" is no type of this model')
    values = [*attribute.enum, *([attribute.default] if attribute.default is not None else [])]
    kind = attribute.item if attribute.type == "array" and attribute.item else attribute
    for value in values:
        with breaks(path):
            check_reference(value, kind, model)


def _levels(model: Model) -> Iterator[tuple[str, Mapping[str, Attribute]]]:
    yield "attributes", model.attributes
    for plural, group in model.groups.items():
        yield f"groups.{plural}.attributes", group.attributes
        for name, kind in group.resources.items():
            where = f"groups.{plural}.resources.{name}"
            yield f"{where}.attributes", kind.attributes
            yield f"{where}.metaattributes", kind.metaattributes


def _all(attributes: Mapping[str, Attribute], where: str) -> Iterator[tuple[str, Attribute]]:
    """Every attribute of a level and of nested objects, with the path."""
    for name, attribute in attributes.items():
        path = f"{where}.{name}"
        yield path, attribute
        yield from _all(attribute.attributes, path)
        if attribute.item:
            yield from _all({"item": attribute.item}, path)
        for value, siblings in attribute.ifvalues.items():
            yield from _all(siblings, f"{path}.ifvalues.{value}")
