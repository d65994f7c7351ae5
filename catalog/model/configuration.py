"""What clients can configure of a registry: its model and its capabilities."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.model.capabilities import OFFERED, Capabilities
from catalog.model.schema import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The model and the capabilities in force. Every change of either has a higher `revision`."""

    model: Model
    capabilities: Capabilities = OFFERED
    revision: int = 0
