"""The answers that show links to operators."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.route import model_response
from catalog.model.errors import NotFound
from catalog.operations.links import CompleteCopy, LinkAnswer
from catalog.store.links import Link
from replication.deciding.mapping import read_names

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


def created_link(request: web.Request, link: LinkAnswer) -> web.Response:
    """The answer to a request that created a link."""
    location = f"{request[CONTEXT].base_url(request)}/replication/links/{quote(link.id)}"
    return model_response(link, status=201, headers={"Location": location})


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


def link_answer(link: Link) -> LinkAnswer:
    """A link as shown to operators; for a link that pushes, the target replaces the source.

    A source that pushes or publishes reports every half minute that it has no changes, so a longer
    silence is shown as the state `waiting`.
    """
    definition = link.definition
    now = datetime.now(UTC)
    confirmed = _seconds_since(link.currentat)
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
        progress=_progress(link, now),
        differing=link.differing,
        comparedat=link.comparedat,
        error=error,
    )


def _progress(link: Link, now: datetime) -> CompleteCopy | None:
    progress = link.traffic.progress(now) if link.state == "copying" else None
    if progress is None:
        return None
    seconds = None if progress.seconds is None else round(progress.seconds, 1)
    return CompleteCopy(copies=progress.copies, of=progress.expected, seconds=seconds)


def _seconds_since(time: datetime | None) -> float | None:
    return None if time is None else round((datetime.now(UTC) - time).total_seconds(), 1)
