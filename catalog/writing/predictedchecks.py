"""Predicts the checks of an interaction from the interaction alone.

Most interactions with documents bring new documents together with the format. Checking new
documents before the transaction saves a second run of the transaction. A prediction may be wrong:
the same document may be stored already, and a version may get the format from the group.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from catalog.formats import Check, CheckedDocument, validation
from catalog.model.configuration import Configuration
from catalog.model.documentforms import decode_document, document_bytes, document_names
from catalog.model.interaction import Body, Interaction, ResourceUpsert, VersionDocument
from catalog.model.schema import ResourceType


def predicted_checks(interaction: Interaction, configuration: Configuration) -> list[Check]:
    """The validations of the documents in an interaction; none if only changes are written."""
    if interaction.writes_only_changes:
        return []
    found = []
    for upsert in interaction.resources:
        kind = configuration.model.groups[upsert.xid.groups].resources[upsert.xid.resources]
        for body, document in _versions_in(upsert) if kind.validateformat else ():
            format = body.get("format")
            if isinstance(format, str) and configuration.capabilities.validates(format):
                content = _content_of(body, kind, document)
                found += (
                    [validation(format, CheckedDocument.of(content))] if content is not None else []
                )
    return found


def _versions_in(upsert: ResourceUpsert) -> Iterator[tuple[Body, VersionDocument | None]]:
    yield from ((version.body, version.document) for version in upsert.versions)
    if upsert.default is not None:
        yield upsert.default, upsert.document


def _content_of(body: Body, kind: ResourceType, document: VersionDocument | None) -> bytes | None:
    if document is not None:
        return document.body
    value, encoded, _ = document_names(kind)
    # The transaction reports a malformed document, with the subject of the error.
    with contextlib.suppress(ValueError):
        if body.get(encoded) is not None:
            return decode_document(body[encoded])
        if body.get(value) is not None:
            contenttype = str(body.get("contenttype") or "application/json")
            return document_bytes(kind, contenttype, body[value])
    return None
