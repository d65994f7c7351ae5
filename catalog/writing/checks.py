"""Runs the checks of an interaction after its steps, in the order of the standard.

Source: core/spec.md, "Resource Processing Algorithm", steps 6, 7, 9 and 10.
"""

from __future__ import annotations

from collections.abc import Collection

from catalog.model.capabilities import Capabilities
from catalog.model.errors import XRegistryError, with_violations
from catalog.writing.compatibilitycheck import CompatibilityCheck
from catalog.writing.constraintcheck import ConstraintCheck
from catalog.writing.content import CatalogContent, DraftDocuments
from catalog.writing.drafts import Drafts
from catalog.writing.formatcheck import DocumentChecker, FormatCheck
from catalog.writing.resourceplan import ResourcePlan


class Checks:
    """The checks that look beyond single entities, or into documents.

    Args:
        content: of the catalog.
        capabilities: name the formats and the compatibility rules that are checked.
        checker: knows the formats of documents.
        tries_again: check unchanged versions as well that could not be checked so far.
    """

    def __init__(
        self,
        content: CatalogContent,
        drafts: Drafts,
        capabilities: Capabilities,
        checker: DocumentChecker,
        *,
        tries_again: bool = False,
    ) -> None:
        documents = DraftDocuments(content)
        self.drafts = drafts
        self.content = content
        self.formats = FormatCheck(drafts, documents, capabilities, checker, tries_again)
        self.compatibility = CompatibilityCheck(
            drafts, documents, capabilities, checker, tries_again
        )

    async def run(
        self, resources: Collection[ResourcePlan], *, is_exclusive: bool, is_referred: bool
    ) -> None:
        """Check the written resources, then prune their oldest versions.

        Formats are checked even if the drafts have violations already: each version is checked
        alone, and an error lists all violations.

        Raises:
            XRegistryError: with all violations of the steps and of the first check that finds any.
            MustBeginAgain: it needs the lock on the whole catalog.
        """
        live = [each for each in resources if self.drafts.live(each.xid) is not None]
        await self.formats.run(live)
        self._refuse()
        constraints = ConstraintCheck(
            self.content, self.drafts, is_exclusive=is_exclusive, is_referred=is_referred
        )
        await constraints.run(live)
        self._refuse()
        await self.compatibility.run(live)
        self._refuse()
        for resource in live:
            try:
                resource.prune()
            except XRegistryError as violation:
                self.drafts.violations.append(violation)
        self._refuse()

    def _refuse(self) -> None:
        if self.drafts.violations:
            raise with_violations(self.drafts.violations)
