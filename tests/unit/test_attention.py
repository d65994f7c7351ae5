"""What needs a look is told with the worst first, and with a command that exists."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from typer.main import get_command

from catalog.cli import app
from catalog.console import routes
from catalog.console.attention import (
    Concern,
    concern_of_comparisons,
    concern_of_credential,
    concern_of_link,
    concern_of_request,
    concern_of_subscription,
    concern_of_token,
    worst_first,
)
from catalog.model.credentials import CredentialType
from catalog.operations.access import AccessRequest, Token
from catalog.operations.authoritycards import Card
from catalog.operations.links import LinkAnswer, LinkEvent, LinkQuestion
from catalog.operations.reconciliations import Reconciliation
from catalog.operations.subscriptions import SinkCredentialAnswer, SubscriptionAnswer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SOON = NOW + timedelta(days=1)
QUESTION = LinkQuestion(deletions=40, of=100, digest="3f2a", first=[])


def link(**members: Any) -> LinkAnswer:
    known: dict[str, Any] = {
        **{"id": "eu", "source": "http://eu", "direction": "in", "mode": "events"},
        **{"authorities": [], "scope": [], "types": [], "labels": [], "prefix": "", "map": {}},
        **{"addresses": {}, "trust": [], "state": "current", "applied": 1, "rate": 0.0},
        **{"bytes": 1, "conflicts": 0, "failures": 0, "errors": {}, "history": [], "lag": 0.0},
    }
    return LinkAnswer(**{**known, **members})


def subscription(**status: Any) -> SubscriptionAnswer:
    known: dict[str, Any] = {
        **{"state": "active", "createdat": NOW, "failures": 0, "delivered": 1, "failed": 0},
        **{"failedattempts": 0, "lag": 0, "lagseconds": 0.0, "deadletters": {}},
    }
    return SubscriptionAnswer(
        id="s1",
        sink="https://sink.example",
        protocol="HTTP",
        protocolsettings={},
        status={**known, **status},
    )


def with_token(kind: CredentialType, until: datetime | None) -> SubscriptionAnswer:
    held = SinkCredentialAnswer(credentialtype=kind, accesstokenexpiresutc=until)
    return subscription().model_copy(update={"sinkcredential": held})


def report(*, age: timedelta = timedelta(), **members: Any) -> Reconciliation:
    known: dict[str, Any] = {"outcome": "equal", "name": "eu", "catalogs": ["eu", "us"]}
    ended = NOW - age
    return Reconciliation(
        run=uuid4(), startedat=ended, endedat=ended, at=ended, **{**known, **members}
    )


@pytest.mark.parametrize(
    ("found", "severity", "says", "remedy"),
    [
        (
            link(state="asking", question=QUESTION),
            "fault",
            "asks whether it may delete 40 of 100 entities",
            "concord link allow eu 3f2a",
        ),
        (link(state="forbidden"), "fault", "lacks a role", "concord link show eu"),
        (link(state="waiting", failures=3), "fault", "failed 3 times", "concord link run eu"),
        (link(conflicts=1), "warning", "could not apply 1 copy", "concord link show eu"),
        (link(state="behind", lag=90.0), "warning", "catching up", "concord link run eu"),
        (link(differing=2), "warning", "2 differing entities", "concord link reset eu"),
        (link(state="paused", lag=900.0), "note", "is paused", "concord link resume eu"),
    ],
)
def test_a_link_at_fault_needs_a_look(
    found: LinkAnswer, severity: str, says: str, remedy: str
) -> None:
    concern = concern_of_link(found)
    assert concern is not None
    assert (concern.severity, concern.remedy) == (severity, remedy)
    assert says in concern.says
    assert concern.page == "/console/federation/eu"


@pytest.mark.parametrize(
    ("found", "severity", "remedy"),
    [
        (subscription(state="suspended"), "fault", "concord subscription show s1"),
        (
            subscription(state="ended", deadletters={"dead": 2}),
            "fault",
            "concord subscription show s1",
        ),
        (
            subscription(deadletters={"dead": 2}, failures=1),
            "warning",
            "concord subscription deadletters list s1",
        ),
        (subscription(failures=1), "warning", "concord subscription show s1 --attempts 20"),
        (subscription(state="paused"), "note", "concord subscription resume s1"),
    ],
)
def test_a_subscription_at_fault_needs_a_look(
    found: SubscriptionAnswer, severity: str, remedy: str
) -> None:
    concern = concern_of_subscription(found)
    assert concern is not None
    assert (concern.severity, concern.remedy) == (severity, remedy)


def test_a_link_is_told_by_the_name_of_its_peer_and_since_when_it_is_at_fault() -> None:
    faulty = link(state="waiting", failures=1, authority="urn:eu", currentat=NOW)
    told = concern_of_link(faulty, {"urn:eu": Card(name="Team Europe")})
    assert told is not None
    assert (told.about, told.time, told.time_is) == ("Team Europe", NOW, "last well")
    nameless = concern_of_link(faulty.model_copy(update={"currentat": None}), {"urn:eu": Card()})
    assert nameless is not None
    assert (nameless.about, "was not well since" in nameless.says) == ("http://eu", True)
    asked = LinkEvent(at=SOON, event="asked", detail="")
    asks = concern_of_link(link(state="asking", question=QUESTION, history=[asked]))
    assert asks is not None
    assert (asks.time, asks.time_is) == (SOON, "asked")


def test_only_the_last_comparison_counts() -> None:
    different = report(age=timedelta(days=1), outcome="different", findings={"stale": 2})
    concern = concern_of_comparisons([report(age=timedelta(days=2)), different], NOW)
    assert concern is not None
    assert (concern.says, concern.why) == ("found differences", "Here: 2 stale.")
    assert concern_of_comparisons([different, report()], NOW) is None
    old = concern_of_comparisons([report(age=timedelta(days=8))], NOW)
    assert old is not None
    assert old.says == "is old"


def test_what_is_well_needs_no_look() -> None:
    assert concern_of_link(link()) is None
    assert concern_of_subscription(subscription()) is None
    assert concern_of_subscription(subscription(state="expired", deadletters={"dead": 1})) is None
    assert concern_of_comparisons([], NOW) is None


def request(**members: Any) -> AccessRequest:
    known: dict[str, Any] = {
        **{"id": "r1", "role": "writer", "path": "/messagegroups/g", "reason": "why"},
        **{"state": "open", "createdat": NOW, "isown": False, "isdecidable": True, "name": "Bo"},
    }
    return AccessRequest(**{**known, **members})


def test_a_request_needs_a_look_of_who_decides_and_its_outcome_of_who_asked_for_a_week() -> None:
    waiting = concern_of_request(request(), NOW)
    assert waiting is not None
    assert (waiting.severity, waiting.about, waiting.why) == ("warning", "Bo", "why")
    mine = {"isown": True, "isdecidable": False}
    assert concern_of_request(request(**mine), NOW) is None
    decided = request(**mine, state="declined", decidedat=NOW, note="no")
    told = concern_of_request(decided, NOW + timedelta(days=6))
    assert told is not None
    assert (told.severity, told.says, told.why) == ("note", "was declined", "no")
    assert concern_of_request(decided, NOW + timedelta(days=8)) is None
    # Who decided knows.
    assert concern_of_request(request(state="granted", decidedat=NOW), NOW) is None


@pytest.mark.parametrize(
    ("days", "is_told"), [(None, False), (-1, False), (1, True), (13, True), (15, False)]
)
def test_a_credential_that_expires_within_two_weeks_needs_a_look(
    days: int | None, is_told: bool
) -> None:
    until = None if days is None else NOW + timedelta(days=days)
    token = Token(id="t1", name="ci", grants=[], createdat=NOW, expiresat=until)
    assert (concern_of_token(token, NOW) is not None) == is_told
    kinds: list[tuple[CredentialType, bool]] = [("ACCESSTOKEN", is_told), ("REFRESHTOKEN", False)]
    for kind, has_concern in kinds:
        assert (concern_of_credential(with_token(kind, until), NOW) is not None) == has_concern


def test_the_worst_is_told_first() -> None:
    concerns = worst_first(
        [
            concern_of_link(link(state="paused")),
            None,
            concern_of_link(link(conflicts=1)),
            concern_of_subscription(subscription(state="suspended")),
        ]
    )
    assert [each.severity for each in concerns] == ["fault", "warning", "note"]


def test_each_remedy_is_a_command_and_an_action_of_this_program() -> None:
    concerns: list[Concern | None] = [
        concern_of_link(link(state="asking", question=QUESTION)),
        concern_of_link(link(state="unauthenticated")),
        concern_of_link(link(state="refused")),
        concern_of_link(link(state="waiting", failures=1)),
        concern_of_link(link(differing=1)),
        concern_of_link(link(state="paused")),
        concern_of_subscription(subscription(state="suspended")),
        concern_of_subscription(subscription(deadletters={"dead": 1})),
        concern_of_subscription(subscription(failures=1)),
        concern_of_subscription(subscription(state="paused")),
        concern_of_comparisons([report(outcome="failed")], NOW),
        concern_of_comparisons([report(outcome="different", kept=1)], NOW),
        concern_of_comparisons([report(age=timedelta(days=8))], NOW),
        concern_of_request(request(), NOW),
        concern_of_token(Token(id="t", name="", grants=[], createdat=NOW, expiresat=SOON), NOW),
        concern_of_credential(with_token("ACCESSTOKEN", SOON), NOW),
    ]
    forms = {each.operation.path for each in routes if each.operation.method == "POST"}
    for concern in worst_first(concerns):
        if concern.action:
            page = (
                concern.page.replace("/eu", "/{id}").replace("/s1", "/{id}").replace("/r1", "/{id}")
            )
            assert f"{page}/{concern.action}" in forms
            assert concern.button
        command: Any = get_command(app)
        for word in concern.remedy.split()[1:]:
            if not hasattr(command, "commands"):
                break
            if word.startswith("-"):
                break
            command = command.commands[word]
