"""The pages of this repository, and the fenced blocks in them.

A block of commands runs in a test as it stands, unless the line above it says why not:
`<!-- not run: needs a container engine -->`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Pages whose commands run (tests/e2e/test_docs.py), and pages whose Python does
# (tests/integration/test_client_docs.py, tests/integration/test_protocol_docs.py).
FOLLOWED = (
    "README.md",
    "CONTRIBUTING.md",
    "examples/catalog-as-code/README.md",
    "docs/dialects.md",
    "docs/messages.md",
    "docs/catalog-as-code.md",
    "docs/asyncapi.md",
    "docs/joining.md",
    "docs/recovery.md",
    "docs/subscriptions.md",
    "docs/securing.md",
    "docs/signing.md",
    "docs/handover.md",
    "docs/confluent-migration.md",
    "docs/federation-with-access.md",
)
PROGRAM = "docs/client.md"
FOLLOWER = "docs/protocol.md"

_FENCE = re.compile(r"```(\w*)")
_MARKER = re.compile(r"<!-- not run: (.+) -->")
_COMMENT = re.compile(r"(?:^|  +)# (.*)$")
_EXIT_CODE = re.compile(r"exit code (\d+)")
_QUOTED = re.compile(r'"([^"]+)"')
_PROMPT = "$ "


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block; `not_run` is why it does not run in a test, empty if it does."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str = ""

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command as a page has it, and what the page says of its end.

    `said` are texts that its output has, in this order.
    """

    line: int
    text: str
    exit_code: int = 0
    said: tuple[str, ...] = ()


def pages() -> list[Path]:
    """Every page that is a part of this repository."""
    found = [*ROOT.glob("*.md")]
    for folder in ("benchmarks", "catalog", "docs", "examples", "replication", "tests"):
        found += (ROOT / folder).rglob("*.md")
    return sorted(found)


def name_of(page: Path) -> str:
    """The path of a page in this repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in their order."""
    found: list[Block] = []
    lines = page.read_text().splitlines()
    at = 0
    while at < len(lines):
        if opening := _FENCE.fullmatch(lines[at]):
            end = lines.index("```", at + 1)
            marker = _MARKER.fullmatch(lines[at - 1]) if at else None
            found.append(
                Block(
                    page=page,
                    line=at + 2,
                    language=opening[1],
                    text="\n".join(lines[at + 1 : end]) + "\n",
                    not_run=marker[1] if marker else "",
                )
            )
            at = end
        at += 1
    return found


def commands(block: Block) -> list[Command]:
    """The commands of a block.

    In a `console` block they follow a `$`, and the lines below one are its output, in which
    `…` stands for anything. In others, a comment may say `exit code 1`, and quote the output.
    """
    if block.language == "console":
        return [*_shown(block)]
    return [*_plain(block)]


def _plain(block: Block) -> Iterator[Command]:
    text, begins = "", block.line
    for number, line in enumerate(block.text.splitlines(), block.line):
        begins = begins if text else number
        text += line + "\n"
        if not _is_complete(text):
            continue
        comment = _COMMENT.search(line)
        if shlex.split(text, comments=True):
            yield _command(begins, text, comment[1] if comment else "")
        text = ""
    assert not text, f"{block} ends within a command"


def _command(line: int, text: str, comment: str) -> Command:
    code = _EXIT_CODE.search(comment)
    return Command(
        line=line,
        text=text,
        exit_code=int(code[1]) if code else 0,
        said=tuple(_QUOTED.findall(comment)),
    )


def _shown(block: Block) -> Iterator[Command]:
    begun: tuple[int, str] | None = None
    output: list[str] = []
    for number, line in enumerate([*block.text.splitlines(), _PROMPT], block.line):
        if not line.startswith(_PROMPT):
            output += [part.strip() for part in line.split("…") if part.strip()]
            continue
        if begun is not None:
            yield Command(line=begun[0], text=begun[1], said=tuple(output))
        begun, output = (number, line.removeprefix(_PROMPT)), []


def _is_complete(text: str) -> bool:
    """Whether a command ends here: no quotation is open, and no line goes on."""
    if text.endswith("\\\n"):
        return False
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return False
    return True
