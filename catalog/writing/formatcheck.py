"""Checks the documents of versions against formats, and notes the results of checks.

Source: core/spec.md, "formatvalidated Attribute" and "compatibilityvalidated Attribute",
core/model.md, "validateformat", "validatecompatibility" and "strictvalidation". Only changed
versions are checked, since valid versions stay valid. After a change of the configuration,
versions that could not be checked before are tried again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from catalog.formats.checker import Check, validation
from catalog.load.longwork import Slices
from catalog.model.capabilities import Capabilities
from catalog.model.confluentattribute import schema_id_of
from catalog.model.errors import FormatExternal, FormatUnknown, FormatViolation, XRegistryError
from catalog.model.schema import ResourceType
from catalog.writing.content import DraftDocuments
from catalog.writing.drafts import Draft, Drafts
from catalog.writing.resourceplan import ResourcePlan

FORMAT = "formatvalidated"
COMPATIBILITY = "compatibilityvalidated"
_UNKNOWN = 'This server does not check the format "{}"'
_EXTERNAL = "The document is stored elsewhere"
_ERASED = "Its content was erased"


class DocumentChecker(Protocol):
    """Answers checks of documents, from known results or by running the checks."""

    async def answers(self, checks: Sequence[Check]) -> Sequence[str]:
        """The fault found by each check, or ""."""
        ...


def note(drafts: Drafts, draft: Draft, name: str, reason: str | None) -> None:
    """Note the result of a check, `FORMAT` or `COMPATIBILITY`, in the attributes of a version.

    Args:
        reason: why the version could not be checked; "" for a valid version, `None` for a version
            that is not checked.
    """
    names = (name, f"{name}reason")
    if reason is None and draft.attributes.keys().isdisjoint(names):
        return
    noted: dict[str, bool | str] = {} if reason is None else {name: not reason}
    if reason:
        noted[f"{name}reason"] = reason
    if noted != {key: draft.attributes[key] for key in names if key in draft.attributes}:
        kept = {key: value for key, value in draft.attributes.items() if key not in names}
        draft.attributes = kept | noted
        drafts.note(draft)


def is_open(drafts: Drafts, draft: Draft, name: str) -> bool:
    """Whether a check of an entity of the node's authority could not be made so far."""
    return draft.attributes.get(name) is False and not drafts.is_replica(draft.xid)


@dataclass(frozen=True, slots=True)
class FormatCheck:
    """Step 6 of core/spec.md, "Resource Processing Algorithm", for a whole interaction."""

    drafts: Drafts
    documents: DraftDocuments
    capabilities: Capabilities
    checker: DocumentChecker
    tries_again: bool

    async def run(self, resources: Collection[ResourcePlan]) -> None:
        """Note valid versions, and add invalid versions to the drafts' violations."""
        due: list[Draft] = []
        slices = Slices()
        for resource in resources:
            await slices.breathe()
            for draft in resource.versions:
                if self._is_due(draft, resource.kind):
                    due += [draft] * self._can_be_checked(draft, resource.kind)
        if due:
            await self._validate(due)

    async def _validate(self, due: Sequence[Draft]) -> None:
        await self.documents.load(due)
        answers = await self.checker.answers(
            [validation(d.attributes["format"], self.documents.of(d)) for d in due]
        )
        for draft, fault in zip(due, answers, strict=True):
            if fault:
                format = draft.attributes["format"]
                self.drafts.violations.append(
                    FormatViolation(str(draft.xid), format=format, detail=fault)
                )
            else:
                note(self.drafts, draft, FORMAT, "")

    def _is_due(self, draft: Draft, kind: ResourceType) -> bool:
        if schema_id_of(draft.attributes) is not None:
            # The dialect has checked the text together with its references.
            note(self.drafts, draft, FORMAT, "")
            return False
        is_noted, has_format = FORMAT in draft.attributes, "format" in draft.attributes
        is_wanted = kind.validateformat and has_format
        if is_wanted and is_noted:
            is_due = self.tries_again and is_open(self.drafts, draft, FORMAT)
            return is_due or draft.has_new_content(kind)
        if is_noted and not is_wanted:
            note(self.drafts, draft, FORMAT, None)
        return is_wanted

    def _can_be_checked(self, draft: Draft, kind: ResourceType) -> bool:
        """Whether a version can be checked; if not, note the reason, or add a violation."""
        if _is_erased(draft, kind) and not kind.strictvalidation:
            note(self.drafts, draft, FORMAT, _ERASED)
            return False
        format = draft.attributes["format"]
        error: XRegistryError
        if not self.capabilities.validates(format):
            error, reason = FormatUnknown(str(draft.xid), format=format), _UNKNOWN.format(format)
        elif f"{kind.singular}url" in draft.attributes and kind.hasdocument:
            error, reason = FormatExternal(str(draft.xid)), _EXTERNAL
        else:
            return True
        if kind.strictvalidation:
            self.drafts.violations.append(error)
        else:
            note(self.drafts, draft, FORMAT, reason)
        return False


def _is_erased(draft: Draft, kind: ResourceType) -> bool:
    """Whether a request erased the content of a version, and no content was written since."""
    if draft.content_sha256 is not None or f"{kind.singular}url" in draft.attributes:
        return False
    return draft.is_erased or draft.attributes.get(f"{FORMAT}reason") == _ERASED
