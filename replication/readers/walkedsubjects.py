"""Reads what a registry of the Confluent API shows of subjects and versions: pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from catalog.client import JsonObject
from catalog.dialects.confluent.candidates import guid_of
from catalog.dialects.confluent.contexts import (
    DEFAULT_CONTEXT,
    GLOBAL_CONTEXT,
    SubjectName,
)
from catalog.dialects.confluent.register import MIXED, format_of
from catalog.model.confluentattribute import SCHEMA_GROUPS, SCHEMAS, derived_id
from catalog.model.linkterms import DEFAULT_GROUP
from catalog.model.xid import Xid, is_valid_id
from catalog.operations.schemacontracts import (
    AVRO,
    SCHEMA_TYPES,
    Config,
    Metadata,
    RuleSet,
    SchemaReference,
)

_LARGEST = 2**31 - 1
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedVersion:
    """A version of a subject as the registry shows it."""

    number: int
    id: int
    schema_type: str
    text: str
    references: tuple[SchemaReference, ...]
    metadata: Metadata | None
    rules: RuleSet | None
    guid: str
    at: datetime | None

    @classmethod
    def read(cls, shown: JsonObject) -> WalkedVersion:
        """Read a version.

        Raises:
            ValueError: the reason why it is none.
        """
        number, id, text = (shown.get(name) for name in ("version", "id", "schema"))
        schema_type = shown.get("schemaType") or AVRO
        if type(number) is not int or type(id) is not int or not is_version_number(id):
            raise ValueError("it has no id or no number")
        if not isinstance(text, str):
            raise ValueError("it has no text")
        if schema_type not in SCHEMA_TYPES:
            raise ValueError(f"its type {str(schema_type)[:64]!r} is unknown here")
        references = shown.get("references") or []
        if not isinstance(references, list):
            raise ValueError("its references are no list")
        return cls(
            number=number,
            id=id,
            schema_type=schema_type,
            text=text,
            references=tuple(SchemaReference.model_validate(each) for each in references),
            metadata=_optional(Metadata.model_validate, shown.get("metadata")),
            rules=_optional(RuleSet.model_validate, shown.get("ruleSet")),
            guid=str(shown.get("guid") or ""),
            at=_read_time(shown.get("ts")),
        )

    def identified_by(self, text: str) -> str:
        """The GUID of the version if this is its canonical text."""
        return guid_of(text, self.references, self.metadata, self.rules)

    def kept(self, subject: SubjectName, rid: str, guid: str, *, is_deleted: bool) -> JsonObject:
        """The attribute of `catalog.model.schemaids`."""
        kept: JsonObject = {"id": self.id, "guid": guid, "schemaType": self.schema_type}
        if self.references:
            kept["references"] = [each.shown() for each in self.references]
        if self.metadata is not None:
            kept["metadata"] = self.metadata.shown()
        if self.rules is not None:
            kept["ruleSet"] = self.rules.shown()
        if rid != subject.name:
            kept["subject"] = subject.name
        return {**kept, "deleted": True} if is_deleted else kept


def is_version_number(value: Any) -> bool:
    return type(value) is int and 0 < value <= _LARGEST


def _read_time(milliseconds: Any) -> datetime | None:
    # The year 10000 is no time here.
    is_time = type(milliseconds) is int and 0 < milliseconds < 253_402_300_800_000
    return datetime.fromtimestamp(milliseconds / 1000, UTC) if is_time else None


def _optional(read: Callable[[Any], _Found], value: Any) -> _Found | None:
    return None if value is None else read(value)


@dataclass(frozen=True, slots=True)
class WalkedSubjects:
    """The contexts by the ids of their groups, and the resources of the subjects."""

    contexts: dict[str, str]
    xids: dict[SubjectName, Xid]
    illegal: list[SubjectName]

    @classmethod
    def of(cls, subjects: Iterable[SubjectName], contexts: Iterable[str]) -> WalkedSubjects:
        listed = list(dict.fromkeys(subjects))
        names = {DEFAULT_CONTEXT, *contexts, *(subject.context for subject in listed)}
        names -= {GLOBAL_CONTEXT}
        similar = Counter(name.lower() for name in names)
        gids = {name: _gid(name, similar[name.lower()]) for name in sorted(names)}
        legal = [subject for subject in listed if subject.is_legal]
        cases = Counter((subject.context, subject.name.lower()) for subject in legal)
        xids = {}
        for subject in sorted(legal):
            rid = _rid(subject.name, cases[subject.context, subject.name.lower()])
            xids[subject] = Xid(SCHEMA_GROUPS, gids[subject.context], SCHEMAS, rid)
        illegal = [subject for subject in listed if not subject.is_legal]
        return cls({gid: name for name, gid in gids.items()}, xids, illegal)


def _gid(context: str, number: int) -> str:
    """The id of the group of a context.

    Args:
        number: the contexts with the name in any case.
    """
    default = DEFAULT_GROUP.partition("/")[2]
    if context == DEFAULT_CONTEXT:
        return default
    gid = context.removeprefix(".")
    is_free = gid.lower() != default and (number == 1 or context == context.lower())
    return gid if is_valid_id(gid) and is_free else derived_id(context)


def _rid(name: str, number: int) -> str:
    """The id of the resource of a subject.

    Args:
        number: the subjects of the context with the name in any case.
    """
    is_free = number == 1 or name == name.lower()
    return name if is_valid_id(name) and is_free else derived_id(name)


def common_format(versions: Sequence[WalkedVersion]) -> str:
    """The format of all versions: the standard wants it to be equal."""
    formats = [format_of(each.schema_type, each.text) for each in versions]
    families = {format.partition("/")[0] for format in formats}
    return MIXED if len(families) > 1 else next(iter(formats), MIXED)


def readable_settings(settings: JsonObject) -> JsonObject:
    """The settings of a subject or context; a config that this node cannot read is left out."""
    if "config" not in settings:
        return settings
    try:
        return {**settings, "config": Config.model_validate(settings["config"]).shown()}
    except ValueError:
        return {name: value for name, value in settings.items() if name != "config"}


def tells_deletions(page: Sequence[Any]) -> bool:
    """Whether the entries of a list say which versions are deleted."""
    return any("deleted" in each or "ts" in each for each in page if isinstance(each, dict))


def number_of(shown: JsonObject) -> Any:
    number = shown.get("version")
    return number if type(number) is int else str(number)


def key_of(shown: JsonObject) -> int:
    return hash((str(shown.get("subject")), number_of(shown)))
