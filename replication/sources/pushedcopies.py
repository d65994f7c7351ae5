"""The source of the links that accept pushes: requests of the other catalog bring its copies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from replication.sources.copypages import CopyPage
from replication.transfer.linkrun import Start
from replication.transfer.transfer import LinkPeer, LinkSource


class PushedCopies(LinkSource, LinkPeer):
    """Gives no pages: the link that it belongs to only drops and renames what was pushed."""

    async def resume(self, saved: str | None) -> Start[str]:
        return Start(cursor=saved or "", is_copied=True)

    async def everything(self, after: str | None) -> AsyncGenerator[CopyPage]:
        """Nothing: the other catalog sends everything by itself."""
        yield CopyPage()

    async def changes(self, cursor: str) -> AsyncGenerator[CopyPage]:
        """Nothing, for ever."""
        await asyncio.Event().wait()
        yield CopyPage()
