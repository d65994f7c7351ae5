"""The pictures of the rooms in docs/architecture.md, drawn from the imports.

`python -m tests.roomsdrawing` draws them anew.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import grimp

FILE = Path(__file__).parents[1] / "docs/architecture.md"
PACKAGES = ("catalog", "replication")
_PICTURE = r"(<!-- rooms of {} -->\n).*?(<!-- end -->)"


def drawn() -> str:
    """The text of the page with pictures of the imports as they are."""
    page, imports = FILE.read_text(), _imports()
    for package in PACKAGES:
        lines = ["```mermaid", "flowchart LR", *_arrows(package, imports), "```"]
        picture = "\n".join(lines)
        pattern = re.compile(_PICTURE.format(package), re.DOTALL)
        page = pattern.sub(lambda found, shown=picture: f"{found[1]}\n{shown}\n\n{found[2]}", page)
    return page


def _imports() -> dict[str, set[str]]:
    """The rooms that each room imports. The composition root, and entry points, belong to none."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    found: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules - {"catalog.cli", "replication.reconcile.__main__"}:
        for imported in graph.find_modules_directly_imported_by(module):
            if _room(imported) != _room(module):
                found[_room(module)].add(_room(imported))
    return found


def _room(module: str) -> str:
    return ".".join(module.split(".")[:2])


def _arrows(package: str, imports: dict[str, set[str]]) -> list[str]:
    """An arrow for each import between rooms of a package that no longer way shows."""
    inside = {
        room: {each for each in found if _is_in(each, package)}
        for room, found in imports.items()
        if _is_in(room, package)
    }
    arrows = []
    for room in sorted(inside):
        for imported in sorted(inside[room]):
            others = inside[room] - {imported}
            if not any(imported in _reached(each, inside) for each in others):
                arrows.append(f"    {_shown(room)} --> {_shown(imported)}")
    return arrows


def _is_in(room: str, package: str) -> bool:
    return room.startswith(f"{package}.")


def _reached(room: str, imports: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    left = [room]
    while left:
        new = imports.get(left.pop(), set()) - found
        found |= new
        left += new
    return found


def _shown(room: str) -> str:
    # Mermaid takes some names, such as `end`, for its own words.
    name = room.partition(".")[2]
    return f"{name}_[{name}]"


if __name__ == "__main__":
    FILE.write_text(drawn())
