"""Interactions that come together share a transaction, and nobody can tell by what they did."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from catalog.model.caller import node_caller
from catalog.model.entity import Entity
from catalog.model.errors import BadRequest, MismatchedEpoch, NotFound, XRegistryError
from catalog.model.interaction import GroupUpsert, Interaction
from catalog.model.xid import Xid
from catalog.store.locks import Touched, lock_and_load
from catalog.writing.outcome import Outcome
from tests.integration.conftest import Node, shared_node

pytestmark = pytest.mark.asyncio(loop_scope="module")
numbers = itertools.count()

node = shared_node()


@pytest.fixture
def group() -> Xid:
    return Xid("messagegroups", f"g{next(numbers)}")


def put(node: Node, xid: Xid, **body: Any) -> Interaction:
    interaction = Interaction(caller=node_caller(), at=xid)
    if xid.vid:
        interaction.put_version(node.context.model, xid.resource, xid.vid, body, patch=False)
    else:
        interaction.put_resource(node.context.model, xid, body, patch=False)
    return interaction


async def apply(node: Node, interaction: Interaction) -> Outcome | XRegistryError:
    try:
        return await node.context.writer.apply(node.context.configuration, interaction)
    except XRegistryError as refusal:
        return refusal


async def apply_together(
    node: Node, *interactions: Interaction
) -> Sequence[Outcome | XRegistryError]:
    async with asyncio.timeout(20):
        return await asyncio.gather(*(apply(node, each) for each in interactions))


def transactions(outcomes: Sequence[Outcome | XRegistryError]) -> set[int]:
    return {one.cursor.position.txid for one in outcomes if isinstance(one, Outcome)}


async def test_those_that_come_together_are_committed_together(node: Node, group: Xid) -> None:
    await node.put(str(group))
    messages = [group.child("messages", f"m{n}") for n in range(32)]
    outcomes = await apply_together(node, *(put(node, xid) for xid in messages))
    assert len(transactions(outcomes)) == 2
    shown = await node.get(f"{group}?inline=messages")
    assert [*shown["messages"]] == sorted(xid.rid for xid in messages)
    assert shown["epoch"] == 1 + len(messages)


async def test_each_has_an_interaction_a_time_and_events_of_its_own(node: Node, group: Xid) -> None:
    outcomes = await apply_together(
        node, *(put(node, group.child("messages", f"m{n}")) for n in range(5))
    )
    done = [one for one in outcomes if isinstance(one, Outcome)]
    assert len(transactions(done)) == 1
    assert len({one.interaction for one in done}) == len({one.at for one in done}) == 5
    logged = [each for each in await node.changes() if each.change.xid.startswith(str(group))]
    for number, one in enumerate(done):
        told = {
            (each.change.xid, each.change.action, each.change.epoch)
            for each in logged
            if each.interaction == one.interaction
        }
        message = f"{group}/messages/m{number}"
        action = "updated" if number else "created"
        assert told == {
            (str(group), action, number + 1),
            (message, "created", 1),
            (f"{message}/versions/1", "created", 1),
        }


async def test_what_one_is_refused_for_is_nobody_elses_concern(node: Node, group: Xid) -> None:
    await node.put(f"{group}/messages/m0")
    late = put(node, group.child("messages", "m0"), epoch=7)
    lost = put(node, Xid("messagegroups", "nowhere", "messages", "m"))
    lost.groups = [GroupUpsert(xid=Xid("messagegroups", "nowhere"), body=None, must_exist=True)]
    good = [put(node, group.child("messages", f"m{n}")) for n in range(1, 4)]
    outcomes = await apply_together(node, good[0], late, good[1], lost, good[2])
    assert [type(one) for one in outcomes] == [
        *(Outcome, MismatchedEpoch, Outcome, NotFound, Outcome),
    ]
    assert len(transactions(outcomes)) == 1
    assert (await node.get(str(group)))["messagescount"] == 4


async def test_those_that_the_database_cannot_take_together_are_taken_apart(
    node: Node, group: Xid
) -> None:
    """Ids of siblings may not differ in case only, which the database alone sees."""
    outcomes = await apply_together(
        node, *(put(node, group.child("messages", id)) for id in ("a", "b", "A"))
    )
    [refused] = [one for one in outcomes if isinstance(one, BadRequest)]
    assert f'"a" below {group}/messages differs' in refused.title
    assert isinstance(outcomes[1], Outcome)
    assert (await node.get(str(group)))["messagescount"] == 2


async def test_two_of_one_resource_come_one_after_the_other(node: Node, group: Xid) -> None:
    xid = group.child("messages", "m")
    outcomes = await apply_together(node, *(put(node, xid, name=f"n{n}") for n in range(4)))
    assert len(transactions(outcomes)) == 4
    epochs = [one.after[f"{xid}/versions/1"] for one in outcomes if isinstance(one, Outcome)]
    assert [each.epoch for each in epochs] == [1, 2, 3, 4]


async def test_one_that_waits_for_a_lock_does_not_make_the_others_wait(
    node: Node, group: Xid
) -> None:
    locked, free = (group.child("messages", id) for id in ("locked", "free"))
    await apply_together(node, put(node, locked), put(node, free))
    touched = Touched(groups=frozenset([str(group)]), resources=frozenset([str(locked)]))
    async with node.database.transaction() as connection:
        await lock_and_load(connection, touched)
        waiting = asyncio.create_task(apply(node, put(node, locked)))
        [outcome] = await apply_together(node, put(node, free))
        assert isinstance(outcome, Outcome)
        assert not waiting.done()
    async with asyncio.timeout(20):
        assert isinstance(await waiting, Outcome)


async def test_who_gave_up_before_its_turn_has_written_nothing(node: Node, group: Xid) -> None:
    given_up = asyncio.create_task(apply(node, put(node, group.child("messages", "given-up"))))
    await asyncio.sleep(0)  # as far as the queue
    given_up.cancel()
    done = await apply_together(node, put(node, group.child("messages", "m")))
    assert isinstance(done[0], Outcome)
    assert [*(await node.get(f"{group}/messages"))] == ["m"]


async def test_a_cross_reference_is_written_alone(node: Node, group: Xid) -> None:
    target = f"{group}/messages/target"
    await node.put(target, {"name": "n"})
    await node.put(f"{group}/messages/source/meta", {"xref": target})
    source = put(node, group.child("messages", "source"), meta={"xref": None}, name="own")
    outcomes = await apply_together(node, source, put(node, group.child("messages", "m")))
    assert len(transactions(outcomes)) == 2
    assert (await node.get(f"{group}/messages/source"))["name"] == "own"


places = st.tuples(st.sampled_from("gh"), st.sampled_from("abc"), st.sampled_from(["", "1", "2"]))
asked = st.tuples(places, st.sampled_from(["", "n"]), st.sampled_from([None, 1, 2]))


@settings(
    max_examples=40,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(wanted=st.lists(asked, min_size=2, max_size=12))
async def test_together_they_do_what_they_do_one_after_the_other(
    node: Node, wanted: list[tuple[tuple[str, str, str], str, int | None]]
) -> None:
    """But for the order in which what differs is done, which epochs of groups do not show."""
    together, apart = f"t{next(numbers)}", f"s{next(numbers)}"
    at_once = await apply_together(node, *(_asked(node, together, each) for each in wanted))
    in_turn = [await apply(node, _asked(node, apart, each)) for each in wanted]
    assert [_seen(one, together) for one in at_once] == [_seen(one, apart) for one in in_turn]
    for letter in "gh":
        assert await _shown(node, together, letter) == await _shown(node, apart, letter)


def _asked(
    node: Node, prefix: str, wanted: tuple[tuple[str, str, str], str, int | None]
) -> Interaction:
    (group, id, vid), name, epoch = wanted
    xid = Xid("messagegroups", f"{prefix}{group}").child("messages", id)
    body = {"name": name} | ({} if epoch is None else {"epoch": epoch})
    return put(node, xid.version(vid) if vid else xid, **body)


def _seen(one: Outcome | XRegistryError, prefix: str) -> Any:
    """What came of an interaction, without what tells when it was done."""
    if isinstance(one, XRegistryError):
        return type(one)
    return {
        xid.replace(prefix, ""): (state.epoch, state.attributes)
        for xid, state in one.after.items()
        if isinstance(state, Entity) and state.kind in ("resource", "version")
    }


async def _shown(node: Node, prefix: str, letter: str) -> Any:
    answer = await node.send("GET", f"/messagegroups/{prefix}{letter}?inline=*")
    return [
        part
        for part in answer.body.decode().replace(prefix, "").split(",")
        if "edat" not in part and "instance" not in part
    ]
