"""Plots and maps stay within their boxes, and show each value, gap, region and stream."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from catalog.console.flows import NOWHERE, Flow, draw_map, flows_in
from catalog.console.linkpage import Plot, Point, plot
from catalog.operations.federation import FederatedCatalog, SharedLink
from catalog.operations.followers import Follower

END = datetime(2026, 1, 2, tzinfo=UTC)
DAY, GAP = timedelta(days=1), timedelta(minutes=3)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def drawn(*values: float | None) -> Plot:
    """A plot of a value a minute, up to the end."""
    points = [
        Point(at=END - timedelta(minutes=len(values) - number), value=value)
        for number, value in enumerate(values)
    ]
    return plot("Lag", points, lambda value: f"{value:g} s", end=END, span=DAY, gap=GAP)


@given(st.lists(st.none() | st.floats(min_value=0, max_value=1e9), max_size=50))
def test_a_line_stays_within_its_box(values: list[float | None]) -> None:
    shown = drawn(*values)
    for pair in re.findall(r"(-?[\d.]+),(-?[\d.]+)", shown.line):
        x, y = map(float, pair)
        assert 0 <= x <= 1000
        assert 0 <= y <= 100
    assert shown.has_values == any(values)
    assert shown.line.count("M") == shown.area.count("Z")


def test_a_line_is_broken_where_nothing_is_known() -> None:
    assert drawn(1, 2, None, 3).line.count("M") == 2
    apart = [Point(at=END - timedelta(minutes=minutes), value=1.0) for minutes in (20, 19, 5)]
    shown = plot("Lag", apart, str, end=END, span=DAY, gap=GAP)
    assert shown.line.count("M") == 2
    assert drawn(5, 3).text == "Lag: at most 5 s, at the end 3 s"
    assert drawn(5, None).now == "unknown"
    assert drawn().line == ""


def catalog(authority: str, *links: SharedLink, isown: bool = False) -> FederatedCatalog:
    return FederatedCatalog(authority=authority, isown=isown, links=[*links])


def follows(authority: str, **state: object) -> SharedLink:
    told = {"direction": "in", "mode": "pull", "state": "current", "lag": 0.0, **state}
    return SharedLink.model_validate({"authority": authority, **told})


def test_a_catalogs_own_word_about_what_it_follows_comes_first() -> None:
    catalogs = [
        catalog("urn:us", follows("urn:eu", direction="out", lag=30.0), isown=True),
        catalog("urn:eu", follows("urn:us", state="behind", lag=90.0)),
    ]
    followers = [Follower(authority="urn:eu", lag=5.0), Follower(authority="urn:ap", lag=5.0)]
    [reported, told] = sorted(flows_in(catalogs, followers), key=lambda flow: flow.target)
    assert (told.source, told.target, told.severity) == ("urn:us", "urn:eu", "warning")
    assert (told.says, told.teller) == ("2 min behind", "urn:eu")
    assert (reported.target, reported.says, reported.severity) == ("urn:ap", "5 s behind", None)


def test_faults_are_told_in_a_few_words() -> None:
    states = [
        follows("urn:a", state="waiting", failures=3),
        follows("urn:b", state="asking"),
        follows("urn:c", state="paused", failures=3),
        follows("urn:d", conflicts=1),
        follows("urn:e", state="new", lag=None),
    ]
    found = flows_in([catalog("urn:own", *states, isown=True)])
    assert [(flow.severity, flow.says) for flow in found] == [
        ("fault", "fails"),
        ("fault", "asks"),
        ("note", "paused"),
        ("warning", "1 conflict"),
        ("note", "not begun"),
    ]


@given(st.lists(st.sampled_from("abcdefghijklmnopqrstu") | st.just(""), max_size=40))
def test_a_map_places_each_region_apart_within_its_box(regions: list[str]) -> None:
    places = {f"urn:{number}": region for number, region in enumerate(regions)}
    names = {authority: authority for authority in places}
    flows = [
        Flow(source=one, target=other, severity=None, says="", lag=0.0, teller=one)
        for one, other in zip(places, [*places][1:], strict=False)
    ]
    shown = draw_map(places, names, flows)
    distinct = {region or NOWHERE for region in regions}
    assert len(shown.regions) + shown.more == len(distinct)
    assert sum(len(region.catalogs) for region in shown.regions) <= len(places)
    for region in shown.regions:
        assert 0 <= region.left <= shown.width - shown.box_width
        assert 0 <= region.top <= shown.height - shown.box_height
    assert len({(region.x, region.y) for region in shown.regions}) == len(shown.regions)
    assert all(stream.source != stream.target for stream in shown.streams)
    assert all(NUMBER.search(stream.path) for stream in shown.streams)
