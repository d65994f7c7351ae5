"""The rate of a link, the rest of its copy, its errors by class and the advice of conflicts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from catalog.client import BadAnswer, ClientError, CursorExpired, Refused, Unreachable
from catalog.client.errors import Problem
from catalog.model.linkterms import LinkTraffic, Mode
from catalog.operations.feed import Verdict
from catalog.operations.links import CompleteCopy
from catalog.settings.limits import Limits
from catalog.store.links import Link, LinkDefinition
from replication.deciding.decide import CONFLICTS
from replication.links.linkanswers import advice_about, progress_of
from replication.peers.linkbounds import too_many_copies
from replication.peers.linkerrors import class_of

BEGUN = datetime(2030, 1, 1, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return BEGUN + timedelta(seconds=seconds)


def refused(status: int) -> Refused:
    return Refused(Problem.read(status, b"", ""))


@pytest.mark.parametrize(
    ("seconds", "rate"), [(0, 1.0), (30, 10.5), (60, 20.0), (90, 10.0), (120, 0.0), (9999, 0.0)]
)
def test_the_rate_is_that_of_the_last_minute(seconds: float, rate: float) -> None:
    """60 copies came in the minute before, and 1200 by the end of this one."""
    so_far = min(1.0, seconds / 60) * 1200
    traffic = LinkTraffic(minuteat=BEGUN, minutecopies=round(so_far), earliercopies=60)
    assert traffic.rate(after(seconds)) == pytest.approx(rate)
    assert LinkTraffic().rate(after(seconds)) == 0


def test_the_rest_of_a_copy_takes_as_long_as_its_beginning() -> None:
    quarter = LinkTraffic(copyat=BEGUN, copied=250, copyof=1000)
    assert progress_of(quarter, after(10)) == CompleteCopy(copies=250, of=1000, seconds=30)
    # Deletions come besides the entities that the source has counted.
    more = LinkTraffic(copyat=BEGUN, copied=1200, copyof=1000)
    assert progress_of(more, after(10)) == CompleteCopy(copies=1200, of=1200, seconds=0)
    unknown = LinkTraffic(copyat=BEGUN, copied=250)
    assert progress_of(unknown, after(10)) == CompleteCopy(copies=250, of=None, seconds=None)
    assert progress_of(LinkTraffic(), after(10)) is None


def test_errors_are_told_apart_by_whose_fault_they_are() -> None:
    found = [
        class_of(error)
        for error in (
            Unreachable("", is_doubtful=True),
            refused(429),
            refused(400),
            refused(401),
            refused(403),
            refused(502),
            CursorExpired(Problem.read(410, b"", "")),
            too_many_copies(Limits(), "It sends"),
            BadAnswer("http://it", "nothing"),
            ClientError("It is another authority."),
            KeyError("a bug"),
        )
    ]
    assert found == [
        *("unreachable", "too_many", "refused", "unauthenticated", "forbidden", "faulty"),
        *("expired", "too_much", "unusable", "unusable", "internal"),
    ]


def test_each_conflict_has_a_advice() -> None:
    for verdict in CONFLICTS | {Verdict.REFUSED}:
        for mode in get_args(Mode):
            link = Link(id="eu", definition=LinkDefinition(mode=mode), authority=None)
            assert advice_about(verdict.value, link, "/messagegroups/g/messages/m").endswith(".")
    link = Link(id="eu", definition=LinkDefinition(), authority=None)
    assert "--prefix" in advice_about("collided", link, "/messagegroups/g")
    assert "concord link reset eu" in advice_about("diverged", link, "")
    assert advice_about("what a later version says", link, "") == ""
