"""Checks of a node's public URL and of the catalogs that its links lead to; `GET /-/doctor`."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson
from aiohttp import web

from catalog.client import CredentialUnusable
from catalog.context import CONTEXT
from catalog.http.outboundconnections import open_session, probe_endpoint
from catalog.http.route import Route
from catalog.keys.keyring import SecretUnreadable
from catalog.model.concorderrors import TooManyAtOnce
from catalog.model.connectionfailure import why_unreachable
from catalog.model.digest import DIGEST_VERSION
from catalog.model.masking import counted, described
from catalog.monitoring.diagnosis import Check, CheckedNode, Diagnosis, Level, examine
from catalog.monitoring.nodechecks import DATABASE_CHECKS, MACHINE_CHECKS, SINK_CHECKS, expiry
from catalog.operations.nodestate import EXAMINE_NODE, CheckResult, Examination, ExaminationQuery
from catalog.settings.keyfile import key_ring
from catalog.store import links as stored_links
from catalog.store.links import Link
from catalog.store.monitoring import read_node
from replication.peers.handshake import BETWEEN_NODES
from replication.peers.linkerrors import another_credential
from replication.peers.peeraccess import PeerAccess
from replication.store.linkstates import credential_of
from replication.store.loghistory import read_incarnations

_SECONDS = 10.0
_LARGEST = 1024 * 1024
_MOST_LINKS = 200
_AT_A_TIME = 10
# The header Date has whole seconds.
_MOST_SKEW_SECONDS = 5.0
_REFUSED = (401, 403)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OwnIdentity:
    """The instance of the checked node, and the starts that its database has noted."""

    instance: str
    incarnations: frozenset[str]

    def describe(self, answer: _Answer) -> str:
        """The answering server, if it is this node or a copy of the database; "" for another."""
        if answer.member("instance") != self.instance:
            return ""
        # A copy of the database notes a start in the copy, not in the original.
        started = answer.member("incarnation")
        is_this = not started or started in self.incarnations
        return "this node" if is_this else "a copy of this node's database"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """The answer of a server at a URL, and the skew of its clock in seconds."""

    status: int
    body: Any
    skew: float | None

    def member(self, name: str) -> str:
        """A text in the body; "" if the member is missing."""
        return str(self.body.get(name, "")) if isinstance(self.body, dict) else ""


async def check_public_url(checked: CheckedNode) -> Sequence[Diagnosis]:
    """Whether the checked node itself answers at its public URL."""
    url = checked.settings.public_url
    if url is None:
        return []
    try:
        # The operator has configured the URL, so a private address is allowed.
        settings = checked.settings.model_copy(update={"allow_private_addresses": True})
        async with open_session(settings, total_seconds=_SECONDS) as session:
            token = checked.token_for(url)
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            answer = await _get(session, f"{url}/replication", headers)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        text = f"it {why_unreachable(error)} ({described(error)})"
        advice = "Start the node; see DNS, the proxy, the firewall and the certificate."
        return [Diagnosis(subject=url, level="error", text=text, advice=advice)]
    return [*_clock_of(url, answer), _identity(url, answer, await _read_identity(checked))]


async def _read_identity(checked: CheckedNode) -> _OwnIdentity:
    """Read the identity of the node after an answer, when the database has noted the last start."""
    async with checked.database() as connection:
        node = await read_node(connection)
        started = await read_incarnations(connection)
    instance = "" if node is None else str(node["instance"])
    return _OwnIdentity(instance=instance, incarnations=frozenset(map(str, started)))


def _identity(url: str, answer: _Answer, own: _OwnIdentity) -> Diagnosis:
    if answer.status in _REFUSED:
        text = "a server answers there, which tells nobody without a token who it is"
        advice = "Give it one: CONCORD_TOKEN, of the role reader."
        return Diagnosis(subject=url, level="warning", text=text, advice=advice)
    who = own.describe(answer)
    if who == "this node":
        return Diagnosis(subject=url, level="ok", text="this node answers there")
    said = answer.member("instance")[:64] or "unknown"
    text = f"{who or 'something else'} answers there ({answer.status}, instance {said})"
    advice = "Let CONCORD_PUBLIC_URL, DNS and the proxy lead to this node and its database."
    return Diagnosis(subject=url, level="error", text=text, advice=advice)


async def check_peers(checked: CheckedNode) -> Sequence[Diagnosis]:
    """Whether the catalogs of links can be reached, accept their tokens, and agree on the time."""
    async with checked.database() as connection:
        found = await stored_links.page(connection, "", _MOST_LINKS)
    turns = asyncio.Semaphore(_AT_A_TIME)
    async with open_session(checked.settings, total_seconds=_SECONDS) as session:
        asked = await asyncio.gather(
            *(_ask(checked, session, link, turns) for link in found if link.definition.peer)
        )
    return [each for found in asked for each in found]


async def _ask(
    checked: CheckedNode, session: aiohttp.ClientSession, link: Link, turns: asyncio.Semaphore
) -> list[Diagnosis]:
    subject, url = f"link {link.id}", link.definition.peer
    if link.definition.terms.is_topic:
        return [*_state_of(link)]
    path = "/replication" if link.definition.mode in BETWEEN_NODES else ""
    try:
        async with turns:
            credential = credential_of(link, key_ring(checked.settings))
            access = PeerAccess(credential, checked.settings, link=link.id)
            answer = await _get(session, f"{url}{path}", await access.headers(), access.tls)
            end, parts = None, urlsplit(url)
            if parts.scheme == "https":
                host, port = parts.hostname or "", parts.port or 443
                end = await probe_endpoint(host, port, checked.settings, is_tls=True)
    except CredentialUnusable as error:
        return [Diagnosis(subject=subject, level="error", text=error.message, advice=error.hint)]
    except SecretUnreadable as error:
        text = f"its credential cannot be read: {error.reason}"
        advice = f"Give it another one: {another_credential(link.id)}."
        return [Diagnosis(subject=subject, level="error", text=text, advice=advice)]
    except (aiohttp.ClientError, OSError, ValueError) as error:
        text = f"{url} {why_unreachable(error)} ({described(error)})"
        advice = "See its name, its port, its certificate and the firewalls on the way."
        return [Diagnosis(subject=subject, level="error", text=text, advice=advice)]
    own = await _read_identity(checked)
    diagnoses = [*_state_of(link), *_clock_of(subject, answer), *_faults_of(link, answer, own)]
    if end is not None:
        diagnoses.append(expiry(subject, end, f"Whoever runs {url} renews it."))
    if all(each.level == "ok" for each in diagnoses):
        return [Diagnosis(subject=subject, level="ok", text=f"{url} answers")]
    return [each for each in diagnoses if each.level != "ok"]


def _faults_of(link: Link, answer: _Answer, own: _OwnIdentity) -> Iterator[Diagnosis]:
    def fault(text: str, advice: str, level: Level = "error") -> Diagnosis:
        return Diagnosis(subject=f"link {link.id}", level=level, text=text, advice=advice)

    url = link.definition.peer
    if answer.status in _REFUSED:
        kind = "the credential of the link" if link.sealed is not None else "all without one"
        advice = f"Have one made there, and show it: {another_credential(link.id)}."
        yield fault(f"{url} refuses {kind} ({answer.status})", advice)
    elif answer.status >= 400:
        yield fault(f"{url} answers {answer.status}", "See what is wrong there.")
    elif link.definition.mode in BETWEEN_NODES and isinstance(answer.body, dict):
        known, said = link.instance, answer.member("instance")
        if who := own.describe(answer):
            advice = f"Name the other catalog: `concord link set {link.id} --source URL`."
            yield fault(f"{who} answers there: {url}", advice)
        elif known is not None and said != str(known):
            text = f"another node answers there: {url} is {said[:64]}, it was {known}"
            advice = "If it was not restored from a backup, see DNS, the proxy and the other node."
            yield fault(text, advice, "warning")
        if answer.body.get("digestversion") != DIGEST_VERSION:
            yield fault(f"{url} computes other digests", "Bring both to one version of Concord.")
        authority = answer.body.get("authority")
        if link.authority is not None and authority != link.authority:
            text = f"{url} is the authority {str(authority)[:200]}, not {link.authority}"
            yield fault(text, f"See whether that is right: `concord link show {link.id}`.")


def _state_of(link: Link) -> Iterator[Diagnosis]:
    if link.state in ("refused", "asking") or link.conflicts:
        text = f"it is {link.state}, with {counted(link.conflicts, 'conflicts')}"
        advice = f"`concord link show {link.id}` tells which, and why."
        yield Diagnosis(subject=f"link {link.id}", level="warning", text=text, advice=advice)


def _clock_of(subject: str, answer: _Answer) -> Iterator[Diagnosis]:
    if answer.skew is not None and abs(answer.skew) > _MOST_SKEW_SECONDS:
        text = f"its clock differs from this one by {answer.skew:.0f} seconds"
        advice = "Synchronise both with NTP (chrony, systemd-timesyncd)."
        yield Diagnosis(subject=subject, level="warning", text=text, advice=advice)


async def _get(
    session: aiohttp.ClientSession,
    url: str,
    headers: Mapping[str, str],
    tls: ssl.SSLContext | bool = True,
) -> _Answer:
    began = time.time()
    async with session.get(url, headers=headers, ssl=tls) as response:
        ended = time.time()
        skew = _skew(response.headers.get("Date"), began, ended)
        text, body = await response.content.read(_LARGEST), None
        with contextlib.suppress(orjson.JSONDecodeError):
            body = orjson.loads(text)
        return _Answer(status=response.status, body=body, skew=skew)


def _skew(date: str | None, began: float, ended: float) -> float | None:
    """The seconds by which the clock of a server is ahead, as far as its header Date shows."""
    if date is None:
        return None
    try:
        there = parsedate_to_datetime(date)
    except ValueError:
        return None
    seconds = (there if there.tzinfo else there.replace(tzinfo=UTC)).timestamp()
    # Date drops the fraction of the second, so an exact clock may seem up to one second slow.
    if began - 1 <= seconds <= ended:
        return 0.0
    return seconds - (ended if seconds > ended else began)


PEER_CHECKS: Sequence[Check] = (check_public_url, check_peers)


class _Turn(asyncio.Lock):
    """The turn of one examination in a process: the checks open connections of their own."""


async def examine_node(request: web.Request, query: ExaminationQuery) -> Examination:
    """Check the node for common problems; nothing outside of it is asked without being wanted."""
    context = request[CONTEXT]
    database = context.database.shared
    outside = [*PEER_CHECKS, *SINK_CHECKS] if query.outside else []
    turn = database.part(_Turn, _Turn)
    if turn.locked():
        raise TooManyAtOnce(
            request.path, limit="1", things="examinations of the node", setting="fixed"
        )
    async with turn:
        # A node has no token of a user; links show their own credentials.
        node = CheckedNode(context.settings, database.dsn, lambda _: None)
        found = await examine(node, [*DATABASE_CHECKS, *MACHINE_CHECKS, *outside])
    return Examination(checks=[CheckResult(**asdict(each)) for each in found])


routes: Sequence[Route] = (Route(EXAMINE_NODE, examine_node),)
