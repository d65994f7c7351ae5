"""A node answers thousands of odd requests without an error of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.nodes import node_at, running
from tests.fuzz.nodefuzz import fuzz

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("hostile")]

SEED = 1
REQUESTS = 4000


async def test_no_request_meets_an_error_of_the_server(tmp_path: Path, database_url: str) -> None:
    node = node_at(tmp_path, CONCORD_DATABASE_URL=database_url)
    async with running(node):
        result = await fuzz(node, iter(range(REQUESTS)), SEED)
    assert not result.failures, "\n\n".join(result.failures)
    assert sum(result.statuses.values()) > REQUESTS * 0.9
    # The requests reach the handlers, and build something.
    assert result.statuses[201] > REQUESTS * 0.02
    assert result.statuses[200] > REQUESTS * 0.1
    assert len(result.done) > 150, "of about 300 operations, so many do something"
    # What takes several steps is reached, too: a subscription, a delivery that failed, its letters.
    for part in ("PUT /subscriptions/{id}", "POST /subscriptions/{id}/test", "/deadletters"):
        assert any(part in route for route in result.done), part
