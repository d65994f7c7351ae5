"""The advice for an operator about a conflict, by verdict. Pure."""

from __future__ import annotations

from catalog.model.linkterms import Mode, is_scope
from catalog.model.xid import group_path
from catalog.operations.feed import Verdict
from catalog.store.links import Link
from replication.deciding.decide import CONFLICTS

_ADVICE: dict[Verdict, str] = {
    Verdict.COLLIDED: (
        "Give its group another name here: `concord link set {link} --map {group}={group}-2`, "
        "or all groups of the link a prefix: `concord link set {link} --prefix NAME-`."
    ),
    Verdict.DIVERGED: (
        "Fetch it from its authority: follow that directly, or run `concord link reset {link}` "
        "if this link does."
    ),
    Verdict.AHEAD: (
        "If its authority has lost data, that takes its entities back from here; if the copy here "
        "was forged, `concord link reset {link}` replaces it."
    ),
    Verdict.LEAPT: (
        "Ask the operator of its authority: no number of writes leads to such an epoch. If it is "
        "right, `concord link reset {link} --drop` takes it."
    ),
    Verdict.INVALID: (
        "It is fetched again by itself. If it stays, what it belongs to is in conflict, too, or "
        "its content does not comply with the types of this node's model."
    ),
    Verdict.UNSIGNED: (
        "Ask the operator of its authority to sign what it publishes (`concord signing on`), or "
        "take it unsigned: `concord trust remove` forgets the keys of an authority."
    ),
    Verdict.FORGED: (
        "Find out who altered it on its way. If its authority has another key than `concord trust "
        "list` shows, ask its operator for that, and trust it (`concord trust add`)."
    ),
    Verdict.AWAITED: (
        "It ends with the handover of its group; `concord handover list` shows how far that is."
    ),
    Verdict.REFUSED: (
        "Ask the operator of the target to accept its authority and path (`concord accept add`), "
        "or narrow the link: `concord link set {link} --scope PATH`."
    ),
}

# If the link sends, the conflict is at the target, so the commands are for the target's operator.
_OF_TARGETS: dict[Verdict, str] = {
    Verdict.COLLIDED: (
        "At the target, its group needs another name: its operator accepts the pushes of this node "
        "with `--map {group}={group}-2` or `--prefix NAME-` (`concord accept add`)."
    ),
    Verdict.DIVERGED: "The target needs to fetch it from its authority: let it follow that.",
    Verdict.AHEAD: (
        "If this node has lost data, recover it from the target (`concord recover`). If the copy "
        "at the target was forged, its operator drops it there (`concord accept remove --drop`)."
    ),
    Verdict.LEAPT: (
        "Find out how it came to such an epoch here: no number of writes leads to that. If it is "
        "right, the target's operator takes it (`concord accept remove --drop`, then `add`)."
    ),
}

# A server of other software, or a topic, has no operator with Concord's commands.
_NARROW = "or leave it out: `concord link set {link} --scope PATH` names what the link sends."
_OF_SERVERS: dict[Verdict, str] = {
    Verdict.COLLIDED: (f"Somebody else has written it at the server. Delete that there, {_NARROW}"),
    Verdict.REFUSED: f"Mend what the server or the topic refuses it for, {_NARROW}",
}

_BY_MODE: dict[Mode, dict[Verdict, str]] = {
    "push": _OF_TARGETS,
    "write": _OF_SERVERS,
    "publish": _OF_SERVERS,
}

assert _ADVICE.keys() >= CONFLICTS, "each conflict has its advice"


def advice_about(verdict: str, link: Link, origin: str) -> str:
    """The advice about a conflict of a link; "" for a verdict without advice.

    Args:
        origin: the xid of the copy at the authority; for a damaged copy, an arbitrary text.
    """
    known = {each.value: each for each in _ADVICE}
    if verdict not in known:
        return ""
    # Operators copy the command into a shell. Ids have no characters with a meaning in a shell, but
    # the text of a damaged copy may have, and is left out.
    group = group_path(origin).removeprefix("/") if is_scope(origin) else "GROUPS/ID"
    advice = {**_ADVICE, **_BY_MODE.get(link.definition.mode, {})}
    return advice[known[verdict]].format(link=link.id, group=group)
