"""The author of a caller's writes, as recorded in the audit."""

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
# A node's own tokens, and JWTs, can end up in a name or a path by mistake.
_TOKEN = re.compile(
    r"concord_[A-Za-z0-9_-]{20,}|eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*", re.ASCII
)
# A text is cut with room to spare before masking: a mask is shorter than the hidden token, and an
# escape is longer than the hidden character.
_ROOM = 16


@dataclass(slots=True, kw_only=True)
class Author:
    """The caller of a request, a link, an operator on the node's machine, or the node itself.

    The texts are bounded and printable, and hold no token.

    Args:
        name: the name of the identity, the id of the link or the account of the operator.
        issuer: the issuer that vouches for the name; empty for the node.
        address: the address of the client, or the URL that the link reads.
        agent: the name that the client gives in the header User-Agent.
        method: the method of the request; empty without a request.
        path: the path of the request without the query, the path of the link, or the command of the
            operator.
        targets: the entities or objects made or changed, if missing in the request's path.
        is_noted: whether the audit has a row about the request.
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
    # A lone surrogate has no form in UTF-8, which the database stores.
    known = text[: most * _ROOM].encode(errors="replace").decode()
    return printable(_TOKEN.sub(MASK, known))[:most]
