"""What all commands share: the node's URL, where output goes, and how a command ends.

Exit codes: 0 done, 1 the answer is no (violations, differences, not found), 2 the command
could not do its work or was misused.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, NoReturn, TypeVar

import orjson
import typer
from rich.console import Console
from rich.table import Table

T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:8080"
NO = 1
CANNOT = 2

EXIT_CODES = (
    "Exit codes: 0 done; 1 the answer is no, such as violations, differences or not found; "
    "2 it could not be done."
)

Url = Annotated[
    str, typer.Option("--url", envvar="CONCORD_URL", help="The node to talk to.", metavar="URL")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a script, no table.")]

# Where nobody watches, a table is not folded to the width of a terminal that is not there.
_WIDTH = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 200

out = Console(highlight=False, soft_wrap=True, width=_WIDTH)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def fail(message: str, hint: str = "", *, code: int = CANNOT) -> NoReturn:
    """End the command: one sentence on stderr, and what to do about it."""
    err.print(f"[bold red]Error:[/] {_escaped(message)}")
    if hint:
        err.print(_escaped(hint))
    raise typer.Exit(code)


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a command's coroutine; an expected failure becomes one sentence."""
    from catalog.client import ClientError, Refused

    try:
        return asyncio.run(main())
    except Refused as refused:
        for violation in refused.problem.others:
            text = f"{violation.title} {violation.detail}".strip()
            err.print(f"[red]Also:[/] {_escaped(text)}")
        code = NO if refused.problem.status < 500 else CANNOT
        fail(refused.message, refused.hint, code=code)
    except ClientError as error:
        fail(error.message, error.hint)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def print_json(value: Any) -> None:
    """Print a JSON value, coloured where somebody watches."""
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    if out.is_terminal:
        out.print_json(text)
    else:
        sys.stdout.write(text + "\n")


def table(*columns: str, title: str | None = None) -> Table:
    """A table in the one style of all commands."""
    made = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for place, column in enumerate(columns):
        made.add_column(column, overflow="fold", no_wrap=place < 2)
    return made


def cell(value: Any) -> str:
    """A value as the text of a table's cell."""
    if value is None or value == "" or value == []:
        return "-"
    if isinstance(value, list):
        return _escaped(", ".join(map(_text, value)))
    return _escaped(_text(value))


def _text(value: Any) -> str:
    return orjson.dumps(value).decode() if isinstance(value, dict) else str(value)


def _escaped(text: str) -> str:
    return text.replace("[", "\\[")
