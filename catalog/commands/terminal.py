"""A console that shows what others wrote, and obeys none of it."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment

from catalog.model.masking import printable, printable_lines

_UNFOLDED = 1_000_000


class PlainConsole(Console):
    """A console that prints no control character but its own.

    Every text passes here on its way out, whichever table or tree it stands in. Markup is another
    matter: it is read before, so text of others needs `escaped`.

    With `soft_wrap`, a table that goes to a file or a program has one line for each row, whatever
    width the environment names (`COLUMNS`): who reads it, reads lines.
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
    """A text in one line, whose markup is shown as it is."""
    return escape(printable(text))
