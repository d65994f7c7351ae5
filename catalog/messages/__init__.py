"""Checks whether a message conforms to a message definition."""

from __future__ import annotations

from catalog.messages.conformance import check_metadata
from catalog.messages.definition import BASES, MessageDefinition, combine
from catalog.messages.message import Message
from catalog.messages.messageparser import is_binary_event, read_binary_event, read_json_message
from catalog.messages.referencetargets import ReferenceTarget, reference_targets
from catalog.messages.violations import RuleViolation, Unchecked, Violations

__all__ = [
    "BASES",
    "Message",
    "MessageDefinition",
    "ReferenceTarget",
    "RuleViolation",
    "Unchecked",
    "Violations",
    "check_metadata",
    "combine",
    "is_binary_event",
    "read_binary_event",
    "read_json_message",
    "reference_targets",
]
