"""What commands about links print: the outcomes of a dry run, and how far a copy is."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.model.linkterms import State
from catalog.operations.links import CompleteCopy, DryRunAnswer, LinkAnswer
from replication.commands.links import _state_of, print_dry_run

COLLIDED = [
    {"xid": xid, "origin": xid, "authority": "urn:a", "epoch": 1}
    for xid in (f"/messagegroups/g{number}" for number in range(20))
]


def found(**more: Any) -> DryRunAnswer:
    outcomes = {"collided": {"number": 51, "first": COLLIDED}}
    whole = {
        "isdecided": True,
        "rows": 2020,
        "differing": 51,
        "outcomes": outcomes,
        "question": None,
    }
    return DryRunAnswer.model_validate({**whole, **more})


def link(state: State, progress: CompleteCopy | None = None) -> LinkAnswer:
    return LinkAnswer.model_construct(state=state, progress=progress)


def test_a_dry_run_is_told_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_dry_run(found(), as_json=False)
    said = capsys.readouterr().out
    assert "51 of 2,020 entities and deletions differ" in said
    assert "/messagegroups/g0, /messagegroups/g1" in said
    assert "stop" not in said
    question = {"deletions": 202, "of": 2020, "digest": "d", "first": []}
    print_dry_run(found(question=question), as_json=False)
    assert "ask before it deletes 202 entities" in capsys.readouterr().out
    print_dry_run(DryRunAnswer(isdecided=False, reason="It copies all."), as_json=False)
    assert capsys.readouterr().out.strip() == "It copies all."


def test_the_state_of_a_link_that_copies_tells_how_far_it_is() -> None:
    progress = CompleteCopy(copies=250, of=1000, seconds=30.4)
    assert _state_of(link("copying", progress)) == "copying 25%, 30 s left"
    assert _state_of(link("copying", CompleteCopy(copies=250, seconds=30.4))) == "copying"
    assert _state_of(link("current")) == "current"
