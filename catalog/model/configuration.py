"""The configuration of a registry: its model and its capabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

from catalog.model.capabilities import OFFERED, Capabilities, update_capabilities
from catalog.model.errors import CapabilityError, ModelError
from catalog.model.modelsource import load_model
from catalog.model.schema import Model


class _Absent(Enum):
    ABSENT = "absent"


# Marks a part that a request does not mention; `None` resets the part.
ABSENT: Final = _Absent.ABSENT
Absent: TypeAlias = Literal[_Absent.ABSENT]


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The model and the capabilities in force. Every change raises `revision`.

    `resolved` is the source of the model with resolved `$include`s, or `None` without includes.
    """

    model: Model
    capabilities: Capabilities = OFFERED.initially
    revision: int = 0
    resolved: Mapping[str, Any] | None = None

    def differences(self, other: Configuration) -> frozenset[str]:
        """The names of differences in change rows; each capability has a separate name."""
        mine, theirs = self.capabilities.as_json(), other.capabilities.as_json()
        names = {f"capabilities.{name}" for name in mine if mine[name] != theirs[name]}
        if names:
            names.add("capabilities")
        if self.model.source != other.model.source:
            names.add("modelsource")
        if self.model.expanded() != other.model.expanded():
            names.add("model")
        return frozenset(names)


def reconfigured(
    current: Configuration,
    *,
    offered: Capabilities,
    modelsource: Mapping[str, Any] | Absent | None = ABSENT,
    resolved: Mapping[str, Any] | None = None,
    capabilities: Mapping[str, Any] | Absent | None = ABSENT,
    patch: bool = False,
) -> Configuration:
    """The configuration that a request asks for, not yet checked against entities.

    Args:
        offered: the capabilities that the server offers.
        modelsource: the new source, as given; `None` is an empty source.
        resolved: the new source with resolved `$include`s, or `None` without includes.
        capabilities: the capabilities to change or, with `patch` unset, the complete capabilities;
            `None` resets to the initial capabilities.

    Raises:
        ModelError, CapabilityError and related errors.
    """
    able, model, kept = current.capabilities, current.model, current.resolved
    if capabilities is None:
        able = offered.initially
    elif capabilities is not ABSENT:
        able = update_capabilities(capabilities, current=able, offered=offered, patch=patch)
    if modelsource is not ABSENT:
        model, kept = model_of(modelsource or {}, resolved), resolved
        _check_names(current.model, model)
    unsupported = _unsupported_modes(model, able)
    if unsupported and modelsource is not ABSENT:
        raise ModelError("/model", error_detail=unsupported)
    if unsupported:
        raise CapabilityError("/capabilities", error_detail=unsupported)
    return Configuration(
        model=model, capabilities=able, revision=current.revision + 1, resolved=kept
    )


def model_of(source: Mapping[str, Any], resolved: Mapping[str, Any] | None) -> Model:
    """The model of a source; `resolved` has resolved `$include`s, `None` without includes."""
    if resolved is None:
        return load_model(source)
    return replace(load_model(resolved), source=dict(source))


def _check_names(old: Model, new: Model) -> None:
    """core/model.md, "groups.<STRING>.singular": names of types are immutable."""
    for plural, group in new.groups.items():
        before = old.groups.get(plural)
        if before is None:
            continue
        types = [(before, group)] + [
            (kept, kind)
            for name, kind in group.resources.items()
            if (kept := before.resources.get(name)) is not None
        ]
        for was, kind in types:
            if was.singular != kind.singular:
                detail = f'"{was.plural}" must keep its singular name "{was.singular}"'
                raise ModelError("/model", error_detail=detail)


def _unsupported_modes(model: Model, capabilities: Capabilities) -> str:
    """The problem of a type whose version mode is switched off, or an empty text."""
    for group in model.groups.values():
        for kind in group.resources.values():
            if kind.versionmode not in capabilities.versionmodes:
                return (
                    f'"{kind.plural}" has the version mode "{kind.versionmode}", which is not '
                    'among "versionmodes" of the capabilities'
                )
    return ""
