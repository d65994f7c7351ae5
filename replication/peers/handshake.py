"""The handshake: two catalogs learn each other's identity before one follows the other."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator, Sequence
from importlib.metadata import PackageNotFoundError, version

import structlog
from aiohttp import web

from catalog import DISTRIBUTION
from catalog.client import BadAnswer, Client, ClientError, Credential, Refused
from catalog.context import CONTEXT, Context
from catalog.http.outbound import open_session
from catalog.http.route import Route
from catalog.model.concorderrors import SourceUnusable
from catalog.model.digest import DIGEST_VERSION
from catalog.operations.links import FoundCatalog
from catalog.operations.peers import HANDSHAKE, Handshake, HandshakeQuery, LogRange
from catalog.store.changes import read_head
from catalog.store.links import Link
from replication.feed.cards import own_card
from replication.feed.feedpages import LogLost
from replication.peers.linkbounds import most_pushed_bytes
from replication.peers.linkerrors import cause_of, describe, is_kept_out, may_pass
from replication.peers.pacedclient import PacedClient
from replication.store import linklosses
from replication.store.digests import count_entities
from replication.store.loghistory import read_incarnation

_log = structlog.get_logger(__name__)

_OFFERS = ["changes", "snapshot", "digests", "repair", "entities", "types", "labels", "signatures"]
PROBE_SECONDS = 10.0
FORCE = "If it is going to be there later, add the link with `?force` (`--force`)."


async def get_handshake(request: web.Request, query: HandshakeQuery) -> Handshake:
    """Return the identity of this node and the range of its log."""
    context = request[CONTEXT]
    database = context.database
    async with database.acquire() as connection:
        head = await read_head(connection)
        return Handshake(
            instance=database.node.instance,
            incarnation=await read_incarnation(connection),
            authority=database.node.authority,
            base=context.public_base,
            card=own_card(context.settings),
            software=software(),
            digestversion=DIGEST_VERSION,
            log=LogRange(dropped=str(head.dropped), now=str(head.now)),
            offers=[*_OFFERS],
            allowances=await linklosses.read_allowances(connection),
            pushbytes=most_pushed_bytes(context.settings),
            entities=await count_entities(connection) if query.count else None,
        )


@contextlib.asynccontextmanager
async def first_contact(
    context: Context, url: str, credential: Credential | None = None
) -> AsyncIterator[PacedClient]:
    """A client of a catalog that an operator names, which has little time to answer."""
    seconds = min(context.settings.request_timeout_seconds, PROBE_SECONDS)
    async with open_session(context.settings, total_seconds=seconds) as session:
        yield PacedClient(url, session, seconds, credential=credential)


async def shake_hands(peer: Client, *, count: bool = False) -> Handshake:
    """Ask a peer for its identity.

    Args:
        count: ask for the number of entities that the peer shows to this node, too.

    Raises:
        ClientError: the peer does not answer, is no Concord node, or computes digests by a
            version of the rule other than this node's.
    """
    told = await peer.handshake(count=count)
    if told.digestversion != DIGEST_VERSION:
        raise ClientError(
            f"{peer.url} computes digests by version {told.digestversion}, here it is "
            f"{DIGEST_VERSION}.",
            "Bring both to the same version of Concord.",
        )
    return told


async def probe(
    context: Context, source: str, subject: str, credential: Credential | None = None
) -> FoundCatalog:
    """Find out whether a source can be followed, and describe the source.

    Raises:
        SourceUnusable: the source does not answer, offers no replication, or is this node.
    """
    async with first_contact(context, source, credential) as peer:
        try:
            found = await shake_hands(peer, count=True)
        except ClientError as error:
            fault = await _fault(peer, error)
            _log.info("a source cannot be followed", source=source, cause=cause_of(error))
            raise SourceUnusable(
                subject, source=source, error_detail=fault, detail=FORCE
            ) from error
    if fault := why_own(context, found):
        raise SourceUnusable(subject, source=source, error_detail=fault)
    return FoundCatalog(
        authority=found.authority,
        software=found.software,
        digestversion=DIGEST_VERSION,
        entities=found.entities,
    )


def why_own(context: Context, source: Handshake) -> str:
    """The reason why a source cannot be told from this node; "" for a distinct node."""
    node = context.database.node
    if source.instance == node.instance:
        return "it is this node itself"
    return "it claims the authority of this node" if source.authority == node.authority else ""


async def _fault(peer: Client, error: ClientError) -> str:
    """The reason why a source is not usable, with the kind of the server."""
    said = describe(error, peer.url).rstrip(".")
    is_refused = isinstance(error, Refused) and is_kept_out(error.problem)
    if is_refused or may_pass(error) or not isinstance(error, BadAnswer | Refused):
        return said
    try:
        root = await peer.get("/")
    except ClientError as another:
        if may_pass(another):
            return said
        root = {}
    if "specversion" in root and "registryid" in root:
        return (
            f"it is a server of xRegistry {str(root['specversion'])[:32]} without replication: "
            "it can be walked (`--mode walk`)"
        )
    return f"it is no xRegistry server ({said})"


def software() -> str:
    """The name and version of this node's software."""
    try:
        return f"concord/{version(DISTRIBUTION)}"
    except PackageNotFoundError:
        return "concord/0"


routes: Sequence[Route] = (Route(HANDSHAKE, get_handshake),)


def why_lost(link: Link, instance: uuid.UUID) -> str:
    """The reason why a source may lack entities that a link has brought; "" without a reason.

    A link keeps the reason as `loss` until the link has compared or copied the whole catalog again.

    Args:
        link: the link before the contact.
        instance: the instance that answers.
    """
    if link.loss is not None:
        return link.loss
    if link.instance not in (None, instance):
        return f"it is another instance, {instance}, than before, {link.instance}"
    return ""


def loss_told(error: ClientError) -> str:
    """The loss that a source reports when asked to continue from a cursor; "" without a loss.

    The log ends before the cursor, has a different change at the cursor, or went back in time.
    """
    if isinstance(error, Refused) and error.problem.name == LogLost.name:
        return error.problem.title.rstrip(".")
    return ""
