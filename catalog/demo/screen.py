"""The output of a demo on the console, and the error of a step that failed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from rich.rule import Rule
from rich.table import Table

from catalog.commands.console import PlainConsole

STEPS = 7


class Unexpected(Exception):
    """A step of the demo did not have the expected result."""

    def __init__(self, expected: str, seen: str) -> None:
        super().__init__(f"Expected {expected}; seen: {seen}.")


def expect(holds: bool, expected: str, seen: str) -> None:
    """Raise `Unexpected` unless `holds`."""
    if not holds:
        raise Unexpected(expected, seen)


class Screen:
    """A console that numbers the steps, and measures the time since the first."""

    def __init__(self) -> None:
        self.console = PlainConsole(highlight=False)
        self._began = time.monotonic()
        self._step = 0

    @property
    def elapsed_seconds(self) -> float:
        return time.monotonic() - self._began

    def step(self, title: str) -> None:
        self._step += 1
        self.console.print()
        self.console.print(
            Rule(f"[bold]{self._step}/{STEPS}  {title}[/]", align="left", style="dim")
        )

    def say(self, text: str) -> None:
        """Print a sentence."""
        self.console.print(text)

    def done(self, text: str) -> None:
        """Print a fact that was checked."""
        self.console.print(f"[green]✓[/] {text}")

    def table(self, *columns: str, rows: Iterable[Sequence[str]]) -> None:
        shown = Table(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for column in columns:
            shown.add_column(column, overflow="ellipsis", no_wrap=True)
        for row in rows:
            shown.add_row(*row)
        self.console.print(shown)
