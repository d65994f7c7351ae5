"""A check of documents, and the key of the result."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, Self, TypeAlias

from catalog.formats.families import is_supported, rules_for

Direction = Literal["backward", "forward"]
# The format in lower case, the direction, and the digests of the documents.
Key: TypeAlias = tuple[str, str, tuple[bytes, ...]]


@dataclass(frozen=True, slots=True)
class CheckedDocument:
    """The content and the digest of a document."""

    content: bytes
    sha256: bytes

    @classmethod
    def of(cls, content: bytes) -> Self:
        return cls(content, sha256(content).digest())


@dataclass(frozen=True, slots=True)
class Check:
    """The validation of a document, or with a `direction` the comparison of two documents."""

    format: str
    direction: str
    documents: tuple[CheckedDocument, ...]

    @property
    def key(self) -> Key:
        """The format, the direction and the digests, which determine the result."""
        digests = tuple(document.sha256 for document in self.documents)
        return self.format.lower(), self.direction, digests


def validation(format: str, document: CheckedDocument) -> Check:
    """The check whether a document follows a format.

    Raises:
        ValueError: documents of the format cannot be checked.
    """
    if not is_supported(format):
        raise ValueError(f"no document of format {format} can be checked")
    return Check(format, "", (document,))


def comparison(
    format: str, older: CheckedDocument, newer: CheckedDocument, direction: Direction
) -> Check:
    """The check whether two versions of a document are compatible.

    backward: a reader with the newer schema can read data written with the older schema.
    forward: a reader with the older schema can read data written with the newer schema.

    Raises:
        ValueError: versions of the format cannot be compared.
    """
    if not rules_for(format):
        raise ValueError(f"no versions of format {format} can be compared")
    return Check(format, direction, (older, newer))
