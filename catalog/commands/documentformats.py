"""The formats of document files: what each is called, and how a document is written in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from catalog.documents.downgrade import downgrade
from catalog.documents.editions import SCHEMA
from catalog.documents.serialization import to_yaml

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
        written = {"$schema": SCHEMA, **written}
    if format.endswith("yaml"):
        return to_yaml(written)
    return orjson.dumps(written, option=orjson.OPT_INDENT_2) + b"\n"
