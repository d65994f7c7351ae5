"""A console for untrusted text: control characters in the text do not reach the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment

from catalog.model.masking import printable, printable_lines

_UNFOLDED = 1_000_000


class PlainConsole(Console):
    """A console that prints no control characters except those of rich itself.

    `render` filters every text, also inside tables and trees. Markup is parsed before `render`, so
    untrusted text must pass `escaped` first.

    With `soft_wrap`, a table in a file or a pipe has one line per row, regardless of the width in
    the environment (`COLUMNS`), because the reader expects a line per row.
    """

    @property
    def options(self) -> ConsoleOptions:
        options = super().options
        if self.soft_wrap and not self.file.isatty():
            return options.update(max_width=_UNFOLDED)
        return options

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable_lines(segment.text), segment.style)


def escaped(text: str) -> str:
    """A text in one line, with the markup escaped."""
    return escape(printable(text))
