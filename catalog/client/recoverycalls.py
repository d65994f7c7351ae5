"""The recovery of a node from its replicas."""

from __future__ import annotations

from catalog.client.operationcalls import OperationCalls
from catalog.operations import recovery
from catalog.operations.recovery import (
    NewRecovery,
    RecoveryAnswer,
    RecoveryChanges,
    RecoveryFindingAnswer,
    RecoveryQuery,
)


class RecoveryCalls(OperationCalls):
    """The calls for the recovery of a node, which takes its own entities back."""

    async def begin_recovery(self, wanted: NewRecovery, *, force: bool = False) -> RecoveryAnswer:
        """Take the node's own entities back from replicas; it takes no writes until it has.

        Args:
            force: do not ask the replicas first, which may not be reachable yet.
        """
        query = RecoveryQuery(force=force)
        return await self.call(recovery.BEGIN_RECOVERY, wanted, query=query)

    async def recovery(self) -> RecoveryAnswer:
        """The recovery under way, or the last one."""
        return await self.call(recovery.GET_RECOVERY)

    async def recovery_findings(self) -> list[RecoveryFindingAnswer]:
        """Origins that could not be taken, that were deleted, or whose copies differed."""
        pages = self.call_pages(recovery.LIST_FINDINGS)
        return [finding async for page in pages for finding in page.findings]

    async def change_recovery(self, wanted: RecoveryChanges) -> RecoveryAnswer:
        """Go on now, and try again what could not be taken, or delete that at every replica."""
        return await self.call(recovery.CHANGE_RECOVERY, wanted)

    async def abort_recovery(self) -> RecoveryAnswer:
        """End the recovery as it is, and let clients write."""
        return await self.call(recovery.ABORT_RECOVERY)
