"""Runs the checks of an interaction after its steps, in the order of the standard.

Source: core/spec.md, "Resource Processing Algorithm", steps 6, 7, 9 and 10.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from catalog.load.longwork import aside
from catalog.model.capabilities import Capabilities
from catalog.model.errors import XRegistryError, with_violations
from catalog.writing.compatibilitycheck import CompatibilityCheck
from catalog.writing.constraintcheck import ConstraintCheck
from catalog.writing.content import CatalogContent, DraftDocuments
from catalog.writing.drafts import Drafts
from catalog.writing.formatcheck import DocumentChecker, FormatCheck
from catalog.writing.resourceplan import ResourcePlan


async def run_checks(
    content: CatalogContent,
    drafts: Drafts,
    resources: Collection[ResourcePlan],
    capabilities: Capabilities,
    checker: DocumentChecker,
    *,
    is_exclusive: bool,
    is_referred: bool,
    tries_again: bool = False,
) -> None:
    """Check the written resources beyond single entities, then prune their oldest versions.

    Formats are checked even if the drafts have violations already: each version is checked
    alone, and an error lists all violations.

    Args:
        capabilities: name the formats and the compatibility rules that are checked.
        checker: knows the formats of documents.
        is_exclusive: nobody else can write anything meanwhile.
        is_referred: there may be cross references to written resources.
        tries_again: check unchanged versions as well that could not be checked so far.

    Raises:
        XRegistryError: with all violations of the steps and of the first check that finds any.
        MustBeginAgain: it needs the lock on the whole catalog.
    """
    arguments = (drafts, DraftDocuments(content), capabilities, checker, tries_again)
    live = [each for each in resources if drafts.live(each.xid) is not None]
    for check in (
        FormatCheck(*arguments),
        ConstraintCheck(content, drafts, is_exclusive=is_exclusive, is_referred=is_referred),
        CompatibilityCheck(*arguments),
    ):
        await check.run(live)
        _refuse(drafts)
    await aside(len(live), _prune, live, drafts)
    _refuse(drafts)


def _prune(resources: Iterable[ResourcePlan], drafts: Drafts) -> None:
    for resource in resources:
        try:
            resource.prune()
        except XRegistryError as violation:
            drafts.violations.append(violation)


def _refuse(drafts: Drafts) -> None:
    if drafts.violations:
        raise with_violations(drafts.violations)
