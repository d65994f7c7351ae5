"""Finds the rules that hold for an entity, by its type in a model, and applies them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from catalog.model.schema import Attribute, Model
from catalog.model.xid import Xid
from catalog.rules.endpoints import check_endpoint
from catalog.rules.fault import Fault, Subject, Surroundings
from catalog.rules.messages import check_message, check_messagegroup
from catalog.rules.references import check_bases, check_format, check_references

_Check = Callable[[Subject, Surroundings], Iterator[Fault]]

# Types are those of the domains if they have these attributes, whatever else they have.
_GROUPS: Mapping[str, tuple[frozenset[str], tuple[_Check, ...]]] = {
    "endpoints": (frozenset({"usage", "protocol"}), (check_endpoint, check_references)),
    "messagegroups": (frozenset({"envelope", "protocol"}), (check_messagegroup,)),
}
_MESSAGE = frozenset({"envelope", "protocol", "dataschemauri"})
_MESSAGES: tuple[_Check, ...] = (check_message, check_references, check_bases, check_format)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the domains, for the types of a model that are theirs."""

    model: Model

    def examine(self, subject: Subject, around: Surroundings) -> list[Fault]:
        """What is wrong with a group, a resource or a version; whatever its values are.

        What is asked about others is only what `around` knows.
        """
        return [fault for check in self._checks(subject.xid) for fault in check(subject, around)]

    def _checks(self, xid: Xid) -> tuple[_Check, ...]:
        if xid.kind == "group":
            names, checks = _GROUPS.get(xid.groups, (frozenset(), ()))
            kind = self.model.group_type(xid.groups)
            return checks if kind is not None and _has(kind.attributes, names) else ()
        if xid.kind == "resource":
            return (check_references,)
        resources = self.model.resource_type(xid.groups, xid.resources)
        if xid.kind != "version" or resources is None or xid.resources != "messages":
            return ()
        return _MESSAGES if _has(resources.attributes, _MESSAGE) else ()


def _has(attributes: Mapping[str, Attribute], names: frozenset[str]) -> bool:
    return names <= attributes.keys()
