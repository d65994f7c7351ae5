"""The calls for the recovery of a node from replicas."""

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
    """The calls for a recovery, in which a node takes back the entities of its authority."""

    async def begin_recovery(self, wanted: NewRecovery, *, force: bool = False) -> RecoveryAnswer:
        """Take back the entities of the node from replicas; the node refuses writes meanwhile.

        Args:
            force: do not ask the replicas first, since replicas may be unreachable at the moment.
        """
        query = RecoveryQuery(force=force)
        return await self.call(recovery.BEGIN_RECOVERY, wanted, query=query)

    async def recovery(self) -> RecoveryAnswer:
        """The recovery under way, or the last recovery."""
        return await self.call(recovery.GET_RECOVERY)

    async def recovery_findings(self) -> list[RecoveryFindingAnswer]:
        """The origins that could not be taken, were deleted, or had differing copies."""
        pages = self.call_pages(recovery.LIST_FINDINGS)
        return [finding async for page in pages for finding in page.findings]

    async def change_recovery(self, wanted: RecoveryChanges) -> RecoveryAnswer:
        """Continue at once and retry the failed origins, or delete them at every replica."""
        return await self.call(recovery.CHANGE_RECOVERY, wanted)

    async def abort_recovery(self) -> RecoveryAnswer:
        """End the recovery in its present state, and let clients write."""
        return await self.call(recovery.ABORT_RECOVERY)
