"""Messages held against their definitions."""

from __future__ import annotations

from catalog.messages.conformance import check_metadata
from catalog.messages.definition import BASES, Definition, combine
from catalog.messages.findings import Findings, Unchecked, Violation
from catalog.messages.message import Message
from catalog.messages.parse import is_binary_event, read_binary_event, read_json_message
from catalog.messages.references import Place, places

__all__ = [
    "BASES",
    "Definition",
    "Findings",
    "Message",
    "Place",
    "Unchecked",
    "Violation",
    "check_metadata",
    "combine",
    "is_binary_event",
    "places",
    "read_binary_event",
    "read_json_message",
]
