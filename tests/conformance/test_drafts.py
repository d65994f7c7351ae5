"""A node passes the cases of the older drafts, which leave alone what else the node has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.conftest import own_node, run
from xregistry_conformance.cases import Case
from xregistry_conformance.harness import Server
from xregistry_conformance.profiles import belongs, entry_of
from xregistry_conformance.test_cases import CASES as CASES_OF_ALL

ROOTS = {"message-catalog": "", "discovery": "", "registry-0.4": "/registry/0.4"}
CASES = [(draft, case) for draft in ROOTS for case in CASES_OF_ALL if belongs(case, draft)]


@pytest.fixture(scope="module")
def node_url(postgres_url: str, template: str) -> Iterator[str]:
    """A node of its own, which keeps the default model."""
    with own_node(postgres_url, template) as url:
        yield url


@pytest.fixture(scope="module")
def servers(node_url: str) -> dict[str, Server]:
    """The server of each draft, with a group that is not theirs."""
    Server(node_url).request("PUT", "/schemagroups/kept", body=b"{}")
    return {draft: Server(node_url + root, entry=entry_of(draft)) for draft, root in ROOTS.items()}


@pytest.mark.parametrize(("draft", "case"), CASES, ids=[case.id for _, case in CASES])
def test_a_node_passes_a_case(servers: dict[str, Server], draft: str, case: Case) -> None:
    servers[draft].prepare(case)
    servers[draft].run(case)
    assert servers["discovery"].request("GET", "/schemagroups/kept").status == 200


def test_each_draft_has_cases() -> None:
    assert {draft for draft, _ in CASES} == {*ROOTS}


def test_the_command_runs_a_draft_without_wiping(installed: Path, node_url: str) -> None:
    done = run(installed, f"{node_url}/registry/0.4", "--profile", "registry-0.4")
    assert done.returncode == 0, done.stdout
    assert "drafts/registry-0.4, Groups" in done.stdout
