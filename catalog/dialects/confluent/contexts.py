"""Names of contexts and subjects, and the contexts that a caller sees with their settings.

A context is a schema group with the attribute `confluent`, and a subject a schema in the group.
Each authority has one home group, which is the authority's part of the default context: a caller's
default context is all home groups, the node's own first. A home group of another authority is also
the context of its own name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from catalog.model.confluentattribute import SCHEMA_GROUPS, SCHEMAS, derived_id, possible_ids
from catalog.model.xid import Xid, is_valid_id
from catalog.operations.schemacontracts import Config
from catalog.settings import Settings
from catalog.store import schemaids
from catalog.store.database import Connection

DEFAULT_CONTEXT = "."
GLOBAL_CONTEXT = ".__GLOBAL"
"""The context that has settings for all contexts, and no subjects."""
ANY_CONTEXT = "*"
_ANY_PREFIX = ":*:"
_RESERVED = ("__GLOBAL", "__EMPTY")
_LONGEST_NAME = 1024
DEFAULT_CONFIG = Config(compatibilityLevel="BACKWARD")
_MOST_REMEMBERED = 1000
_remembered: OrderedDict[bytes, Mapping[str, Any]] = OrderedDict()


class SubjectName(NamedTuple):
    """The name of a subject in a context; an empty name stands for the context itself."""

    context: str
    name: str

    def __str__(self) -> str:
        """The qualified name, as `orders-value` or `:.team:orders-value`."""
        prefix = "" if self.context == DEFAULT_CONTEXT else f":{self.context}:"
        return prefix + self.name

    @property
    def is_legal(self) -> bool:
        """Whether schemas may be registered under the name."""
        return (
            bool(self.name)
            and self.name not in _RESERVED
            and self.context not in (GLOBAL_CONTEXT, ANY_CONTEXT)
            and len(self.name) <= _LONGEST_NAME
            and self.name.isprintable()
        )


def read_subject(text: str, within: str = DEFAULT_CONTEXT) -> SubjectName:
    """Read a name that may be qualified.

    Args:
        text: the name, as `orders-value`, `:.team:orders-value`, `:.team:` or `:*:orders`.
        within: the context of a name that is not qualified.
    """
    if text.startswith(_ANY_PREFIX):
        return SubjectName(ANY_CONTEXT, text.removeprefix(_ANY_PREFIX))
    if text.startswith(":."):
        context, _, name = text[1:].partition(":")
        return SubjectName(context, name)
    return SubjectName(within, text)


def read_context(text: str) -> str:
    """Read the name of a context, as `team`, `.team` or `:.team:`.

    Raises:
        ValueError: the name has a colon within, or is too long.
    """
    name = text.removeprefix(":").removesuffix(":")
    if ":" in name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise ValueError("it may hold no colon, and 1024 printable characters at most")
    return name if name.startswith(".") else f".{name}"


READWRITE, IMPORT, FORWARD = "READWRITE", "IMPORT", "FORWARD"
MODES = (READWRITE, "READONLY", "READONLY_OVERRIDE", IMPORT, FORWARD)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaContext:
    """A schema group as a context.

    Args:
        kept: the attribute `confluent` of the group: `home`, `context` if the name is no legal id,
            `config`, `mode`, `subjects` with both, `ids` and `reserved`; `source`, the
            `registry` that a link has brought it from, and its `context` there.
    """

    xid: str
    authority: str
    kept: Mapping[str, Any]

    @property
    def group(self) -> Xid:
        return Xid.parse(self.xid)

    @property
    def is_home(self) -> bool:
        return self.kept.get("home") is True

    @property
    def name(self) -> str:
        """The name of the context, whether it is a home group or not."""
        named = self.kept.get("context")
        return named if isinstance(named, str) else f".{self.group.gid}"

    def resources(self, name: str) -> list[str]:
        """The xids that the resource of a subject may have."""
        return [str(self.group.child(SCHEMAS, id)) for id in possible_ids(name)]

    def config_of(self, name: str = "") -> Config | None:
        """The settings of a subject, or with an empty name of the context itself."""
        held = self._settings(name).get("config")
        try:
            return Config.model_validate(held) if isinstance(held, Mapping) else None
        except ValueError:
            # The authority of a replica may be of a newer version.
            return None

    def mode_of(self, name: str = "") -> str | None:
        """The mode of a subject, or with an empty name of the context itself."""
        mode = self._settings(name).get("mode")
        return mode if mode in MODES else None

    def _settings(self, name: str) -> Mapping[str, Any]:
        if not name:
            return self.kept
        subjects = self.kept.get("subjects")
        held = subjects.get(name) if isinstance(subjects, Mapping) else None
        return held if isinstance(held, Mapping) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """The contexts that a caller sees.

    Args:
        authority: the authority of the node.
        all: every context by xid.
        rows: the contexts as they were read.
    """

    authority: str
    all: Mapping[str, SchemaContext]
    home_id: str
    rows: Sequence[schemaids.ContextRow]

    @classmethod
    async def load(cls, connection: Connection, authority: str, settings: Settings) -> Contexts:
        rows = await schemaids.load_contexts(connection)
        # Settings are kept by the hash of their content, so no write makes the cache stale.
        missing = [row.xid for row in rows if row.hash not in _remembered]
        if missing:
            for hash, kept in (await schemaids.load_settings(connection, missing)).items():
                _remembered[hash] = kept if isinstance(kept, Mapping) else {}
        found = {
            row.xid: SchemaContext(xid=row.xid, authority=row.authority, kept=_remembered[row.hash])
            for row in rows
            # A group that is deleted between the two queries has no settings.
            if row.hash in _remembered
        }
        while len(_remembered) > _MOST_REMEMBERED:
            _remembered.popitem(last=False)
        home_id = _home_id(authority, settings)
        return cls(authority=authority, all=found, home_id=home_id, rows=rows)

    @property
    def homes(self) -> list[SchemaContext]:
        """The parts of the default context, the node's own first."""
        homes = (context for context in self.all.values() if context.is_home)
        return sorted(homes, key=lambda each: (each.authority != self.authority, each.xid))

    @property
    def home(self) -> SchemaContext:
        """The node's own home group, which may not exist yet."""
        for context in self.homes[:1]:
            if context.authority == self.authority:
                return context
        xid = str(Xid(SCHEMA_GROUPS, self.home_id))
        return SchemaContext(xid=xid, authority=self.authority, kept={"home": True})

    def named(self, name: str) -> list[SchemaContext]:
        """The groups of a context, the group to write to first; a new one if there is none."""
        if name == DEFAULT_CONTEXT:
            home = self.home
            return [home, *(each for each in self.homes if each.xid != home.xid)]
        found = [each for each in self.all.values() if each.name == name]
        return found or [self._new(name)]

    def _new(self, name: str) -> SchemaContext:
        gid = name.removeprefix(".")
        taken = {each.group.gid.lower() for each in self.all.values()}
        is_free = is_valid_id(gid) and gid.lower() not in taken
        kept = {} if is_free else {"context": name}
        xid = str(Xid(SCHEMA_GROUPS, gid if is_free else derived_id(name)))
        return SchemaContext(xid=xid, authority=self.authority, kept=kept)

    def referenced(self, name: str, within: str) -> SubjectName:
        """The subject that a reference in a context names.

        References of a registry that was followed name contexts as that registry does.
        """
        subject = read_subject(name, within)
        source = self.named(within)[0].kept.get("source")
        if subject.context != within and isinstance(source, Mapping):
            wanted = {**source, "context": subject.context}
            for each in self.all.values():
                if each.kept.get("source") == wanted:
                    return SubjectName(each.name, subject.name)
        return subject

    def resources_of(self, subject: SubjectName) -> list[str]:
        """The xids of the resources that the name of a subject may mean."""
        groups = self.named(subject.context)
        return [xid for group in groups for xid in group.resources(subject.name)]

    def exists(self, context: SchemaContext) -> bool:
        return context.xid in self.all

    def listed(self) -> list[str]:
        """The names of all contexts; the node's own home group is the default context only."""
        own = self.home.xid
        names = {each.name for each in self.all.values() if each.xid != own}
        return [DEFAULT_CONTEXT, *sorted(names - {GLOBAL_CONTEXT})]

    def shown_subject(self, xid: Xid, name: str) -> SubjectName:
        """The name of a subject for clients: of the default context wherever it is a home group."""
        return self.shown_in(str(xid.group), name)

    def shown_in(self, group: str, name: str) -> SubjectName:
        """As `shown_subject`, of a subject in a group."""
        context = self.all.get(group)
        if context is None or context.is_home:
            return SubjectName(DEFAULT_CONTEXT, name)
        return SubjectName(context.name, name)

    def config_in_scope(self, context: SchemaContext, name: str) -> Config:
        """The settings in force for a subject: of the subject, else its context, else all contexts.

        A compatibility level that the settings lack is the default level.
        """
        for config in (
            context.config_of(name) if name else None,
            context.config_of(),
            *(each.config_of() for each in self.named(GLOBAL_CONTEXT)),
        ):
            if config is not None:
                level = config.compatibilityLevel or DEFAULT_CONFIG.compatibilityLevel
                return config.model_copy(update={"compatibilityLevel": level})
        return DEFAULT_CONFIG

    def mode_in_scope(self, context: SchemaContext, name: str) -> str:
        """The mode in force for a subject; READONLY_OVERRIDE of the default context wins."""
        everywhere = self.home.mode_of()
        if everywhere == "READONLY_OVERRIDE":
            return everywhere
        return (
            (context.mode_of(name) if name else None)
            or context.mode_of()
            or next(filter(None, (each.mode_of() for each in self.named(GLOBAL_CONTEXT))), None)
            or READWRITE
        )

    def visible_groups(self, name: str) -> Sequence[SchemaContext]:
        """The groups of a context that exist; for any context (`*`), all groups."""
        if name == ANY_CONTEXT:
            return [*self.all.values()]
        return [each for each in self.named(name) if self.exists(each)]


def _home_id(authority: str, settings: Settings) -> str:
    """The id of the node's home group, which differs from those of other authorities."""
    if settings.confluent_group:
        return settings.confluent_group
    parts = urlsplit(authority)
    place = f"{parts.hostname or ''}-{parts.port or ''}".strip("-") or authority.rpartition(":")[2]
    return f"schemas.{place}"[:128]
