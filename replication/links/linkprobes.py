"""Asks the catalog at the other end of a new link who it is, in the way of the link's mode."""

from __future__ import annotations

from catalog.client import Credential
from catalog.context import Context
from catalog.operations.links import FoundCatalog
from catalog.store.links import LinkDefinition
from replication.links.publishrunner import probe_topic_to_publish
from replication.links.topicrunner import probe_topic
from replication.sinks.push import probe_target
from replication.sources.walkprobe import choose_mode
from replication.targets.probe import probe_server


async def ask_peer(
    context: Context,
    definition: LinkDefinition,
    subject: str,
    *,
    is_named: bool,
    credential: Credential | None = None,
) -> tuple[LinkDefinition, FoundCatalog | None]:
    """Find out whether a link can lead to its peer, and describe that.

    Args:
        subject: of an error.
        is_named: the operator has named the mode; otherwise it is chosen for the source.
        credential: that of the link.

    Returns:
        the definition with the mode that was chosen, and the description: its `authority` and
        more. `None` stands for a topic, which nobody answers for, and for what pushes by itself.

    Raises:
        SourceUnusable, TargetUnusable
    """
    match definition.mode:
        case "accept":
            return definition, None
        case "push":
            return definition, await probe_target(context, definition.peer, subject, credential)
        case "publish":
            await probe_topic_to_publish(context, definition, subject)
            return definition, None
        case "kafka":
            return definition, await probe_topic(context, definition, subject)
        case "write":
            return definition, await probe_server(context, definition, subject, credential)
    return await choose_mode(context, definition, subject, is_named=is_named, credential=credential)
