"""The modes of links, with the source and the sink of each mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from catalog.context import Context
from catalog.model.caller import Author, Caller
from catalog.model.linkterms import Mode
from catalog.operations.links import FoundCatalog
from catalog.store.links import Link, LinkDefinition
from replication.links.linkmodes import LinkMode
from replication.links.linkrunner import LinkRunner
from replication.peers.peeraccess import PeerAccess
from replication.sinks.dryrun import try_feed, try_topic, try_walk
from replication.sinks.here import Here
from replication.sinks.peersink import PeerSink
from replication.sinks.push import probe_target
from replication.sinks.receive import PushedCopies
from replication.sinks.serversink import ServerSink
from replication.sinks.topicsink import TopicSink, probe_topic_to_publish
from replication.sources.feedsource import FeedSource
from replication.sources.ownlog import OwnLog
from replication.sources.topicsource import TopicSource, probe_topic
from replication.sources.walksource import WalkSource, choose_mode
from replication.targets.probe import probe_server
from replication.transfer.linkrun import LinkResources, LinkRun
from replication.transfer.transfer import DryRun, Transfer


def _pull(run: LinkRun) -> Transfer:
    source = FeedSource(run)
    return Transfer(source=source, sink=Here(run), peer=source)


def _events(run: LinkRun) -> Transfer:
    source = FeedSource(run, by_events=True)
    return Transfer(source=source, sink=Here(run), peer=source)


def _accept(run: LinkRun) -> Transfer:
    source = PushedCopies()
    return Transfer(source=source, sink=Here(run), peer=source)


def _kafka(run: LinkRun) -> Transfer:
    source = TopicSource(run)
    # Records of a topic come out of the order of their epochs, so an older epoch must not overrule.
    return Transfer(source=source, sink=Here(run, overrules=False), peer=source)


def _walk(run: LinkRun) -> Transfer:
    source = WalkSource(run)
    return Transfer(source=source, sink=Here(run), peer=source)


def _push(run: LinkRun) -> Transfer:
    sink = PeerSink(run)
    return Transfer(source=OwnLog(run, sink.admits), sink=sink, peer=sink)


def _publish(run: LinkRun) -> Transfer:
    sink = TopicSink(run)
    return Transfer(source=OwnLog(run), sink=sink, peer=sink)


def _write(run: LinkRun) -> Transfer:
    sink = ServerSink(run)
    source = OwnLog(run, retries_refused=True, tombstones=False)
    return Transfer(source=source, sink=sink, peer=sink)


async def _try_push(run: LinkRun) -> DryRun | None:
    return await PeerSink(run).preview()


async def _try_publish(run: LinkRun) -> DryRun | None:
    return await TopicSink(run).preview()


async def _try_write(run: LinkRun) -> DryRun | None:
    return await ServerSink(run).preview()


async def _probe_source(
    context: Context, definition: LinkDefinition, subject: str, access: PeerAccess, is_named: bool
) -> tuple[LinkDefinition, FoundCatalog | None]:
    return await choose_mode(context, definition, subject, is_named=is_named, credential=access)


async def _probe_pusher(
    context: Context, definition: LinkDefinition, subject: str, access: PeerAccess, is_named: bool
) -> tuple[LinkDefinition, FoundCatalog | None]:
    return definition, None


async def _probe_topic(
    context: Context, definition: LinkDefinition, subject: str, access: PeerAccess, is_named: bool
) -> tuple[LinkDefinition, FoundCatalog | None]:
    return definition, await probe_topic(context, definition, subject)


async def _probe_target(
    context: Context, definition: LinkDefinition, subject: str, access: PeerAccess, is_named: bool
) -> tuple[LinkDefinition, FoundCatalog | None]:
    return definition, await probe_target(context, definition.peer, subject, access)


async def _probe_topic_to_publish(
    context: Context, definition: LinkDefinition, subject: str, access: PeerAccess, is_named: bool
) -> tuple[LinkDefinition, FoundCatalog | None]:
    await probe_topic_to_publish(context, definition, subject)
    return definition, None


async def _probe_server(
    context: Context, definition: LinkDefinition, subject: str, access: PeerAccess, is_named: bool
) -> tuple[LinkDefinition, FoundCatalog | None]:
    return definition, await probe_server(context, definition, subject, access)


MODES: Mapping[Mode, LinkMode] = {
    "pull": LinkMode(transfer=_pull, probe=_probe_source, preview=try_feed),
    "events": LinkMode(transfer=_events, probe=_probe_source, preview=try_feed),
    "accept": LinkMode(transfer=_accept, probe=_probe_pusher),
    "kafka": LinkMode(transfer=_kafka, probe=_probe_topic, preview=try_topic),
    "walk": LinkMode(transfer=_walk, probe=_probe_source, preview=try_walk),
    "push": LinkMode(transfer=_push, probe=_probe_target, preview=_try_push),
    "publish": LinkMode(transfer=_publish, probe=_probe_topic_to_publish, preview=_try_publish),
    "write": LinkMode(transfer=_write, probe=_probe_server, preview=_try_write),
}


def runner_of(link: Link, resources: LinkResources) -> LinkRunner:
    """The runner of a link, by the link's mode; the link is the author of the runner's writes."""
    context = resources.context.for_caller(_caller_of(link))
    run = LinkRun.of(link, replace(resources, context=context))
    return LinkRunner(run, MODES[link.definition.mode].transfer)


def _caller_of(link: Link) -> Caller:
    address = urlsplit(link.definition.source).hostname or ""
    path = f"/replication/links/{link.id}"
    return Caller.unrestricted(Author(kind="link", name=link.id, address=address, path=path))
