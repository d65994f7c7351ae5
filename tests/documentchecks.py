"""Single checks of documents, as the write path asks for many at once."""

from __future__ import annotations

from catalog.formats.checker import (
    CheckedDocument,
    Checker,
    Direction,
    comparison,
    validation,
)


async def validate(checker: Checker, format: str, document: bytes) -> str:
    """The problem of a document of a format, or ""."""
    [answer] = await checker.answers([validation(format, CheckedDocument.of(document))])
    return answer


async def compare(
    checker: Checker, format: str, older: bytes, newer: bytes, direction: Direction
) -> str:
    """The reason why two versions are not compatible, or ""."""
    documents = CheckedDocument.of(older), CheckedDocument.of(newer)
    [answer] = await checker.answers([comparison(format, *documents, direction)])
    return answer
