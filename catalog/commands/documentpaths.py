"""Finds the document files that the arguments of a command name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from glob import glob, has_magic
from itertools import islice
from pathlib import Path
from shlex import quote

from catalog.commands.console import CommandError
from catalog.documents.serialization import STDIN

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


class DocumentPathError(CommandError):
    """An argument names no document, or too many documents."""


def document_paths(arguments: Iterable[str], *, allow_empty: bool = False) -> list[Path]:
    """The files that `arguments` name, each once, in the order of the arguments.

    Args:
        arguments: each a file with an arbitrary name; a directory, searched for file names in
            `SUFFIXES`, except in hidden directories; a glob pattern for the same file names, in
            which `**` matches every depth; or `-`, the standard input.
        allow_empty: an argument may name no document.

    Raises:
        DocumentPathError: an argument names no document or is a URL, or the arguments name more
            than 10,000 documents.
    """
    found: dict[Path, None] = {}
    for argument in arguments:
        # The limit ends the search of a huge directory early.
        paths = list(islice(_expand(argument), _MOST_FILES + 1))
        found.update(dict.fromkeys(paths))
        if len(found) > _MOST_FILES:
            raise DocumentPathError(
                f"{argument} names more than {_MOST_FILES:,} documents.",
                "Name fewer, or a directory below it.",
            )
        if not paths and not allow_empty:
            raise DocumentPathError(
                f"{argument} names no document.",
                f"The names of documents end in {', '.join(SUFFIXES)}.",
            )
    return list(found)


def _expand(argument: str) -> Iterator[Path]:
    if argument.startswith(("http://", "https://")):
        raise DocumentPathError(
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
