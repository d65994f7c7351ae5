"""The server does what each case says."""

from __future__ import annotations

import pytest

from xregistry_conformance.cases import Case, read_cases
from xregistry_conformance.harness import Server
from xregistry_conformance.profiles import READ_ONLY

CASES = read_cases()


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_conformance(case: Case, server: Server, request: pytest.FixtureRequest) -> None:
    if lack := server.lacks(case):
        pytest.skip(f"the server lacks {lack}")
    if request.config.getoption("--xregistry-profile", default="all") != READ_ONLY:
        server.prepare(case)
    server.run(case, request.getfixturevalue("receiver") if case.receives else None)
