"""An xRegistry document as a file: its groups, and what reading it did to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from catalog.documents import migration as migrations
from catalog.documents.downgrade import downgrade
from catalog.documents.editions import DOCUMENT_SCHEMA
from catalog.documents.losses import Loss, find_losses
from catalog.documents.migration import Migrated
from catalog.documents.rewriter import Rewrite
from catalog.documents.serialization import SourceFileError, read_object_file, to_yaml

# What a Registry has besides its groups (core/spec.md, "Registry Entity"): what a document
# says of itself, and what its catalog assigned. Some have objects where text should be.
ABOUT = frozenset({"description", "documentation", "icon", "labels", "name"})
ASSIGNED = frozenset(
    {"capabilities", "createdat", "epoch", "model", "modelsource", "modifiedat"}
    | {"registryid", "self", "shortself", "specversion", "xid"}
)


class DocumentError(Exception):
    """A file that is no xRegistry document. `hint` says what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFile:
    """A file's groups, by their plural, and the names of what it says of itself.

    `migrated` tells its edition, and what was or would be done to bring it to the newest one;
    `is_strict` documents are taken as they are. `losses` is what a node would overlook or misread
    of what is sent: with any, nothing is. Attributes that a node refuses become extensions if
    the document `keeps_unknown` ones.
    """

    path: Path
    groups: Mapping[str, Mapping[str, Any]]
    not_sent: tuple[str, ...]
    migrated: Migrated
    is_strict: bool
    keeps_unknown: bool = False
    losses: tuple[Loss, ...] = ()

    @property
    def older(self) -> tuple[Rewrite, ...]:
        """What is sent as only an older edition has it."""
        return self.migrated.older if self.is_strict else ()


def read_document(path: Path, *, migrate: bool = False, keep_unknown: bool = False) -> DocumentFile:
    """Read a JSON or YAML file of any edition.

    Args:
        path: the file; its name says whether it is YAML.
        migrate: rewrite it to the newest edition, instead of taking it as it is.
        keep_unknown: keep what cannot be rewritten as an extension.

    Raises:
        DocumentError: it cannot be read, is not an object, or has no groups.
    """
    try:
        source = read_object_file(path)
        migrated = migrations.migrate(source, keep_unknown=keep_unknown)
    except SourceFileError as error:
        raise DocumentError(error.message, error.hint) from error
    taken = migrated.document if migrate else source
    groups = {name: value for name, value in taken.items() if _is_groups(name, value)}
    if not groups:
        raise DocumentError(
            f"{path} holds no groups.", "It should have messagegroups, schemagroups or endpoints."
        )
    left = (name for name in taken if name not in groups and not _is_assigned(name))
    return DocumentFile(
        path=path,
        groups=groups,
        not_sent=tuple(sorted(left)),
        migrated=migrated,
        is_strict=not migrate,
        keeps_unknown=keep_unknown,
        losses=find_losses(groups),
    )


def _is_groups(name: str, value: Any) -> bool:
    if name in ABOUT or _is_assigned(name) or name.startswith("$"):
        return False
    return isinstance(value, dict)


def _is_assigned(name: str) -> bool:
    name = name.lower()
    return name in ASSIGNED or name.endswith(("url", "count"))


FORMATS = ("xreg.json", "xreg.yaml", "cereg", "cereg.yaml")


_SUFFIXES = {".xreg.yml": "xreg.yaml", ".cereg.yml": "cereg.yaml", ".cereg.json": "cereg"} | {
    ".yaml": "xreg.yaml",
    ".yml": "xreg.yaml",
}


def format_of(path: Path | None) -> str:
    """The format that a file is named after."""
    name = "" if path is None else path.name.lower()
    for suffix, format in {**{f".{format}": format for format in FORMATS}, **_SUFFIXES}.items():
        if name.endswith(suffix):
            return format
    return FORMATS[0]


def write_document(document: Mapping[str, Any], format: str, edition: str) -> bytes:
    """A document of the newest edition as the text of a file.

    Args:
        document: an export.
        format: one of `FORMATS`; those of CloudEvents name their schema.
        edition: one of `EDITIONS`.
    """
    written = downgrade(document, edition)
    if format.startswith("cereg"):
        written = {"$schema": DOCUMENT_SCHEMA, **written}
    if format.endswith("yaml"):
        return to_yaml(written)
    return orjson.dumps(written, option=orjson.OPT_INDENT_2) + b"\n"
