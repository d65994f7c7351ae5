"""The author of what a caller writes, as the audit tells it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from catalog.model.masking import MASK, printable

AuthorKind = Literal[
    "anonymous", "token", "jwt", "certificate", "link", "operator", "node", "others"
]

_LONGEST_NAME = 200
_LONGEST_PATH = 1000
_MOST_TARGETS = 20
# Tokens of a node's own, and JWTs, that somebody has written where they do not belong.
_TOKEN = re.compile(
    r"concord_[A-Za-z0-9_-]{20,}|eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*", re.ASCII
)
# Masks are shorter than what they hide, and escapes longer.
_ROOM = 16


@dataclass(slots=True, kw_only=True)
class Author:
    """The caller of a request, a link, an operator on the node's machine, or the node itself.

    Its texts are bounded and printable, and hold no token.

    Args:
        name: as that of an identity; the id of a link, or the account of an operator.
        issuer: who vouches for the name; empty for the node.
        address: of the client; of a link, where it reads.
        agent: what the client calls itself.
        method: empty without a request.
        path: of the request, without its query; of a link itself; or the command of an operator.
        targets: what was made or changed, where the request's path does not name it.
        is_noted: whether the audit has a row about it.
    """

    kind: AuthorKind
    name: str = ""
    issuer: str = ""
    address: str = ""
    agent: str = ""
    method: str = ""
    path: str = ""
    targets: list[str] = field(default_factory=list)
    is_noted: bool = False

    def __post_init__(self) -> None:
        self.name = _harmless(self.name, _LONGEST_NAME)
        self.issuer = _harmless(self.issuer, _LONGEST_NAME)
        self.address = _harmless(self.address, _LONGEST_NAME)
        self.agent = _harmless(self.agent, _LONGEST_NAME)
        self.path = _harmless(self.path, _LONGEST_PATH)

    def name_target(self, target: str) -> None:
        if len(self.targets) < _MOST_TARGETS:
            self.targets.append(_harmless(target, _LONGEST_PATH))


def _harmless(text: str, most: int) -> str:
    if not text:
        return text
    known = text[: most * _ROOM].encode(errors="replace").decode()
    return printable(_TOKEN.sub(MASK, known))[:most]
