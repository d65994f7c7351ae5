"""What needs a look: what is at fault, and what waits for an answer, each with a remedy. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, Literal, TypeVar

from catalog.model.linkterms import State
from catalog.model.masking import counted
from catalog.model.roles import Permission
from catalog.operations.access import AccessRequest, Token
from catalog.operations.authoritycards import Card
from catalog.operations.links import LinkAnswer
from catalog.operations.reconciliations import Reconciliation
from catalog.operations.subscriptions import State as SubscriptionState
from catalog.operations.subscriptions import SubscriptionAnswer

T = TypeVar("T")
Severity = Literal["fault", "warning", "note"]

SEVERITIES: Sequence[Severity | None] = ("fault", "warning", "note", None)
"""The worst one first; `None` is what needs no look."""
LATE_SECONDS = 60.0
"""A link that has not reached its source for so long has a source that is away or too slow."""
_OLD = timedelta(days=7)
_TOLD = timedelta(days=7)
_EXPIRES_SOON = timedelta(days=14)
_WORDS: dict[State, str] = {
    "new": "has not begun yet",
    "copying": "copies everything",
    "behind": "is catching up",
    "current": "is current",
    "waiting": "waits to try again",
    "unauthenticated": "has stopped: the other catalog does not accept the credential",
    "forbidden": "has stopped: the credential lacks a role at the other catalog",
    "refused": "has stopped: the other catalog refuses it",
    "asking": "asks before it deletes",
    "paused": "is paused",
}
_NAMES = {
    "activate": "Make active",
    "allow": "See and allow",
    "credential": "New credential",
    "grant": "See and grant",
    "redeliver": "Deliver again",
    "reset": "Compare anew",
    "resume": "Resume",
    "retry": "Try again now",
    "run": "Run now",
}
_SUBSCRIPTION_WORDS: dict[SubscriptionState, str] = {
    "pending": "waits until its sink agrees",
    "active": "delivers",
    "paused": "is paused",
    "suspended": "is suspended, and delivers nothing",
    "expired": "has expired",
    "ended": "has ended",
}
_STOPPED = frozenset({"unauthenticated", "forbidden", "refused", "asking"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """A thing that needs a look.

    Args:
        about: the name of the link, subscription or comparison.
        says: what is wrong, as the rest of a sentence about it.
        why: details, such as the last error; may be empty.
        time: a time of importance, if known, and its meaning, such as "last well"; the meaning is
            empty if the sentence says it.
        remedy: a command that helps, or shows more.
        page: the page of the console that shows more; empty if there is none.
        action: the action of the page that helps, as the last part of its path; empty if there is
            none.
        needs: the permission for the action.
    """

    severity: Severity
    about: str
    says: str
    remedy: str
    why: str = ""
    time: datetime | None = None
    time_is: str = ""
    page: str = ""
    action: str = ""
    needs: Permission = Permission.ADMINISTER

    @property
    def button(self) -> str:
        """The name of the action on a button."""
        return _NAMES[self.action]


def peer_of(link: LinkAnswer) -> str:
    """The other catalog of a link: the URL, or the authority of a link that accepts pushes."""
    return link.source or link.target or link.authority or link.id


def state_in_words(link: LinkAnswer) -> str:
    """The state of a link, as the rest of a sentence about the link."""
    if link.state == "waiting" and not link.failures:
        return "waits for its peer"
    return _WORDS[link.state]


def concern_of_link(link: LinkAnswer, cards: Mapping[str, Card] = {}) -> Concern | None:
    """The worst fault of a link; `None` if the link needs no look.

    Args:
        cards: the cards of the authorities that are to be named, by authority.
    """
    found = _fault_of_link(link)
    if found is None:
        return None
    severity, says, remedy, action = found
    card = cards.get(link.authority or "")
    time, time_is = link.currentat, "last well"
    if link.state == "asking":
        time = next((each.at for each in link.history if each.event == "asked"), None)
        time_is = "asked"
    elif severity == "fault" and time is None:
        says += ", and was not well since it was made or reset"
    return Concern(
        severity=severity,
        about=(card.name if card else "") or peer_of(link),
        says=says,
        why=link.error or link.reason or "",
        time=time,
        time_is=time_is,
        remedy=remedy,
        page=f"/console/federation/{link.id}",
        action=action,
    )


def _fault_of_link(link: LinkAnswer) -> tuple[Severity, str, str, str] | None:
    """The fault of a link with a command and an action that help."""
    id, says = link.id, state_in_words(link)
    run = f"concord link run {id}"
    if link.state == "asking" and link.question is not None:
        question = link.question
        says = f"asks whether it may delete {question.deletions:,} of {question.of:,} entities"
        return "fault", says, f"concord link allow {id} {question.digest}", "allow"
    if link.state == "unauthenticated":
        return "fault", says, f"concord link set {id} --help", "credential"
    if link.state in _STOPPED:
        return "fault", says, f"concord link show {id}", "run"
    if link.failures and link.state != "paused":
        return "fault", f"failed {counted(link.failures, 'times')} in a row", run, "run"
    if link.conflicts:
        says = f"could not apply {counted(link.conflicts, 'copies')}"
        return "warning", says, f"concord link show {id}", ""
    if link.lag is not None and link.lag > LATE_SECONDS and link.state != "paused":
        return "warning", f"{says}, and may lack later changes", run, "run"
    if link.differing:
        says = f"had {link.differing:,} differing entities when it was last compared"
        return "warning", says, f"concord link reset {id}", "reset"
    if link.state == "paused":
        return "note", says, f"concord link resume {id}", "resume"
    return None


def concern_of_subscription(subscription: SubscriptionAnswer) -> Concern | None:
    """The worst fault of a subscription; `None` if the subscription needs no look."""
    status, id = subscription.status, subscription.id
    dead = status.deadletters.dead + status.deadletters.waiting
    severity: Severity = "warning"
    action = ""
    if status.state in ("suspended", "ended"):
        says = "is suspended" if status.state == "suspended" else "has ended"
        severity, says = "fault", f"{says}, and delivers nothing"
        remedy, action = f"concord subscription show {id}", "activate"
    elif status.state == "expired":
        return None
    elif dead:
        says = f"has {counted(dead, 'dead letters')}"
        remedy, action = f"concord subscription deadletters list {id}", "redeliver"
    elif status.failures:
        says = f"failed {counted(status.failures, 'times')} in a row"
        remedy, action = f"concord subscription show {id} --attempts 20", "retry"
    elif status.lost is not None:
        says, remedy = "has lost changes", f"concord subscription show {id}"
    elif status.state == "paused":
        severity, says = "note", "is paused"
        remedy, action = f"concord subscription resume {id}", "resume"
    else:
        return None
    why = status.error or status.failedcause or status.reason or ""
    time_is = "the first" if status.failingsince else "the last"
    if severity == "fault":
        time_is += " failure"
    return Concern(
        severity=severity,
        about=subscription.sink,
        says=says,
        why=why,
        time=status.failingsince or status.failedat,
        time_is=time_is,
        remedy=remedy,
        page=f"/console/subscriptions/{id}",
        action=action,
        needs=Permission.SUBSCRIBE,
    )


def concern_of_token(token: Token, now: datetime) -> Concern | None:
    """A token of the node that expires soon; `None` with more time, or if it has expired."""
    if token.expiresat is None or not now < token.expiresat < now + _EXPIRES_SOON:
        return None
    return Concern(
        severity="warning",
        about=f"The token {token.name or token.id}",
        says="expires",
        time=token.expiresat,
        remedy="concord token add --help",
        page="/console/operation/access",
    )


def concern_of_credential(subscription: SubscriptionAnswer, now: datetime) -> Concern | None:
    """An access token for a sink that expires soon, and that nothing renews."""
    held = subscription.sinkcredential
    if held is None or held.credentialtype != "ACCESSTOKEN" or held.accesstokenexpiresutc is None:
        return None
    if not now < held.accesstokenexpiresutc < now + _EXPIRES_SOON:
        return None
    return Concern(
        severity="warning",
        about=subscription.sink,
        says="takes events with a token that expires",
        time=held.accesstokenexpiresutc,
        remedy=f"concord subscription show {subscription.id}",
        page=f"/console/subscriptions/{subscription.id}",
        action="credential",
        needs=Permission.SUBSCRIBE,
    )


def concern_of_comparisons(reports: Sequence[Reconciliation], now: datetime) -> Concern | None:
    """What the last comparison of catalogs shows; `None` without reports, or if all is well."""
    if not reports:
        return None
    last = max(reports, key=lambda each: each.endedat)
    about = f"The comparison of {', '.join(last.catalogs)}"
    if last.outcome == "failed":
        says, why, remedy = "failed", last.error or "", "concord reconcile history"
    elif last.outcome == "different":
        found = ", ".join(f"{number:,} {name}" for name, number in last.findings.items())
        says, why = "found differences", f"Here: {found}." if found else "At other catalogs."
        remedy = f"concord reconcile {'findings' if last.kept else 'history'}"
    elif now - last.endedat > _OLD:
        says, why, remedy = "is old", "", "concord reconcile --help"
    else:
        return None
    return Concern(
        severity="warning",
        about=about,
        says=says,
        why=why,
        time=last.endedat,
        remedy=remedy,
        page="/console/comparisons",
    )


def concern_of_request(request: AccessRequest, now: datetime) -> Concern | None:
    """A request for access that waits for the reader, or that was decided for the reader lately."""
    page = f"/console/access/requests/{request.id}"
    if request.state == "open" and request.isdecidable:
        return Concern(
            severity="warning",
            about=request.name or request.path,
            says=f"asks for the role {request.role} in {request.path}",
            why=request.reason,
            time=request.createdat,
            time_is="since",
            remedy=f"concord access decide {request.id} grant",
            page=page,
            action="grant",
            needs=Permission.GRANT,
        )
    if request.isown and request.decidedat is not None and now - request.decidedat < _TOLD:
        return Concern(
            severity="note",
            about=f"Your request for the role {request.role} in {request.path}",
            says=f"was {request.state}",
            why=request.note or "",
            time=request.decidedat,
            remedy="concord access list --requests open",
            page=page,
        )
    return None


def rank_of(concern: Concern | None) -> int:
    """The rank of a concern, 0 for the worst; what needs no look comes last."""
    return SEVERITIES.index(None if concern is None else concern.severity)


def worst_first(concerns: Iterable[Concern | None]) -> list[Concern]:
    """The concerns, the worst first."""
    return sorted((each for each in concerns if each is not None), key=rank_of)


@dataclass(frozen=True, slots=True)
class WatchedRow(Generic[T]):
    """A link or a subscription as a page lists it.

    Args:
        state: the state in words, as the rest of a sentence about it.
        concern: the worst fault.
    """

    about: T
    name: str
    state: str
    concern: Concern | None

    @property
    def says(self) -> str:
        """The state or the worst fault, as the rest of a sentence."""
        return self.state if self.concern is None else self.concern.says

    @property
    def severity(self) -> str:
        return "ok" if self.concern is None else self.concern.severity


def row_of_link(link: LinkAnswer) -> WatchedRow[LinkAnswer]:
    return WatchedRow(link, peer_of(link), state_in_words(link), concern_of_link(link))


def row_of_subscription(found: SubscriptionAnswer) -> WatchedRow[SubscriptionAnswer]:
    words = _SUBSCRIPTION_WORDS[found.status.state]
    return WatchedRow(found, found.sink, words, concern_of_subscription(found))
