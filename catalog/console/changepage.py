"""The pages of changes: what changed, when and by whom; one change; and the audit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Any

from aiohttp import web

from catalog.console.page import ConsolePage, page_route, render, roles_for
from catalog.model.roles import Permission
from catalog.model.xid import resource_of
from catalog.operations.audit import READ_AUDIT, AuditQuery
from catalog.operations.changes import (
    LIST_CHANGES,
    READ_CHANGE,
    CatalogChangesQuery,
    ChangeEntry,
    DiffAnswer,
    DiffLine,
    essence_of,
)

_KINDS = {"+": "added", "-": "removed", "=": "same"}
_MOST_LINES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownVerdict:
    """Whether some readers of a schema go on working.

    Args:
        says: the answer as a sentence.
        text: what was compared, in words.
        why: what breaks.
    """

    is_ok: bool
    says: str
    text: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLine:
    """A line with the name of its kind; `place` stands for lines that are left out."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class ShownDifference:
    """The difference of two contents of entities."""

    answer: DiffAnswer

    @property
    def changed(self) -> list[str]:
        """The names of the attributes that differ, without those that always do."""
        return essence_of(self.answer.changed)

    @property
    def has_long_values(self) -> bool:
        """Whether the values do not show every attribute that differs."""
        shown = {value.path[0] for value in self.answer.values}
        shown |= {".".join(value.path[:2]) for value in self.answer.values}
        return len({*self.changed} - shown) > bool(self.answer.lines)

    @property
    def verdicts(self) -> list[ShownVerdict]:
        if not self.answer.lines:
            return []
        found = (
            (self.answer.forward, "Older readers keep working", "older", "newer", "forward"),
            (self.answer.backward, "Newer readers read older data", "newer", "older", "backward"),
        )
        return [
            ShownVerdict(
                is_ok=verdict.compatible,
                says=says if verdict.compatible else f"It breaks {reader} readers",
                text=f"the {reader} schema reads {data} data: {name} compatible"
                if verdict.compatible
                else f"the {reader} schema cannot read {data} data",
                why=verdict.reason or "",
            )
            for verdict, says, reader, data, name in found
            if verdict is not None
        ]

    @property
    def lines(self) -> list[ShownLine]:
        """The lines of the documents."""
        return list(_shown(self.answer.lines or ()))

    @property
    def text(self) -> list[ShownLine]:
        """The lines of the attributes as JSON."""
        return list(_shown(self.answer.text or ()))


def _shown(lines: Sequence[DiffLine]) -> Iterator[ShownLine]:
    before = 0
    for line in lines[:_MOST_LINES]:
        if line.sign == "=":
            if before and line.number > before + 1:
                yield ShownLine(kind="place", text="⋯")
            before = line.number
        elif line.sign == "+":
            before = line.number
        sign = " " if line.sign == "=" else line.sign
        yield ShownLine(kind=_KINDS[line.sign], text=f"{sign} {line.text}")
    if len(lines) > _MOST_LINES:
        yield ShownLine(kind="place", text="More lines differ: see the command.")


_SHOWN = 50
_MOST_OTHERS = 50
_SINCE = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
    "month": timedelta(days=30),
}
_OUTCOMES = ("done", "refused")


@dataclass(frozen=True, slots=True)
class ShownChange:
    """The changes of one interaction as a page lists them, the most telling one first."""

    first: ChangeEntry
    others: Sequence[ChangeEntry]

    @property
    def shown_others(self) -> Sequence[ChangeEntry]:
        return self.others[:_MOST_OTHERS]


@dataclass(frozen=True, slots=True)
class Day:
    """The changes of a day in UTC, the newest first."""

    date: date
    changes: Sequence[ShownChange]

    @property
    def name(self) -> str:
        today = datetime.now(UTC).date()
        near = {today: "Today", today - timedelta(days=1): "Yesterday"}
        return near.get(self.date) or f"{self.date:%A}, {self.date.day} {self.date:%B %Y}"


def days_of(entries: Sequence[ChangeEntry]) -> list[Day]:
    """Changes by day, those of one interaction together."""
    days = groupby(shown_changes(entries), key=lambda each: each.first.time.astimezone(UTC).date())
    return [Day(day, [*changes]) for day, changes in days]


def shown_changes(entries: Sequence[ChangeEntry]) -> list[ShownChange]:
    """Changes, those of one interaction together."""
    found = []
    for _, same in groupby(entries, key=lambda each: each.interaction):
        told = _telling([*same])
        found.append(ShownChange(told[0], told[1:]))
    return found


