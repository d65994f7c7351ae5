"""What the tabs of an entity show: versions, changes, references, copies, and its JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

import orjson

from catalog.client.errors import Refused
from catalog.console.changepage import ShownDifference, changes_for, days_of, own_authority
from catalog.console.entitytypes import EntityType
from catalog.console.nodecalls import place_after
from catalog.console.page import ENTITIES, ConsolePage, in_words, json_text, short_authority
from catalog.context import CONTEXT
from catalog.model.roles import Permission
from catalog.model.xid import Xid, is_valid_id
from catalog.operations.authoritycards import Card, KnownAuthority
from catalog.operations.changes import READ_DIFF, DiffQuery
from catalog.operations.federation import Freshness
from catalog.operations.followers import Arrival, Arrivals
from catalog.operations.search import DEEPEST, READ_REFERENCES, ReferencesQuery
from catalog.operations.subscriptions import (
    LIST_SUBSCRIPTIONS,
    SubscriptionAnswer,
    SubscriptionsQuery,
)

_SHOWN = 50
_MOST_REFERENCES = 500
_MOST_TOLD = 100
# The names of types in the older draft.
_REGISTRY04 = {
    "endpoints": "endpoints",
    "messagegroups": "definitionGroups",
    "messages": "definitions",
    "schemagroups": "schemaGroups",
    "schemas": "schemas",
}


async def uses_of(page: ConsolePage, xid: Xid) -> dict[str, Any]:
    """What refers to an entity, and what it refers to: directly, or through others."""
    try:
        query = ReferencesQuery(of=str(xid), depth=DEEPEST)
        found = await page.node.call(READ_REFERENCES, query=query)
    except Refused as error:
        if error.problem.name != "search_too_costly":
            raise
        direct = await page.node.call(READ_REFERENCES, query=ReferencesQuery(of=str(xid)))
        found = direct.model_copy(update={"complete": False})
    shown = found.references[:_MOST_REFERENCES]
    return {
        "used_by": [each for each in shown if each.direction == "to"],
        "uses": [each for each in shown if each.direction == "from"],
        "are_all": found.complete and len(shown) == len(found.references),
        "depth": DEEPEST,
        "told": await _told_of(page, xid),
    }


async def _told_of(page: ConsolePage, xid: Xid) -> list[SubscriptionAnswer] | None:
    """The first subscriptions that are sent changes of an entity; `None` if they are not told."""
    if not page.may(Permission.SUBSCRIBE):
        return None
    query = SubscriptionsQuery(about=str(xid), limit=_MOST_TOLD)
    try:
        return (await page.node.call(LIST_SUBSCRIPTIONS, query=query)).root
    except Refused as error:
        if error.problem.status != 403 and error.problem.name != "search_too_costly":
            raise
        return None


async def versions_of(page: ConsolePage, xid: Xid) -> dict[str, Any]:
    """The versions of a resource, and the difference between two of them."""
    asked = page.request.query
    params = {"limit": str(_SHOWN)}
    if after := asked.get("after", "")[:1024]:
        params["after"] = after
    path = f"{xid.resource}/versions"
    answer = await page.node.request("GET", path, params=params)
    versions = list(orjson.loads(answer.body).values())
    older, newer = asked.get("older", "")[:128], asked.get("newer", "")[:128]
    if not older and not newer and len(versions) > 1:
        older, newer = versions[-2]["versionid"], versions[-1]["versionid"]
    difference = None
    if is_valid_id(older) and is_valid_id(newer):
        difference = await _difference_of(page, xid.resource.version(older), newer)
    return {
        "versions": versions,
        "next": place_after(answer),
        "older": older,
        "newer": newer,
        "difference": difference,
    }


async def _difference_of(page: ConsolePage, xid: Xid, newer: str) -> ShownDifference | None:
    """The difference of a version to another one of the resource; `None` if one is not there."""
    asking = page.node.call(READ_DIFF, query=DiffQuery(of=str(xid), to=newer))
    found, _ = await page.node.told(asking, 404)
    return None if found is None else ShownDifference(found)


async def changes_of(page: ConsolePage, xid: Xid) -> dict[str, Any]:
    """The changes of an entity and of what is below it."""
    given = {"path": str(xid), "before": page.request.query.get("before", "")[:100]}
    (entries, following, fault), own = await asyncio.gather(
        changes_for(page, given), own_authority(page)
    )
    return {
        "days": days_of(entries),
        "next": following,
        "fault": fault,
        "own": own,
        "names": await page.node.names(sorted({each.authority for each in entries})),
    }


async def raw_of(
    page: ConsolePage, xid: Xid, kind: EntityType, entity: Mapping[str, Any]
) -> dict[str, Any]:
    """The JSON of an entity, and how to read it by each API."""
    base = page.request[CONTEXT].base_url(page.request)
    candidates = []
    if xid.groups in _REGISTRY04:
        names = {"groups": _REGISTRY04[xid.groups], "resources": _REGISTRY04.get(xid.resources, "")}
        older = xid._replace(**names)
        candidates.append(("CloudEvents Registry 0.4", f"/registry/0.4{older}"))
    if xid.kind == "group" and xid.groups == "endpoints":
        name = quote(str(entity.get("name", xid.gid)), safe="")
        candidates.append(("Discovery", f"/services?name={name}"))
    if xid.rid and xid.groups == "messagegroups":
        candidates.append(
            ("Message Catalog", f"/messagecatalog/{xid.gid}/messagedefinitions/{xid.rid}")
        )
    if xid.rid and xid.groups == "schemagroups":
        subject = f":.{xid.gid}:{xid.rid}"
        version = "latest" if xid.kind == "resource" else xid.vid
        candidates.append(
            ("Confluent Schema Registry", f"/confluent/subjects/{subject}/versions/{version}")
        )
    answers = await asyncio.gather(*(page.node.found(path) for _, path in candidates))
    suffix = "$details" if kind.has_document else ""
    return {
        "json": json_text(entity),
        "base": base,
        "suffix": suffix,
        "dialects": [
            named for named, answer in zip(candidates, answers, strict=True) if answer is not None
        ],
    }


_SAFE_IN_URL = "/:@~!$&'()*+,;="


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedCopy:
    """A copy at a catalog.

    Args:
        says: the state of the copy, in words.
        severity: the gravity of the state, or "ok".
        since: the time since which the state has been as it is.
        url: the page of the entity there.
    """

    authority: str
    name: str
    region: str
    contact: str
    says: str
    severity: str
    epoch: int | None = None
    since: datetime | None = None
    seenat: datetime | None = None
    url: str = ""
    is_owner: bool = False


def copies_of(
    owner: Freshness, arrivals: Arrivals, here: KnownAuthority, host: str
) -> list[PlacedCopy]:
    """The copies of an entity: the owner's first, those that are behind before the rest.

    Args:
        here: this catalog.
        host: the name of this catalog, where its card tells none.
    """
    found = [_original(owner, arrivals.epoch if owner.state == "own" else None, host)]
    if owner.state != "own":
        found.append(_here(owner, arrivals.epoch, here, host))
    return [
        *found,
        *(
            _arrived(each, owner)
            for each in arrivals.followers
            # The owner may follow this catalog for others' entities.
            if each.authority != owner.authority
        ),
    ]


def _original(owner: Freshness, epoch: int | None, host: str) -> PlacedCopy:
    card = owner.card or Card()
    return PlacedCopy(
        authority=owner.authority,
        name=card.name or (f"{host}, this catalog" if owner.state == "own" else ""),
        region=card.region,
        contact=card.contact,
        says="owns it",
        severity="ok",
        epoch=epoch,
        url=owner.editurl or "",
        is_owner=True,
    )


def _here(owner: Freshness, epoch: int | None, here: KnownAuthority, host: str) -> PlacedCopy:
    card, lag = here.card or Card(), owner.lag or 0.0
    states = {
        "current": ("ok", "copy, current"),
        "behind": ("warning", f"copy, {in_words(lag)} behind"),
        "unknown": ("note", "copy, and no link brings it"),
    }
    severity, says = states[owner.state]
    if owner.through is not None:
        says += f", through {short_authority(owner.through)}"
    return PlacedCopy(
        authority=here.authority,
        name=f"{card.name or host}, this catalog",
        region=card.region,
        contact=card.contact,
        says=says,
        severity=severity,
        epoch=epoch,
        seenat=owner.confirmedat,
    )


def _arrived(arrival: Arrival, owner: Freshness) -> PlacedCopy:
    card = arrival.card or Card()
    says, severity = {
        "arrived": ("has it", "ok"),
        "awaited": ("awaits it", "warning"),
        "unselected": ("does not ask for it", "note"),
    }[arrival.state]
    if arrival.state == "awaited" and arrival.epoch is None and arrival.since is not None:
        says = "lacks it, and waits"
    elif arrival.state == "awaited" and arrival.since is not None:
        says = "has an earlier one, and waits"
    path = quote(owner.of, safe=_SAFE_IN_URL)
    is_there = card.url and arrival.state == "arrived"
    return PlacedCopy(
        authority=arrival.authority,
        name=card.name,
        region=card.region,
        contact=card.contact,
        says=says,
        severity=severity,
        epoch=arrival.epoch,
        since=arrival.since,
        seenat=arrival.seenat,
        url=f"{card.url}{ENTITIES}{path}" if is_there else "",
    )
