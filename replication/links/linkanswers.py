"""What operators are shown of links: answers, figures over time, and advice about conflicts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.route import Route
from catalog.model.errors import NotFound, ServerBusy
from catalog.model.linkterms import LinkTraffic, Mode, is_scope
from catalog.model.xid import group_path
from catalog.operations.feed import Verdict
from catalog.operations.linkfigures import READ_LINK_FIGURES, FiguresQuery, LinkFigures
from catalog.operations.links import CompleteCopy, LinkAnswer
from catalog.store import links
from catalog.store.database import Connection, Database
from catalog.store.links import Link
from replication.deciding.decide import CONFLICTS
from replication.deciding.placement import read_names
from replication.store import linkstates
from replication.store.linkstates import HOUR, KEPT, MINUTE

# A catalog that pushes or publishes reports every half minute that it has no changes.
_SILENT_SECONDS = 120
# In the remaining states, the number of changes is unknown.
_IN_CONTACT = frozenset({"copying", "behind", "current", "asking"})
# Members of an answer with the same names in definitions and links.
_DEFINED = ("mode", "dialect", "authorities", "scope", "types", "labels", "prefix", "trust")
_KEPT = (
    *("id", "credential", "authority", "cursor", "currentat", "applied", "appliedat", "conflicts"),
    *("failures", "errors", "nextattemptat", "question", "subscription", "history"),
)

_ADVICE: dict[str, str] = {
    Verdict.COLLIDED: (
        "Give its group another name here: `concord link set {link} --map {group}={group}-2`, "
        "or all groups of the link a prefix: `concord link set {link} --prefix NAME-`."
    ),
    Verdict.DIVERGED: (
        "Fetch it from its authority: follow that directly, or run `concord link reset {link}` "
        "if this link does."
    ),
    Verdict.AHEAD: (
        "If its authority has lost data, that takes its entities back from here; if the copy here "
        "was forged, `concord link reset {link}` replaces it."
    ),
    Verdict.LEAPT: (
        "Ask the operator of its authority: no number of writes leads to such an epoch. If it is "
        "right, `concord link reset {link} --drop` takes it."
    ),
    Verdict.INVALID: (
        "It is fetched again by itself. If it stays, what it belongs to is in conflict, too, or "
        "its content does not comply with the types of this node's model."
    ),
    Verdict.UNSIGNED: (
        "Ask the operator of its authority to sign what it publishes (`concord signing set on`), "
        "or take it unsigned: `concord trust remove` forgets the keys of an authority."
    ),
    Verdict.FORGED: (
        "Find out who altered it on its way. If its authority has another key than `concord trust "
        "list` shows, ask its operator for that, and trust it (`concord trust add`)."
    ),
    Verdict.AWAITED: (
        "It ends with the handover of its group; `concord handover list` shows how far that is."
    ),
    Verdict.REFUSED: (
        "Ask the operator of the target to accept its authority and path (`concord link accept`), "
        "or narrow the link: `concord link set {link} --scope PATH`."
    ),
}

# If the link sends, the conflict is at the target, so the commands are for the target's operator.
_OF_TARGETS: dict[str, str] = {
    Verdict.COLLIDED: (
        "At the target, its group needs another name: its operator accepts the pushes of this node "
        "with `--map {group}={group}-2` or `--prefix NAME-` (`concord link accept`)."
    ),
    Verdict.DIVERGED: "The target needs to fetch it from its authority: let it follow that.",
    Verdict.AHEAD: (
        "If this node has lost data, recover it from the target (`concord recover`). If the copy "
        "at the target was forged, its operator drops it there (`concord link remove --drop`)."
    ),
    Verdict.LEAPT: (
        "Find out how it came to such an epoch here: no number of writes leads to that. If it is "
        "right, the target's operator takes it (`concord link remove --drop`, then `link accept`)."
    ),
}

# A server of other software, or a topic, has no operator with Concord's commands.
_NARROW = "or leave it out: `concord link set {link} --scope PATH` names what the link sends."
_OF_SERVERS: dict[str, str] = {
    Verdict.COLLIDED: (f"Somebody else has written it at the server. Delete that there, {_NARROW}"),
    Verdict.REFUSED: f"Mend what the server or the topic refuses it for, {_NARROW}",
}

_BY_MODE: dict[Mode, dict[str, str]] = {
    "push": _OF_TARGETS,
    "write": _OF_SERVERS,
    "publish": _OF_SERVERS,
}

assert _ADVICE.keys() >= CONFLICTS, "each conflict has its advice"


def answer_link(request: web.Request, link: Link | None) -> LinkAnswer:
    """The answer with a changed link.

    Raises:
        NotFound: the link no longer exists.
    """
    return link_answer(present(request, link))


def present(request: web.Request, link: Link | None) -> Link:
    """The link of a request.

    Raises:
        NotFound: the link no longer exists.
    """
    if link is None:
        raise NotFound(request.path)
    return link


async def existing_link(connection: Connection, request: web.Request) -> Link:
    """The link that a request addresses.

    Raises:
        NotFound
    """
    return present(request, await links.get(connection, request.match_info["id"]))


def link_answer(link: Link) -> LinkAnswer:
    """A link as shown to operators; for a link that pushes, the target replaces the source.

    A source that pushes or publishes reports every half minute that it has no changes, so a longer
    silence is shown as the state `waiting`.
    """
    definition = link.definition
    now = datetime.now(UTC)
    confirmed = None
    if link.currentat is not None:
        confirmed = round((now - link.currentat).total_seconds(), 1)
    state, error = link.state, link.error
    is_silent = definition.terms.is_told and (confirmed or 0) > _SILENT_SECONDS
    if is_silent and state == "current":
        state, error = "waiting", f"Nothing has come for {confirmed:.0f} seconds."
    given = {name: getattr(definition, name) for name in _DEFINED}
    given |= {name: getattr(link, name) for name in _KEPT}
    return LinkAnswer(
        **given,
        source=definition.source or None,
        target=definition.target or None,
        direction="out" if definition.sends else "in",
        map=read_names(definition.map),
        addresses=read_names(definition.addresses),
        eventtopic=definition.eventtopic or None,
        token=(link.credential or {}).get("token"),
        instance=None if link.instance is None else str(link.instance),
        state=state,
        reason=link.paused,
        lag=0.0 if state == "current" else confirmed,
        behind=link.traffic.behind if state in _IN_CONTACT else None,
        confirmed=confirmed,
        succeededat=max(filter(None, (link.currentat, link.appliedat)), default=None),
        rate=round(link.traffic.rate(now), 1),
        bytes=link.traffic.bytes,
        progress=progress_of(link.traffic, now) if state == "copying" else None,
        differing=link.differing,
        comparedat=link.comparedat,
        error=error,
    )


def progress_of(traffic: LinkTraffic, now: datetime) -> CompleteCopy | None:
    """The progress of the complete copy that was begun last; `None` if none was begun.

    Args:
        now: the present time, for the estimate of the seconds that the copy still takes.
    """
    if traffic.copyat is None:
        return None
    # Deletions come besides the entities that the source has counted.
    expected = None if traffic.copyof is None else max(traffic.copyof, traffic.copied)
    seconds = None
    if expected is not None and traffic.copied:
        taken = max(0.0, (now - traffic.copyat).total_seconds())
        seconds = round(taken * (expected - traffic.copied) / traffic.copied, 1)
    return CompleteCopy(copies=traffic.copied, of=expected, seconds=seconds)


def advice_about(verdict: str, link: Link, origin: str) -> str:
    """The advice about a conflict of a link; "" for a verdict without advice.

    Args:
        origin: the xid of the copy at the authority; for a damaged copy, an arbitrary text.
    """
    # Operators copy the command into a shell. Ids have no characters with a meaning in a shell, but
    # the text of a damaged copy may have, and is left out.
    group = group_path(origin).removeprefix("/") if is_scope(origin) else "GROUPS/ID"
    by_verdict = {**_ADVICE, **_BY_MODE.get(link.definition.mode, {})}
    return by_verdict.get(verdict, "").format(link=link.id, group=group)


_FIRST_SECONDS = 5.0


async def run_figures(database: Database) -> None:
    """Note the figures of all links every minute, for ever."""
    # The first seconds of a process belong to its links.
    await asyncio.sleep(_FIRST_SECONDS)
    while True:
        try:
            async with database.acquire() as connection:
                await linkstates.note_figures(connection)
        # A point that is missing needs no retry: the next minute brings the next point.
        except (ServerBusy, TimeoutError):
            await database.recovered()
        await asyncio.sleep(MINUTE)


async def get_link_figures(request: web.Request, query: FiguresQuery) -> LinkFigures:
    """Show the lag, the rate and the errors of a link over time."""
    step = MINUTE if query.step == "minute" else HOUR
    since = datetime.now(UTC) - KEPT[step]
    async with request[CONTEXT].database.acquire() as connection:
        link = await existing_link(connection, request)
        figures = await linkstates.read_figures(connection, link.id, step, since)
    return LinkFigures(link=link.id, step=query.step, figures=figures)


routes: Sequence[Route] = (Route(READ_LINK_FIGURES, get_link_figures),)
