"""Finds and reads documents with their edition and losses, and writes them in every edition."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from glob import glob, has_magic
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any

import orjson

from catalog.commands.console import CommandError
from catalog.documents import migration
from catalog.documents.asyncapi.fromentities import Exported
from catalog.documents.asyncapi.references import AsyncApiError
from catalog.documents.asyncapi.toentities import edition_of, to_entities
from catalog.documents.downgrade import downgrade
from catalog.documents.losses import Loss, find_losses
from catalog.documents.migration import DOCUMENT_SCHEMA, Migrated, StatedEdition
from catalog.documents.rewriter import Rewrite
from catalog.documents.serialization import STDIN, SourceFileError, read_object_file, to_yaml

FORMATS = ("xreg.json", "xreg.yaml", "cereg", "cereg.yaml")
ASYNCAPI_FORMATS = ("asyncapi.yaml", "asyncapi.json")
# Members of a Registry besides the groups (core/spec.md, "Registry Entity"): descriptions, and
# members that the catalog assigns. Members with an object as value look like groups.
_DESCRIPTION = frozenset({"description", "documentation", "icon", "labels", "name"})
_ASSIGNED = frozenset(
    {"capabilities", "createdat", "epoch", "model", "modelsource", "modifiedat"}
    | {"registryid", "self", "shortself", "specversion", "xid"}
)
# Other kinds of documents, by the member with the version of the kind.
_OTHER_KINDS = {"openapi": "OpenAPI", "swagger": "OpenAPI"}
_AVRO_TYPES = ("enum", "fixed", "record")
# The format of a document by the suffix of the file name.
FORMATS_BY_SUFFIX = {
    ".xreg.json": "xreg.json",
    ".xreg.yaml": "xreg.yaml",
    ".xreg.yml": "xreg.yaml",
    ".cereg": "cereg",
    ".cereg.json": "cereg",
    ".cereg.yaml": "cereg.yaml",
    ".cereg.yml": "cereg.yaml",
    "asyncapi.json": "asyncapi.json",
    "asyncapi.yaml": "asyncapi.yaml",
    "asyncapi.yml": "asyncapi.yaml",
}
SUFFIXES = tuple(FORMATS_BY_SUFFIX)
_MOST_FILES = 10_000


def document_paths(arguments: Iterable[str], *, allow_empty: bool = False) -> list[Path]:
    """The files that `arguments` name, each once, in the order of the arguments.

    Args:
        arguments: each a file with an arbitrary name; a directory, searched for file names in
            `SUFFIXES`, except in hidden directories; a glob pattern for the same file names, in
            which `**` matches every depth; or `-`, the standard input.
        allow_empty: an argument may name no document.

    Raises:
        CommandError: an argument names no document or is a URL, or the arguments name more
            than 10,000 documents.
    """
    found: dict[Path, None] = {}
    for argument in arguments:
        # The limit ends the search of a huge directory early.
        paths = list(islice(_expand(argument), _MOST_FILES + 1))
        found.update(dict.fromkeys(paths))
        if len(found) > _MOST_FILES:
            raise CommandError(
                f"{argument} names more than {_MOST_FILES:,} documents.",
                "Name fewer, or a directory below it.",
            )
        if not paths and not allow_empty:
            raise CommandError(
                f"{argument} names no document.",
                f"The names of documents end in {', '.join(SUFFIXES)}.",
            )
    return list(found)


def _expand(argument: str) -> Iterator[Path]:
    if argument.startswith(("http://", "https://")):
        raise CommandError(
            f"{argument} is a URL, and documents are read from files.",
            f"Give - for the document, and fetch it: curl -fsSL {quote(argument)} | concord … -",
        )
    path = Path(argument)
    if path == STDIN or path.is_file():
        yield path
    elif path.is_dir():
        yield from _search(path)
    elif has_magic(argument):
        for match in sorted(glob(argument, recursive=True)):
            yield from _search(Path(match)) if Path(match).is_dir() else _named(Path(match))
    else:
        # The later attempt to read the missing file raises the better error.
        yield path


def _search(directory: Path) -> Iterator[Path]:
    for folder, names, files in os.walk(directory):
        # os.walk descends into the names that remain in this list, in the order of the list.
        names[:] = sorted(name for name in names if not name.startswith("."))
        for name in sorted(files):
            yield from _named(Path(folder, name))


def _named(path: Path) -> Iterator[Path]:
    if path.name.lower().endswith(SUFFIXES):
        yield path


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFile:
    """A document that was read from a file.

    Args:
        path: the file.
        groups: the groups to send, by plural.
        not_sent: names of members that describe the document.
        migrated: the edition of the document, and the rewrites to the newest edition.
        is_strict: the groups are unchanged from the file, without the rewrites.
        keeps_unknown: attributes that a node refuses become extensions.
        is_asyncapi: the groups are translated from an AsyncAPI document.
        losses: members that a node would overlook or misread, or that a translation cannot
            express; with losses, nothing is written.
    """

    path: Path
    groups: Mapping[str, Mapping[str, Any]]
    not_sent: tuple[str, ...]
    migrated: Migrated
    is_strict: bool
    keeps_unknown: bool = False
    is_asyncapi: bool = False
    losses: tuple[Loss, ...] = ()

    @property
    def older(self) -> tuple[Rewrite, ...]:
        """The rewrites for older names and shapes in a document that is sent without rewrites."""
        return self.migrated.older if self.is_strict else ()


def read_documents(
    arguments: Iterable[str],
    *,
    migrate: bool = False,
    keep_unknown: bool = False,
    allow_empty: bool = False,
) -> list[DocumentFile]:
    """Read the documents that the arguments of a command name.

    Args:
        arguments: paths, as in `document_paths`.
        migrate: rewrite the documents to the newest edition; `keep_unknown` implies `migrate`.
        keep_unknown: keep members without a newest form in an extension.
        allow_empty: an argument may name no document.

    Raises:
        CommandError: an argument names no document.
        SourceFileError: a file is no document.
    """
    return [
        read_document(path, migrate=migrate or keep_unknown, keep_unknown=keep_unknown)
        for path in document_paths(arguments, allow_empty=allow_empty)
    ]


def read_document(path: Path, *, migrate: bool = False, keep_unknown: bool = False) -> DocumentFile:
    """Read a JSON or YAML file: an xRegistry document of any edition, or an AsyncAPI document.

    Args:
        path: the file; a name in `.yaml` or `.yml` means YAML.
        migrate: rewrite the document to the newest edition.
        keep_unknown: keep members without a newest form in an extension.

    Raises:
        SourceFileError: the file cannot be read, is not an object, has no groups, or is a document
            of another kind.
    """
    source = read_object_file(path)
    if edition_of(source):
        return _translated(path, source, keep_unknown=keep_unknown)
    _refuse_other_kind(path, source)
    migrated = migration.migrate(source, keep_unknown=keep_unknown)
    document = migrated.document if migrate else source
    groups = {name: value for name, value in document.items() if _is_groups(name, value)}
    if not groups:
        raise SourceFileError(
            f"{path} holds no groups.", "It should have messagegroups, schemagroups or endpoints."
        )
    not_sent = (name for name in document if name not in groups and not _is_assigned(name))
    return DocumentFile(
        path=path,
        groups=groups,
        not_sent=tuple(sorted(not_sent)),
        migrated=migrated,
        is_strict=not migrate,
        keeps_unknown=keep_unknown,
        losses=find_losses(groups),
    )


def _translated(path: Path, source: Mapping[str, Any], *, keep_unknown: bool) -> DocumentFile:
    try:
        translated = to_entities(source)
    except AsyncApiError as error:
        raise SourceFileError(f"{path}: {error.message}", error.hint) from error
    edition = StatedEdition(edition=f"AsyncAPI {edition_of(source)}", reason="it says so")
    return DocumentFile(
        path=path,
        groups=translated.groups,
        not_sent=(),
        migrated=Migrated(document=translated.groups, found=edition, rewrites=(), left_out=()),
        is_strict=True,
        keeps_unknown=keep_unknown,
        is_asyncapi=True,
        losses=translated.losses,
    )


def _refuse_other_kind(path: Path, source: Mapping[str, Any]) -> None:
    """Refuse a document of another kind, such as OpenAPI, with members that look like groups."""
    format = next(
        (
            f"{kind}/{version}"
            for name, kind in _OTHER_KINDS.items()
            if (version := _text(source, name))
        ),
        "",
    )
    type = _text(source, "type")
    if type in _AVRO_TYPES and _text(source, "name"):
        format = "Avro"
    elif "json-schema.org" in _text(source, "$schema") or (type and "properties" in source):
        format = "JsonSchema"
    if format:
        raise SourceFileError(
            f"{path} is no xRegistry document, but one of {format}.",
            "A catalog can keep it as the document of a schema: "
            f"curl -T {quote(str(path))} -H {quote(f'xRegistry-format: {format}')} "
            "URL/schemagroups/GROUP/schemas/NAME",
        )


def _text(source: Mapping[str, Any], name: str) -> str:
    value = source.get(name)
    return value if isinstance(value, str) else ""


def _is_groups(name: str, value: Any) -> bool:
    if name in _DESCRIPTION or _is_assigned(name) or name.startswith("$"):
        return False
    return isinstance(value, dict)


def _is_assigned(name: str) -> bool:
    name = name.lower()
    return name in _ASSIGNED or name.endswith(("url", "count"))


def format_of(path: Path | None) -> str:
    """The format for the name of a file; `xreg.json` without a file."""
    name = "" if path is None else path.name.lower()
    default = "xreg.yaml" if name.endswith((".yaml", ".yml")) else "xreg.json"
    found = (suffix for suffix in FORMATS_BY_SUFFIX if name.endswith(suffix))
    return FORMATS_BY_SUFFIX.get(next(found, ""), default)


def write_document(document: Mapping[str, Any], format: str, edition: str) -> bytes:
    """Return a document of the newest edition as the text of a file.

    Args:
        document: an export.
        format: one of `FORMATS`; a document in `cereg` or `cereg.yaml` names its schema.
        edition: one of `EDITIONS`.
    """
    written = downgrade(document, edition)
    if format.startswith("cereg"):
        written = {"$schema": DOCUMENT_SCHEMA, **written}
    return _as_text(written, format)


def write_asyncapi(exported: Exported, format: str) -> bytes:
    """Return an AsyncAPI document as the text of a file, in one of `ASYNCAPI_FORMATS`."""
    return _as_text(exported.document, format)


def _as_text(document: Mapping[str, Any], format: str) -> bytes:
    if format.endswith("yaml"):
        return to_yaml(document)
    return orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"