def _telling(entries: Sequence[ChangeEntry]) -> list[ChangeEntry]:
    """The changes of an interaction, without resources whose versions say the same."""
    ends = {resource_of(e.xid) for e in entries if e.kind == "version" and e.action != "updated"}
    said = [each for each in entries if each.kind != "resource" or each.xid not in ends]
    return sorted(said, key=lambda each: each.action == "updated")


def _given(page: ConsolePage, *names: str) -> dict[str, str]:
    """The filters of a list."""
    return {name: page.request.query.get(name, "").strip()[:1000] for name in names}


async def show_changes(page: ConsolePage) -> web.Response:
    """The changes, filtered by path, owner, person and time."""
    given = _given(page, "path", "authority", "who", "since", "before")
    (entries, following, fault), own = await asyncio.gather(
        changes_for(page, given), own_authority(page)
    )
    owners = sorted({each.authority for each in entries} | {given["authority"]} - {""})
    return await render(
        page,
        "changes.html",
        given={**given, "before": ""},
        days=days_of(entries),
        authorities=[each for each in owners if each != own],
        names=await page.node.names(owners),
        own=own,
        fault=fault,
        next=following,
        is_told=page.may(Permission.GRANT),
    )


async def changes_for(
    page: ConsolePage, given: Mapping[str, str]
) -> tuple[list[ChangeEntry], str, str]:
    """A page of changes, the place of the next page, and the fault of the filters in words."""
    query = CatalogChangesQuery(**_conditions(given))
    told, fault = await page.node.told(page.node.page(LIST_CHANGES, query, "before"), 400)
    found, following = told or (None, "")
    return [] if found is None else found.changes, following, fault


def _conditions(given: Mapping[str, str]) -> dict[str, Any]:
    """The query of a list by the filters that are not empty."""
    since = _SINCE.get(given.get("since", ""))
    begin = None if since is None else datetime.now(UTC) - since
    texts = {name: text or None for name, text in given.items()}
    return {**texts, "since": begin, "limit": _SHOWN}


async def own_authority(page: ConsolePage) -> str:
    """The authority of this catalog; empty if the reader may not ask for it."""
    known = await _found(page, "/-/authorities")
    for each in known.get("authorities", []):
        if each.get("isown"):
            return str(each["authority"])
    return str((await _found(page, "/replication")).get("authority", ""))


async def _found(page: ConsolePage, path: str, **params: str) -> dict[str, Any]:
    """The answer of an operation that a node may lack; empty if the reader gets none."""
    found, _ = await page.node.told(page.node.found(path, params), 400)
    return found or {}


async def show_change(page: ConsolePage) -> web.Response:
    """The page of a change: both contents, the readers that it breaks, and the arrivals."""
    sequence = page.request.match_info["sequence"]
    found, own = await asyncio.gather(
        page.node.call(READ_CHANGE, sequence=sequence), own_authority(page)
    )
    change = found.change
    difference = None if found.difference is None else ShownDifference(found.difference)
    return await render(
        page,
        "change.html",
        change=change,
        difference=difference,
        arrivals=await _arrivals_of(page, change),
        names=await page.node.names([change.authority]),
        own=own,
    )


async def _arrivals_of(page: ConsolePage, change: ChangeEntry) -> list[dict[str, Any]] | None:
    """The followers with whether each has a change; `None` if the reader may not know."""
    found = await _found(page, "/replication/arrivals", of=change.xid, epoch=str(change.epoch))
    return list(found["followers"]) if "followers" in found else None


async def show_audit(page: ConsolePage) -> web.Response:
    """The audit: each request that changed anything or was refused, by path, person and time."""
    given = _given(page, "path", "identity", "since", "outcome", "before")
    if not page.may(Permission.GRANT):
        return await render(
            page, "audit.html", given=given, entries=None, role=roles_for(Permission.GRANT)
        )
    outcome = given["outcome"] if given["outcome"] in _OUTCOMES else None
    query = AuditQuery(**_conditions(given) | {"outcome": outcome})
    told, fault = await page.node.told(page.node.page(READ_AUDIT, query, "before"), 400)
    found, following = told or (None, "")
    return await render(
        page,
        "audit.html",
        given={**given, "before": ""},
        entries=[] if found is None else found.audit,
        fault=fault,
        next=following,
        sees_refused=page.may_everywhere(Permission.ADMINISTER),
    )


change_routes = (
    page_route("/console/changes", show_changes),
    page_route("/console/changes/{sequence}", show_change),
    page_route("/console/audit", show_audit),
)
