"""The checks that an interaction has to pass once its steps are taken, in their order.

Source: core/spec.md, "Resource Processing Algorithm", steps 6, 7, 9 and 10.
"""

from __future__ import annotations

from collections.abc import Collection

from catalog.model.capabilities import Capabilities
from catalog.model.errors import XRegistryError, with_violations
from catalog.writing.compatibilitycheck import CompatibilityCheck
from catalog.writing.constraintcheck import ConstraintCheck
from catalog.writing.content import CatalogContent
from catalog.writing.draftdocuments import DraftDocuments
from catalog.writing.formatcheck import DocumentChecker, FormatCheck
from catalog.writing.plan import Plan
from catalog.writing.resourceplan import ResourcePlan


class Checks:
    """What looks beyond single entities, or into documents.

    Args:
        holdings: what is there.
        capabilities: say which formats and which compatibility rules are checked at all.
        checker: knows the formats of documents.
        tries_again: check also what is unchanged and could not be checked so far.
    """

    def __init__(
        self,
        holdings: CatalogContent,
        plan: Plan,
        capabilities: Capabilities,
        checker: DocumentChecker,
        *,
        tries_again: bool = False,
    ) -> None:
        contents = DraftDocuments(holdings)
        self.plan = plan
        self.holdings = holdings
        self.formats = FormatCheck(plan, contents, capabilities, checker, tries_again)
        self.compatibility = CompatibilityCheck(plan, contents, capabilities, checker, tries_again)

    async def run(
        self, resources: Collection[ResourcePlan], *, is_exclusive: bool, is_referred: bool
    ) -> None:
        """Check what was written, then delete what is too old to be kept.

        Formats are checked even where the plan has violations already: each version is
        looked at alone, and a client wants to hear of all that is wrong.

        Raises:
            XRegistryError: with all violations of the plan and of the first check that finds any.
            MustBeginAgain: come again with the catalog locked as a whole.
        """
        live = [each for each in resources if self.plan.live(each.xid) is not None]
        await self.formats.run(live)
        self._refuse()
        constraints = ConstraintCheck(
            self.holdings, self.plan, is_exclusive=is_exclusive, is_referred=is_referred
        )
        await constraints.run(live)
        self._refuse()
        await self.compatibility.run(live)
        self._refuse()
        for resource in live:
            self._prune(resource)
        self._refuse()

    def _prune(self, resource: ResourcePlan) -> None:
        try:
            resource.prune()
        except XRegistryError as violation:
            self.plan.violations.append(violation)

    def _refuse(self) -> None:
        if self.plan.violations:
            raise with_violations(self.plan.violations)
