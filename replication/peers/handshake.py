"""The handshake: two catalogs learn each other's identity before copies flow between them."""

from __future__ import annotations

import contextlib
import shlex
import uuid
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from aiohttp import web

from catalog import DISTRIBUTION
from catalog.client import Client, ClientError, Credential, Refused
from catalog.context import CONTEXT, Context
from catalog.http.outboundconnections import open_session
from catalog.http.route import Route
from catalog.model.concorderrors import PushNotAccepted, PushOutOfStep
from catalog.model.digest import DIGEST_VERSION
from catalog.model.errors import BadRequest, ServerBusy
from catalog.model.linkterms import Mode, is_authority
from catalog.operations.links import FoundCatalog
from catalog.operations.peers import HANDSHAKE, Handshake, HandshakeQuery, LogRange
from catalog.store import links
from catalog.store.changes import read_head
from catalog.store.links import Link, LinkReplaced
from replication.feed.cards import own_card
from replication.feed.feedpages import LogLost
from replication.peers.linkbounds import PacedClient, most_pushed_bytes
from replication.peers.linkerrors import describe, may_pass
from replication.store import linklosses
from replication.store.digests import count_entities
from replication.store.loghistory import read_incarnation

_OFFERS = ["changes", "snapshot", "digests", "repair", "entities", "types", "labels", "signatures"]
PROBE_SECONDS = 10.0
BETWEEN_NODES: frozenset[Mode] = frozenset({"pull", "events", "push"})
"""The modes whose peer is a node; other modes lead to topics and to servers of other software."""


class ThisNode(ClientError):
    """A catalog that cannot be told from this node."""


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


async def find_node(context: Context, peer: Client) -> FoundCatalog:
    """Describe a node that a new link is to lead to.

    Raises:
        ThisNode
        ClientError: as `shake_hands`.
    """
    found = await shake_hands(peer, count=True)
    check_not_own(context, found)
    return found_catalog(found)


def found_catalog(told: Handshake) -> FoundCatalog:
    return FoundCatalog(
        authority=told.authority,
        software=told.software,
        digestversion=told.digestversion,
        entities=told.entities,
    )


def check_not_own(context: Context, source: Handshake) -> None:
    """Check that a catalog can be told from this node.

    Raises:
        ThisNode
    """
    if fault := why_own(context, source):
        raise ThisNode(f"{fault[0].upper()}{fault[1:]}.", "Let the link lead to another catalog.")


def why_own(context: Context, source: Handshake) -> str:
    """The reason why a source cannot be told from this node; "" for a distinct node."""
    node = context.database.node
    if source.instance == node.instance:
        return "it is this node itself"
    return "it claims the authority of this node" if source.authority == node.authority else ""


async def describe_other(peer: Client, error: ClientError) -> str:
    """The kind of a server that offers no replication, and the answer of the server instead."""
    try:
        root = await peer.get("/")
    except ClientError as another:
        if may_pass(another):
            return describe(error, peer.url)
        root = {}
    if "specversion" in root and "registryid" in root:
        return (
            f"it is a server of xRegistry {str(root['specversion'])[:32]} without replication: "
            "it can be walked (`--mode walk`)"
        )
    return f"it is no xRegistry server ({describe(error, peer.url).rstrip('.')})"


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
    The link is as before the contact with the `instance`.
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


async def accepting_link(request: web.Request) -> Link:
    """The link that accepts the pushes of the sender of a request, after noting its instance.

    The sender states its identity without proof.

    Raises:
        BadRequest: the request does not state the sender.
        PushNotAccepted
        ServerBusy: the link is paused, or its replicas are being dropped.
    """
    context, subject = request[CONTEXT], request.path
    authority, instance = _read_sender(request)
    async with context.database.acquire() as connection:
        link = await links.get_acceptance(connection, authority)
    if link is None or instance == context.database.node.instance:
        # The authority is a text of an unknown sender, and operators copy the command into a shell.
        command = f"concord link accept {shlex.quote(authority)}"
        detail = f"Its operator can accept them: `{command} --url {context.public_base}`."
        raise PushNotAccepted(subject, authority=authority, detail=detail)
    if link.paused is not None:
        raise ServerBusy(subject, detail="Nothing is taken from this catalog for the time being.")
    if link.drops or link.ends:
        raise ServerBusy(subject, detail="What was pushed before is being dropped.")
    if link.instance == instance:
        return link
    async with context.database.transaction() as connection:
        try:
            loss = why_lost(link, instance)
            await links.meet(connection, link, instance, authority, None, loss=loss)
        except LinkReplaced as error:
            raise ServerBusy(subject, detail="What is accepted was changed.") from error
        if link.instance is not None:
            detail = f"the pusher is {instance} now, it was {link.instance}"
            at = datetime.now(UTC)
            await links.remember(connection, link, at, "another instance", detail)
        met = await links.get(connection, link.id)
    if met is None:
        raise PushOutOfStep(subject, error_detail="what is accepted was changed")
    return met


def _read_sender(request: web.Request) -> tuple[str, uuid.UUID]:
    authority = request.headers.get("Concord-Authority", "")
    if not is_authority(authority):
        detail = "the header Concord-Authority needs to be the authority of the sender"
        raise BadRequest(request.path, error_detail=detail)
    try:
        instance = uuid.UUID(request.headers.get("Concord-Instance", ""))
    except ValueError as error:
        detail = "the header Concord-Instance needs to be the instance of the sender"
        raise BadRequest(request.path, error_detail=detail) from error
    return authority, instance
