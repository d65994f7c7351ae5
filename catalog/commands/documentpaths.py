"""Finds the document files that the arguments of a command name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from glob import glob, has_magic
from itertools import islice
from pathlib import Path

from catalog.documents.serialization import STDIN

SUFFIXES = (
    ".xreg.json",
    ".xreg.yaml",
    ".xreg.yml",
    ".cereg",
    ".cereg.json",
    ".cereg.yaml",
    ".cereg.yml",
)
_MOST_FILES = 10_000


class DocumentPathError(Exception):
    """An argument that names no document. `hint` says what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class NoDocuments(DocumentPathError):
    """An argument that could name documents, and there are none."""


def document_paths(arguments: Iterable[str]) -> list[Path]:
    """The files that `arguments` name, each once, in the order of the arguments.

    Args:
        arguments: a file, whatever its name; a directory, searched for files whose name ends
            in one of `SUFFIXES`, but not in hidden directories; a glob pattern, in which `**`
            stands for any depth, and which finds what such a search would; or `-`, the
            standard input.

    Raises:
        DocumentPathError: an argument names no document, or there are more than 10,000.
    """
    found: dict[Path, None] = {}
    for argument in arguments:
        paths = list(islice(_expand(argument), _MOST_FILES + 1))
        found.update(dict.fromkeys(paths))
        if len(found) > _MOST_FILES:
            raise DocumentPathError(
                f"{argument} names more than {_MOST_FILES:,} documents.",
                "Name fewer, or a directory below it.",
            )
        if not paths:
            raise NoDocuments(
                f"{argument} names no document.",
                f"The names of documents end in {', '.join(SUFFIXES)}.",
            )
    return list(found)


def _expand(argument: str) -> Iterator[Path]:
    path = Path(argument)
    if path == STDIN or path.is_file():
        yield path
    elif path.is_dir():
        yield from _search(path)
    elif has_magic(argument):
        for match in sorted(glob(argument, recursive=True)):
            yield from _search(Path(match)) if Path(match).is_dir() else _named(Path(match))
    else:
        # A path that is not there is reported as such when it is read.
        yield path


def _search(directory: Path) -> Iterator[Path]:
    for folder, names, files in os.walk(directory):
        names[:] = sorted(name for name in names if not name.startswith("."))
        for name in sorted(files):
            yield from _named(Path(folder, name))


def _named(path: Path) -> Iterator[Path]:
    if path.name.lower().endswith(SUFFIXES):
        yield path
