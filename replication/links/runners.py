"""The runner of a link, by its mode."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from catalog.model.author import Author
from catalog.model.caller import Caller
from catalog.model.linkterms import Mode
from catalog.store.links import Link
from replication.links.eventtopic import EventTopicRunner
from replication.links.linkresources import LinkResources
from replication.links.linkrunner import LinkRunner
from replication.links.publishrunner import PublishRunner
from replication.links.pushrunner import AcceptanceRunner, PushRunner
from replication.links.topicrunner import TopicRunner
from replication.links.walkrunner import WalkRunner
from replication.links.writerunner import WriteRunner

_RUNNERS: dict[Mode, type[LinkRunner]] = {
    "pull": LinkRunner,
    "events": LinkRunner,
    "push": PushRunner,
    "accept": AcceptanceRunner,
    "kafka": TopicRunner,
    "publish": PublishRunner,
    "walk": WalkRunner,
    "write": WriteRunner,
}


def runner_of(link: Link, resources: LinkResources) -> LinkRunner:
    """The runner of a link, by its mode; what it reads and writes is for the link."""
    context = resources.context.for_caller(_caller_of(link))
    resources = replace(resources, context=context)
    if link.definition.eventtopic:
        return EventTopicRunner(link, resources)
    return _RUNNERS[link.definition.mode](link, resources)


def _caller_of(link: Link) -> Caller:
    address = urlsplit(link.definition.source).hostname or ""
    path = f"/replication/links/{link.id}"
    return Caller.unrestricted(Author(kind="link", name=link.id, address=address, path=path))
