"""Explanations by links: why catalogs differ, and which entities a comparison leaves out.

A link that is paused, stopped or behind explains why a catalog lacks changes, and what its operator
can do about it. The differences stay differences: the catalogs do not agree.

Copies of an authority without a given catalog are compared with each other where several catalogs
have copies; the copies of a single catalog are not compared. Copies that links send to servers of
other software, or to catalogs that were not given, are not compared either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import orjson

from catalog.client import Client
from catalog.operations.reconciliations import FindingName
from replication.feed.digestrequests import MOST_AUTHORITIES
from replication.reconcile.catalogs import ReportedLink, SurveyedCatalog
from replication.reconcile.findings import Difference, Findings
from replication.reconcile.inputs.input import Input
from replication.reconcile.inputs.nodeinput import NodeInput
from replication.reconcile.topology import Places, normal_url

_STOPPED = frozenset({"waiting", "unauthenticated", "forbidden", "refused"})
_SHOW = "concord link show {id} --url {url}"
_COMMANDS = {
    "paused": "concord link resume {id} --url {url}",
    "asking": "concord link allow {id} --url {url}",
    **dict.fromkeys(_STOPPED, _SHOW),
}

COMMANDS: Mapping[FindingName, str] = {
    "ahead": "concord recover --from {url} --url {owner}",
    "orphaned": "concord link reset {link} --full --url {url}",
    "collided": "concord link set {link} --prefix NAME- --url {url}",
}
"""The command for a finding that no repair settles; a person decides whether it is right."""
_PATH = "/replication/digests"
_GIVE = "Give that catalog, too, with --catalog."
_LEAVING = frozenset({"push", "publish", "write"})
_INTO: Mapping[str, tuple[str, str]] = {
    "walk": (
        "the link walks {source}, which offers no digests; the last walk that ended well was "
        "{currentat}, and the link is {state}",
        "Let it walk now: `concord link run {id} --url {url}`; or bring all again: "
        "`concord link reset {id} --full --url {url}`.",
    ),
    "kafka": (
        "the link reads the topic {source}, and the catalog that publishes there was not given",
        _GIVE,
    ),
    "accept": ("its catalog pushes it, and was not given", _GIVE),
    "pull": ("the link leads from {source}, and the authority's own catalog was not given", _GIVE),
}
_NO_LINK = (
    "no link brings it any more, or none names it",
    "If it should be there, add a link (`concord link add`).",
)
_OUT_OF: Mapping[str, tuple[str, str]] = {
    "write": (
        "the link writes to {target}, a server of other software, which offers no digests",
        "Let the link compare and write what differs: `concord link reset {id} --url {url}`.",
    ),
    "push": ("the link pushes to {target}, which was not given", "Give it, too, with --catalog."),
    "publish": (
        "the link publishes to {target}, and no given catalog follows that topic",
        "Give a catalog that does, with --catalog.",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The state of a link that explains differences of an authority's entities at a catalog.

    Args:
        differences: the number of repairable differences at the catalog.
        text: the state of the link, as a sentence.
        command: the command that shows or changes the state.
    """

    catalog: str
    authority: str
    differences: int
    text: str
    command: str


def find_causes(findings: Findings, places: Places) -> tuple[Cause, ...]:
    """Find the links that are to bring entities which differ, and are not current."""
    return tuple(
        Cause(
            catalog=name,
            authority=authority,
            differences=number,
            text=text,
            command=_COMMANDS.get(link.state, _SHOW).format(id=link.id, url=url),
        )
        for name, by_authority in findings.authorities().items()
        for authority, number in by_authority.items()
        for url, link in bringing(name, authority, places)
        if (text := _text(link))
    )


def find_commands(
    samples: Mapping[FindingName, Sequence[Difference]], places: Places
) -> dict[FindingName, tuple[str, ...]]:
    """For each finding that no repair settles, the commands that may settle the samples.

    A person chooses from the commands, each of which comes once.
    """
    urls = {each.name: each.input.url for each in places.catalogs}
    owners = {each.authority: each.input.url for each in places.catalogs}
    found: dict[FindingName, tuple[str, ...]] = {}
    for finding, differences in samples.items():
        commands: list[str] = []
        for one in differences if finding in COMMANDS else ():
            told = {"url": urls[one.catalog], "owner": owners.get(one.authority, "URL")}
            ways = (
                [told]
                if finding == "ahead"
                else [
                    {"url": url, "link": link.id}
                    for url, link in bringing(one.catalog, one.authority, places)
                ]
            )
            commands += (COMMANDS[finding].format(**way) for way in ways)
        if commands:
            found[finding] = tuple(dict.fromkeys(commands))
    return found


def bringing(catalog: str, authority: str, places: Places) -> list[tuple[str, ReportedLink]]:
    """The links that are to bring an authority's entities to a catalog, with the URLs of nodes."""
    found = []
    for reporter in places.catalogs:
        for link in reporter.links:
            target, source = places.target(link), places.source(link)
            if target is None or places.catalogs[target].name != catalog:
                continue
            if link.brings(authority, None if source is None else places.catalogs[source]):
                found.append((reporter.input.url, link))
    return found


