"""A table of rules finds those that a caller meets, whatever it looks them up by."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from catalog.access.rolerules import RuleTable
from catalog.model.roles import IdentityKind, RuleGrant, Who

NAMES = st.sampled_from(["sub", "groups", "scope", "realm.roles", "iss"])
VALUES = st.sampled_from(["a", "b", "a b", "*"])
CERTIFIED = st.sampled_from(["cn", "o", "dns"])


@st.composite
def conditions(draw: st.DrawFn) -> str:
    kind = draw(st.sampled_from(["anonymous", "token", "jwt", "certificate"]))
    if kind == "anonymous":
        return kind
    if kind == "token":
        return f"token={draw(st.sampled_from(['t1', 't2']))}"
    names = CERTIFIED if kind == "certificate" else NAMES.filter(lambda name: name != "iss")
    found = [f"{draw(names)}={draw(VALUES)}" for _ in range(draw(st.integers(1, 3)))]
    return "&".join(
        [*found, f"iss=https://{draw(st.sampled_from('xy'))}"] if kind == "jwt" else found
    )


CLAIMS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "sub": VALUES,
        "groups": st.lists(VALUES, max_size=3),
        "scope": VALUES,
        "realm": st.fixed_dictionaries({"roles": st.lists(VALUES, max_size=2)}),
        "iss": st.sampled_from(["https://x", "https://y"]),
        "cn": st.lists(VALUES, max_size=2),
        "o": st.lists(VALUES, max_size=2),
        "token": st.sampled_from(["t1", "t2"]),
        "anonymous": VALUES,
    },
)
KINDS: st.SearchStrategy[IdentityKind] = st.sampled_from(
    ["anonymous", "token", "jwt", "certificate"]
)


@given(texts=st.lists(conditions(), max_size=12), kind=KINDS, claims=CLAIMS)
def test_it_finds_exactly_the_rules_that_are_met(
    texts: list[str], kind: IdentityKind, claims: dict[str, Any]
) -> None:
    rules = [(text, RuleGrant(str(number), "reader")) for number, text in enumerate(texts)]
    naive = {grant for text, grant in rules if Who.parse(text).is_met_by(kind, claims)}
    found = RuleTable(rules).met_by(kind, claims)

    assert len(found) == len(naive)
    assert {*found} == naive


@given(text=conditions())
def test_a_condition_is_written_as_it_was_read(text: str) -> None:
    assert str(Who.parse(text)) == text
