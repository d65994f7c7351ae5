"""The calls for the handover of groups between authorities."""

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
    """The calls by which two operators and their nodes hand a group over."""

    async def begin_handover(self, wanted: NewHandover) -> HandoverAnswer:
        """Offer a group to a second catalog, or consent to take a group from a second catalog."""
        return await self.call(handovers.BEGIN_HANDOVER, wanted)

    async def handovers(self) -> list[HandoverAnswer]:
        """The handovers under way at the node, and the handovers that ended last."""
        pages = self.call_pages(handovers.LIST_HANDOVERS)
        return [each async for page in pages for each in page.handovers]

    async def handover(self, id: str) -> HandoverAnswer:
        return await self.call(handovers.GET_HANDOVER, id=id)

    async def abort_handover(self, id: str, *, force: bool = False) -> HandoverAnswer:
        """End a handover, unless the group may have been given already.

        Args:
            force: end the handover even if the giver does not answer; only the giver knows whether
                the group was given.
        """
        return await self.call(handovers.ABORT_HANDOVER, query=EndQuery(force=force), id=id)

    async def tell_offer(self, offer: HandoverOffer) -> OfferAnswer:
        """Tell the taker about an offered handover, and ask for the state at the taker."""
        return await self.call(handovers.TELL_OFFER, offer)

    async def consent(self, group: str, authority: str) -> Consent:
        """Ask whether the operator of the node consented to take a group of an authority."""
        query = HandoverQuery(group=group, authority=authority)
        return await self.call(handovers.GET_CONSENT, query=query)

    def handover_lines(self, id: str) -> AsyncGenerator[bytes]:
        """The lines of a group that the node hands over, or could hand over; see `lines`."""
        path = handovers.GET_COPIES.path.format(id=id)
        return self.lines("GET", path, is_bounded=False)
