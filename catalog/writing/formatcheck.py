"""Checks the documents of versions against their formats, and versions against one another.

Source: core/spec.md, "formatvalidated Attribute" and "compatibilityvalidated Attribute",
core/model.md, "validateformat", "validatecompatibility" and "strictvalidation". Only what an
interaction changed is checked: what was valid before stays so, and a changed configuration
lets what could not be checked be tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from catalog.model.capabilities import Capabilities
from catalog.model.errors import (
    FormatExternal,
    FormatUnknown,
    FormatViolation,
    XRegistryError,
)
from catalog.model.schema import ResourceType
from catalog.writing.draft import Draft
from catalog.writing.draftdocuments import DraftDocuments, has_new_content
from catalog.writing.plan import Plan
from catalog.writing.resourceplan import ResourcePlan

Direction = Literal["backward", "forward"]

FORMAT = "formatvalidated"
COMPATIBILITY = "compatibilityvalidated"
_AT_ONCE = 4
_UNKNOWN = 'This server does not check the format "{}"'
_EXTERNAL = "The document is stored elsewhere"
_ERASED = "Its content was erased"


class DocumentChecker(Protocol):
    """Whoever knows the formats; every answer comes in bounded time, and "" is a good one."""

    async def validate(self, format: str, document: bytes) -> str: ...

    async def compare(
        self, format: str, older: bytes, newer: bytes, direction: Direction
    ) -> str: ...


async def gather(checks: Sequence[Awaitable[str]]) -> list[str]:
    """The answers to some checks, a few of which run at a time."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(check: Awaitable[str]) -> str:
        async with slots:
            return await check

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(one(check)) for check in checks]
    return [task.result() for task in running]


def note(plan: Plan, draft: Draft, name: str, verdict: str | None) -> None:
    """Write down what came of a check.

    Args:
        name: `FORMAT` or `COMPATIBILITY`.
        verdict: why there was none, "" if all is well, `None` where there is nothing to say.
    """
    said: dict[str, bool | str] = {} if verdict is None else {name: not verdict}
    if verdict:
        said[f"{name}reason"] = verdict
    names = (name, f"{name}reason")
    if said != {key: draft.attributes[key] for key in names if key in draft.attributes}:
        kept = {key: value for key, value in draft.attributes.items() if key not in names}
        draft.attributes = kept | said
        plan.note(draft)


def is_open(plan: Plan, draft: Draft, name: str) -> bool:
    """Whether a check that this node answers for could not be made so far."""
    return draft.attributes.get(name) is False and not plan.is_replica(draft.xid)


@dataclass(frozen=True, slots=True)
class FormatCheck:
    """Step 6 of core/spec.md, "Resource Processing Algorithm", for a whole interaction."""

    plan: Plan
    contents: DraftDocuments
    capabilities: Capabilities
    checker: DocumentChecker
    tries_again: bool

    async def run(self, resources: Collection[ResourcePlan]) -> None:
        """Note what is valid; what is not becomes a violation of the plan."""
        due: list[Draft] = []
        for resource in resources:
            for draft in resource.versions:
                if self._is_due(draft, resource.kind):
                    due += [draft] * self._can_be_checked(draft, resource.kind)
        if due:
            await self._validate(due)

    async def _validate(self, due: Sequence[Draft]) -> None:
        await self.contents.load(due)
        answers = await gather(
            [self.checker.validate(d.attributes["format"], self.contents.of(d)) for d in due]
        )
        for draft, fault in zip(due, answers, strict=True):
            if fault:
                format = draft.attributes["format"]
                self.plan.violations.append(
                    FormatViolation(str(draft.xid), format=format, detail=fault)
                )
            else:
                note(self.plan, draft, FORMAT, "")

    def _is_due(self, draft: Draft, kind: ResourceType) -> bool:
        says, has_format = FORMAT in draft.attributes, "format" in draft.attributes
        is_wanted = kind.validateformat and has_format
        if is_wanted and says:
            is_due = self.tries_again and is_open(self.plan, draft, FORMAT)
            return is_due or has_new_content(draft, kind)
        if says and not is_wanted:
            note(self.plan, draft, FORMAT, None)
        return is_wanted

    def _can_be_checked(self, draft: Draft, kind: ResourceType) -> bool:
        """Whether there is something to be checked by; else that is noted, or a violation."""
        if _is_erased(draft, kind) and not kind.strictvalidation:
            note(self.plan, draft, FORMAT, _ERASED)
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
            self.plan.violations.append(error)
        else:
            note(self.plan, draft, FORMAT, reason)
        return False


def _is_erased(draft: Draft, kind: ResourceType) -> bool:
    """Whether a request erased a version's content, and nothing was written there since."""
    if draft.content_sha256 is not None or f"{kind.singular}url" in draft.attributes:
        return False
    return draft.is_erased or draft.attributes.get(f"{FORMAT}reason") == _ERASED