def _text(link: ReportedLink) -> str:
    """The state of a link that is not current, as a sentence; "" for a current link."""
    current = f", current last at {link.currentat}" if link.currentat else ", never yet current"
    reason = f": {link.reason.rstrip('.')}" if link.reason else ""
    match link.state:
        case "paused" | "asking":
            return f"Link {link.id} is {link.state}{link.since}{current}{reason}."
        case "new" | "copying" | "behind":
            return f"Link {link.id} is {link.state}{current}."
        case state if state in _STOPPED:
            return f"Link {link.id} is {state}{link.since}{current}{reason}."
    if link.conflicts:
        return f"Link {link.id} has conflicts about {link.conflicts:,} entities."
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncompared:
    """Entities that were compared neither with the authority's catalog nor with a link's target.

    Args:
        authority: the authority of the entities; `None` stands for several authorities.
        entities: the number of entities at the catalog, tombstones included; `None` if unknown.
        link: the id of the link that brings or sends the entities; `None` if no link does.
        reason: the reason why the entities were not compared.
        advice: advice for comparing the entities.
        other: the URL or the authority of the catalog to compare the entities with.
    """

    catalog: str
    authority: str | None = None
    entities: int | None = None
    link: str | None = None
    mode: str | None = None
    reason: str
    advice: str
    other: str = ""


def find_uncompared(
    catalogs: Sequence[SurveyedCatalog], unread: Sequence[Input] = ()
) -> list[Uncompared]:
    """Ask the nodes in parallel for the entities that the comparison leaves out.

    Args:
        unread: the given catalogs that could not be read.

    Raises:
        CatalogUnread: a catalog can't be read.
    """
    places = Places(catalogs)
    with ThreadPoolExecutor(max_workers=min(16, len(catalogs))) as pool:
        found = pool.map(
            lambda each: [] if each.node is None else _of_catalog(each, each.node, places), catalogs
        )
    names = {normal_url(each.url): each.name for each in unread}
    advice = "Run again when it can be read."
    return [
        replace(one, reason=f"{name} could not be read", advice=advice)
        if (name := names.get(normal_url(one.other)))
        else one
        for each in found
        for one in each
    ]


def _of_catalog(catalog: SurveyedCatalog, node: NodeInput, places: Places) -> list[Uncompared]:
    given = {each.authority for each in places.catalogs}

    async def ask(client: Client) -> list[Uncompared]:
        answer = await client.request("GET", _PATH, params=[("format", "authorities")])
        named = orjson.loads(answer.body)["authorities"]
        found = []
        for each in named:
            if each not in given:
                count = await _count(client, [("authority", each)])
                brought = _bringing(catalog, each)
                texts = _NO_LINK if brought is None else _INTO.get(brought.mode, _INTO["pull"])
                # A topic has no URL of a catalog.
                other = each
                if brought is not None and brought.mode != "kafka":
                    other = brought.source
                found.append(_uncompared(catalog, each, count, brought, texts, other))
        if len(named) >= MOST_AUTHORITIES:
            found.append(
                Uncompared(
                    catalog=catalog.name,
                    reason=f"it names no more than {MOST_AUTHORITIES} authorities",
                    advice="Give the catalogs of its authorities, too, with --catalog.",
                )
            )
        for link in _leaving(catalog, places):
            count = await _count(client, _selection(link, catalog))
            several = len(link.authorities) > 1 or "*" in link.authorities
            whose = None if several else next(iter(link.authorities), catalog.authority)
            texts = _OUT_OF[link.mode]
            found.append(_uncompared(catalog, whose, count, link, texts, link.target))
        return found

    return node.call(ask)


async def _count(client: Client, params: Iterable[tuple[str, str]]) -> int:
    """The number of entities and tombstones that parameters select."""
    # With no bits, the catalog merges the buckets into a single bucket.
    answer = await client.merged_digests([("bits", "0"), *params])
    return sum(count for _, count, _ in orjson.loads(answer.body)["buckets"])


def _selection(link: ReportedLink, catalog: SurveyedCatalog) -> Iterator[tuple[str, str]]:
    if "*" not in link.authorities:
        yield from (("authority", each) for each in link.authorities or (catalog.authority,))
    yield from link.params


def _leaving(catalog: SurveyedCatalog, places: Places) -> Iterator[ReportedLink]:
    """The links from a catalog to targets outside the comparison."""
    # The name of a topic has to do, since the brokers of one cluster have several addresses.
    followed = {
        each.source.rpartition("/")[2]
        for other in places.catalogs
        for each in other.links
        if each.mode == "kafka"
    }
    for link in catalog.links:
        is_followed = link.mode == "publish" and link.target.rpartition("/")[2] in followed
        is_given = link.mode == "push" and places.target(link) is not None
        if link.mode in _LEAVING and not is_followed and not is_given:
            yield link


def _bringing(catalog: SurveyedCatalog, authority: str) -> ReportedLink | None:
    """The link that brings an authority: from the authority's own catalog, or else from a relay."""
    into = [link for link in catalog.links if link.mode not in _LEAVING]
    own = (link for link in into if link.pinned == authority and authority)
    relays = (link for link in into if authority in link.authorities or "*" in link.authorities)
    return next((link for each in (own, relays) for link in each), None)


def _uncompared(
    catalog: SurveyedCatalog,
    authority: str | None,
    count: int,
    link: ReportedLink | None,
    texts: tuple[str, str],
    other: str,
) -> Uncompared:
    told: dict[str, Any] = {}
    if link is not None:
        told = {name: getattr(link, name) for name in ("id", "source", "target", "state")}
        told["url"] = catalog.input.url
        told["currentat"] = f"at {link.currentat}" if link.currentat else "none yet"
    reason, advice = (text.format(**told) for text in texts)
    return Uncompared(
        catalog=catalog.name,
        authority=authority,
        entities=count,
        link=None if link is None else link.id,
        mode=None if link is None else link.mode,
        reason=reason,
        advice=advice,
        other=other,
    )
