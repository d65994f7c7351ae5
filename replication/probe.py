"""Asks a source who it is before a link follows it."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.context import Context
from catalog.http.outbound import open_session
from catalog.model.ownerrors import SourceUnusable
from replication.remote import Handshake, Rejected, Remote, RemoteError

_LONGEST_SECONDS = 10.0
_FORCE = "If it is going to be there later, add the link with `?force` (`--force`)."


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedSource:
    """A Concord node that can be followed. `entities` is `None` where it does not count them."""

    authority: str
    software: str
    digestversion: int
    entities: int | None


async def probe(context: Context, source: str, subject: str) -> ProbedSource:
    """Find out whether a source can be followed.

    Args:
        subject: of an error.

    Raises:
        SourceUnusable: it does not answer, offers no replication, or is this node.
    """
    seconds = min(context.settings.request_timeout_seconds, _LONGEST_SECONDS)
    async with open_session(context.settings, total_seconds=seconds) as session:
        remote = Remote(session, source, seconds)
        try:
            known = await remote.handshake(counts=True)
        except RemoteError as error:
            fault = await _nature(remote, error)
            raise SourceUnusable(
                subject, source=source, error_detail=fault, detail=_FORCE
            ) from error
    if fault := why_own(context, known):
        raise SourceUnusable(subject, source=source, error_detail=fault)
    return ProbedSource(
        authority=known.authority,
        software=known.software,
        digestversion=known.digestversion,
        entities=known.entities,
    )


def why_own(context: Context, known: Handshake) -> str:
    """Why a source cannot be told from this node; "" if it can."""
    node = context.database.node
    if known.instance == node.instance:
        return "it is this node itself"
    return "it claims the authority of this node" if known.authority == node.authority else ""


async def _nature(remote: Remote, error: RemoteError) -> str:
    """What a server is that does not say who it is, as Concord nodes do.

    What comes with a hint is a node, or is at an address that must not be asked.
    """
    said = str(error).rstrip(".")
    if error.is_retryable or error.hint:
        return said
    try:
        root = await remote.json("GET", "/")
    except Rejected:
        root = None
    except RemoteError:
        return said
    if isinstance(root, dict) and "specversion" in root and "registryid" in root:
        version = str(root["specversion"])[:32]
        return (
            f"it is a server of xRegistry {version}, but no Concord node, and following such "
            "servers is not supported yet"
        )
    return f"it is no xRegistry server ({said})"
