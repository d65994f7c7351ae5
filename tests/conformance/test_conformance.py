"""The server does what each case says."""

from __future__ import annotations

import pytest

from tests.conformance.cases import LEVELS, Case, read_cases
from tests.conformance.harness import Server

CASES = read_cases()


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_conformance(case: Case, server: Server, request: pytest.FixtureRequest) -> None:
    weakest = request.config.getoption("--level", default=None) or "MAY"
    if LEVELS.index(case.level) > LEVELS.index(weakest):
        pytest.skip(f"it is a {case.level}")
    if lack := server.lacks(case):
        pytest.skip(f"the server lacks {lack}")
    server.prepare(case)
    server.run(case)
