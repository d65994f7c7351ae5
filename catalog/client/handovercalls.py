"""The handovers of groups from one authority to another."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from catalog.client.operationcalls import OperationCalls
from catalog.operations import handovers
from catalog.operations.handovers import (
    Consent,
    EndQuery,
    HandoverAnswer,
    HandoverOffer,
    HandoverQuery,
    NewHandover,
    OfferAnswer,
)


class HandoverCalls(OperationCalls):
    """The calls by which two operators, and their nodes, hand a group over."""

    async def begin_handover(self, wanted: NewHandover) -> HandoverAnswer:
        """Give a group to another catalog, or consent to take one from it."""
        return await self.call(handovers.BEGIN_HANDOVER, wanted)

    async def handovers(self) -> list[HandoverAnswer]:
        """The handovers that are under way at the node, and the last ones that ended."""
        pages = self.call_pages(handovers.LIST_HANDOVERS)
        return [each async for page in pages for each in page.handovers]

    async def handover(self, id: str) -> HandoverAnswer:
        return await self.call(handovers.GET_HANDOVER, id=id)

    async def abort_handover(self, id: str, *, force: bool = False) -> HandoverAnswer:
        """End a handover, unless the group may have been given already.

        Args:
            force: do so although the giver, who knows that, does not answer.
        """
        return await self.call(handovers.ABORT_HANDOVER, query=EndQuery(force=force), id=id)

    async def tell_offer(self, offer: HandoverOffer) -> OfferAnswer:
        """Tell the taker of a handover of this authority, and ask how far the taker is."""
        return await self.call(handovers.TELL_OFFER, offer)

    async def consent(self, group: str, authority: str) -> Consent:
        """Ask whether the node's operator has consented to take a group of an authority."""
        query = HandoverQuery(group=group, authority=authority)
        return await self.call(handovers.GET_CONSENT, query=query)

    def handover_lines(self, id: str) -> AsyncGenerator[bytes]:
        """The lines of a group that the node hands over, or would now; see `lines`."""
        path = handovers.GET_COPIES.path.format(id=id)
        return self.lines("GET", path, is_bounded=False)
