"""The remedy of a conflict, by its verdict, in words for the operator. Pure."""

from __future__ import annotations

from replication.decide import CONFLICTS, Verdict

_REMEDIES: dict[Verdict, str] = {
    Verdict.COLLIDED: (
        "Two authorities use this path: let the link bring it under another one "
        "(`concord link add --prefix`), or rename one of the two at its authority."
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
        "It is fetched again by itself. If that does not help, look at the entity at its source: "
        "it has to comply with the types of this node's model."
    ),
    Verdict.REFUSED: (
        "Ask the operator of the target to accept its authority and path (`concord accept add`), "
        "or narrow the link with `--scope`."
    ),
}

assert _REMEDIES.keys() >= CONFLICTS, "each conflict has a remedy"


def remedy_of(verdict: str, link: str) -> str:
    """What an operator can do about a conflict of a link; "" for a verdict without remedy."""
    known = {each.value: each for each in _REMEDIES}
    return _REMEDIES[known[verdict]].format(link=link) if verdict in known else ""
