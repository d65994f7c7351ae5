"""The source of accepting links: requests of the other catalog bring the copies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from replication.sources.copypages import CopyPage
from replication.transfer.linkrun import Start
from replication.transfer.transfer import LinkPeer, LinkSource


class PushedCopies(LinkSource, LinkPeer):
    """Gives no pages: the runner of an accepting link only drops and renames pushed copies."""

    async def resume(self, saved: str | None) -> Start[str]:
        return Start(cursor=saved or "", is_copied=True)

    async def everything(self, after: str | None) -> AsyncGenerator[CopyPage]:
        """An empty page: the other catalog sends every copy by requests."""
        yield CopyPage()

    async def changes(self, cursor: str) -> AsyncGenerator[CopyPage]:
        """No changes, for ever."""
        await asyncio.Event().wait()
        yield CopyPage()
