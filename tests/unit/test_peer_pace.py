"""The pace of requests to a peer that takes only so many."""

from __future__ import annotations

from itertools import pairwise

import pytest

from replication.peers.linkbounds import PeerHosts, PeerPace


class Peer:
    """A peer that refuses what is more than `rate` requests in a second, and a link that asks it
    as often as the pace lets it, for some seconds."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.now = self._allowed_at = 0.0
        self.pace = PeerPace("hub.example", clock=lambda: self.now)
        self.answered: list[float] = []
        self.refused: list[float] = []

    def ask_for(self, seconds: float, *, request_takes: float = 0.001) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += self.pace.delay()
            sent = self.now
            self.pace.spend()
            self.now += request_takes
            if sent < self._allowed_at:
                self.refused.append(sent)
                self.pace.slow(sent, pause=0.0)
            else:
                self._allowed_at = max(self._allowed_at, sent - 1) + 1 / self.rate
                self.answered.append(sent)
                self.pace.answered()


@pytest.mark.parametrize("rate", [2, 20, 200])
def test_a_link_settles_under_the_rate_of_its_peer(rate: float) -> None:
    peer = Peer(rate)
    peer.ask_for(60)
    settled = len(peer.answered), len(peer.refused)
    peer.ask_for(300)
    answered, refused = len(peer.answered) - settled[0], len(peer.refused) - settled[1]
    assert answered >= 0.5 * rate * 300
    assert refused <= 0.03 * answered + 20


def test_nothing_slows_down_requests_that_are_taken() -> None:
    peer = Peer(1e9)
    peer.ask_for(1)
    assert len(peer.answered) == pytest.approx(1000, rel=0.01)
    assert not peer.pace.is_limited


def test_requests_of_one_burst_halve_the_rate_once_and_the_pause_holds_for_all() -> None:
    now = [0.0]
    pace = PeerPace("hub.example", clock=lambda: now[0])
    for number in range(40):
        now[0] = number / 1000
        pace.spend()
    now[0] = 0.05
    for number in range(40):
        pace.slow(number / 1000, pause=3.0)
    assert pace.per_second == 20
    assert pace.delay() == pytest.approx(3.0)
    now[0] = 4.1
    pace.slow(4.0, pause=0.0)
    assert pace.per_second == 10


def test_a_rate_grows_additively_until_there_is_no_limit() -> None:
    peer = Peer(1e9)
    for number in range(16):
        peer.now = number / 1000
        peer.pace.spend()
    peer.now = 0.02
    peer.pace.slow(0.02, pause=0.0)
    rates = []
    while peer.pace.is_limited:
        rates.append(peer.pace.per_second)
        peer.ask_for(5)
    assert rates[0] == 8
    steps = [after - before for before, after in pairwise(rates)]
    assert max(steps) < 1.5 * min(steps)
    assert peer.now == pytest.approx(60, rel=0.2)


def test_links_to_one_host_share_its_pace() -> None:
    hosts = PeerHosts()
    one = hosts.pace_of("http://hub.example:8080/a")
    assert hosts.pace_of("http://HUB.example:8080/b") is one
    assert hosts.pace_of("http://hub.example:8081/a") is not one
