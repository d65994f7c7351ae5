"""The bodies of the Confluent API: schemas with references, metadata and rules, and settings.

Metadata and rules are the API's data contracts. Unknown members are ignored, as the API does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
SCHEMA_TYPES = (JSON, PROTOBUF, AVRO)
CONFLUENT_VERSION = "confluent:version"
MOST_REFERENCES = 1000
_KINDS = ("TRANSFORM", "CONDITION")
RULE_MODES: Mapping[str, tuple[str, ...]] = {
    "migrationRules": ("UPGRADE", "DOWNGRADE", "UPDOWN"),
    "domainRules": ("WRITE", "READ", "WRITEREAD"),
    "encodingRules": ("WRITE", "READ", "WRITEREAD"),
}
_RULE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_\-]{0,63}")


class Contract(BaseModel):
    """A part of a body; members without a value are left out of JSON."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    def shown(self) -> dict[str, Any]:
        """The part as JSON, without members that are empty."""
        return _without_empty(self.model_dump(by_alias=True))


def _without_empty(members: Mapping[str, Any]) -> dict[str, Any]:
    shown = {}
    for name, value in members.items():
        if isinstance(value, Mapping):
            value = (
                dict(value) if name in ("properties", "params", "tags") else _without_empty(value)
            )
        elif isinstance(value, list):
            value = [_without_empty(one) if isinstance(one, Mapping) else one for one in value]
        if value or value == 0:
            shown[name] = value
    return shown


class SchemaReference(Contract):
    """A reference of a schema to a version of a subject, under the name that the schema uses."""

    name: str = Field(max_length=1024)
    subject: str = Field(max_length=2048)
    version: int = Field(ge=-1, lt=2**31)


class Metadata(Contract):
    """Tags of parts of a schema, properties of the schema, and the names of sensitive ones."""

    tags: dict[str, list[str]] | None = None
    properties: dict[str, str] | None = None
    sensitive: list[str] | None = None

    def merged(self, newer: Metadata | None) -> Metadata:
        """The metadata with another's, which wins."""
        if newer is None:
            return self
        return Metadata(
            tags={**(self.tags or {}), **(newer.tags or {})} or None,
            properties={**(self.properties or {}), **(newer.properties or {})} or None,
            sensitive=sorted({*(self.sensitive or ()), *(newer.sensitive or ())}) or None,
        )


class SchemaRule(Contract):
    """A rule that clients apply to messages."""

    name: str | None = None
    doc: str | None = None
    kind: Annotated[str, BeforeValidator(lambda given: given or "TRANSFORM")] = "TRANSFORM"
    mode: Annotated[str, BeforeValidator(lambda given: given or "WRITEREAD")] = "WRITEREAD"
    type: str | None = None
    tags: list[str] | None = None
    params: dict[str, str] | None = None
    expr: str | None = None
    onSuccess: str | None = None
    onFailure: str | None = None
    disabled: bool = False


class RuleSet(Contract):
    """The rules of a schema by their purpose."""

    migrationRules: list[SchemaRule] | None = None
    domainRules: list[SchemaRule] | None = None
    encodingRules: list[SchemaRule] | None = None
    enableAt: str | None = None

    def merged(self, newer: RuleSet | None) -> RuleSet:
        """The rules with another's, which win over rules of the same name."""
        if newer is None:
            return self
        return RuleSet(
            migrationRules=_merged(self.migrationRules, newer.migrationRules),
            domainRules=_merged(self.domainRules, newer.domainRules),
            encodingRules=_merged(self.encodingRules, newer.encodingRules),
            enableAt=newer.enableAt or self.enableAt,
        )

    def fault(self) -> str:
        """What keeps clients from applying the rules; empty if nothing does."""
        for purpose, modes in RULE_MODES.items():
            rules: list[SchemaRule] = getattr(self, purpose) or []
            names = [rule.name for rule in rules]
            for rule in rules:
                if fault := _fault_of(rule, purpose, modes):
                    return fault
                if names.count(rule.name) > 1:
                    return f"Found rule with duplicate name '{rule.name}'"
        return ""


def _merged(
    older: list[SchemaRule] | None, newer: list[SchemaRule] | None
) -> list[SchemaRule] | None:
    replaced = {rule.name for rule in newer or ()}
    kept = [rule for rule in older or () if rule.name not in replaced]
    return [*kept, *(newer or ())] or None


def _fault_of(rule: SchemaRule, purpose: str, modes: Sequence[str]) -> str:
    if not rule.name:
        return "Missing rule name"
    if _RULE_NAME.fullmatch(rule.name) is None:
        return (
            f"Rule name '{rule.name[:80]}' needs 1 to 64 letters, digits, underscores and hyphens, "
            "and no digit or hyphen at its start"
        )
    if rule.kind not in _KINDS:
        return f"Rule '{rule.name}' needs a kind among {', '.join(_KINDS)}"
    if not rule.type:
        return f"Missing rule type of '{rule.name}'"
    if rule.mode not in modes:
        return f"Rule '{rule.name}' of {purpose} needs a mode among {', '.join(modes)}"
    return ""


class RegisterRequest(Contract):
    """A schema to register, look up or compare.

    `version` and `id` are those of another registry, in the mode IMPORT.
    """

    schema_: str | None = Field(default=None, alias="schema")
    schemaType: str | None = None
    references: list[SchemaReference] | None = Field(default=None, max_length=MOST_REFERENCES)
    metadata: Metadata | None = None
    ruleSet: RuleSet | None = None
    version: int | None = Field(default=None, ge=-1, lt=2**31)
    id: int | None = Field(default=None, ge=-1, lt=2**31)


Level = Literal[
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
]
COMPATIBILITY_LEVELS: tuple[str, ...] = get_args(Level)


class Config(Contract):
    """Settings of a subject, a context or all contexts."""

    alias: str | None = Field(default=None, max_length=2048)
    normalize: bool | None = None
    validateFields: bool | None = None
    validateNames: bool | None = None
    validateRules: bool | None = None
    compatibilityLevel: Level | None = None
    compatibilityPolicy: str | None = None
    compatibilityGroup: str | None = Field(default=None, max_length=1024)
    defaultMetadata: Metadata | None = None
    overrideMetadata: Metadata | None = None
    defaultRuleSet: RuleSet | None = None
    overrideRuleSet: RuleSet | None = None

    @property
    def changes_contracts(self) -> bool:
        """Whether the settings add metadata or rules to the schemas that are registered."""
        return any(
            (self.defaultMetadata, self.overrideMetadata, self.defaultRuleSet, self.overrideRuleSet)
        )

    def updated(self, newer: Self) -> Self:
        """The settings with those that an update names."""
        return self.model_copy(
            update={name: getattr(newer, name) for name in newer.model_fields_set}
        )


class ConfigUpdate(Config):
    """The body of an update of settings, which has the level as any text, under either name."""

    compatibility: Any = None
    compatibilityLevel: Any = None


class ModeUpdate(Contract):
    """The body of a change of the mode."""

    mode: str | None = Field(default=None, max_length=80)
