"""The shared parts of the commands: options, output, errors and exit codes.

Exit codes: 0 done; 1 the answer is no (violations, differences, not found); 2 the command
could not do its work or was misused.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import orjson
import typer
from rich.table import Table

from catalog.commands.terminal import PlainConsole, escaped
from catalog.model.masking import printable_json

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.progress import Progress

    from catalog.client import Client, Violation

T = TypeVar("T")
Model = TypeVar("Model", bound="BaseModel")

DEFAULT_URL = "http://127.0.0.1:8080"
NO = 1
CANNOT = 2

_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_SPAN = re.compile(r"([1-9][0-9]{0,4})([hdw])", re.ASCII)

EXIT_CODES = (
    "Exit codes: 0 done; 1 the answer is no, such as violations, differences or not found; "
    "2 the command could not do its work."
)

Url = Annotated[
    str, typer.Option("--url", envvar="CONCORD_URL", help="The node to talk to.", metavar="URL")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON for a script instead of text or a table.")
]
Documents = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH",
        help="xRegistry or AsyncAPI documents: files, directories, glob patterns, or - for the "
        "standard input.",
    ),
]
Migrate = Annotated[
    bool, typer.Option("--migrate", help="Rewrite documents of older editions to the newest.")
]
KeepUnknown = Annotated[
    bool,
    typer.Option(
        "--keep-unknown",
        help="Migrate, and keep attributes that cannot be rewritten, or that the catalog's model "
        "refuses, in the extension attribute `older`.",
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="List every change, rewrite and note.")
]

out = PlainConsole(highlight=False, soft_wrap=True)
err = PlainConsole(stderr=True, highlight=False, soft_wrap=True)


class CommandError(Exception):
    """An error that ends a command with a sentence; `hint` tells how to correct the error."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def fail(message: str, hint: str = "", *, code: int = CANNOT) -> NoReturn:
    """End the command with a sentence on stderr, and a hint how to correct the error."""
    show_error(message, hint)
    raise typer.Exit(code)


def show_error(message: str, hint: str = "") -> None:
    """Print an error on stderr, and a hint how to correct the error."""
    err.print(f"[bold red]Error:[/] {escaped(message)}")
    if hint:
        err.print(escaped(hint))


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a command's coroutine; an expected failure ends the command with a sentence."""
    from catalog.client import ClientError, Refused
    from catalog.documents.serialization import SourceFileError

    try:
        return asyncio.run(main())
    except Refused as refused:
        for violation in refused.problem.others:
            err.print(f"[red]Also:[/] {escaped(sentence(violation))}")
        # A refusal is an answer; an error of the server is a failure of the command.
        code = NO if refused.problem.status < 500 else CANNOT
        fail(refused.message, refused.hint, code=code)
    except (ClientError, CommandError, SourceFileError) as error:
        fail(error.message, error.hint)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None  # 128 + SIGINT, as shells report Ctrl-C


def on_node(url: str, call: Callable[[Client], Awaitable[T]]) -> T:
    """Call a function with a client of the node at a URL; a failure ends the command, see `run`."""

    async def main() -> T:
        from catalog.client import Client
        from catalog.commands.nodetokens import token_for

        async with Client.open(url, token=token_for(url)) as client:
            return await call(client)

    return run(main)


def sentence(violation: Violation) -> str:
    """A violation as the text of a report."""
    return f"{violation.title} {violation.detail}".strip()


def violations_as_json(violations: Iterable[Violation]) -> list[dict[str, Any]]:
    """Violations in the form that every command prints with `--json`."""
    return members_of(violations, "subject", "type", "title", "detail")


def members_of(objects: Iterable[Any], *names: str) -> list[dict[str, Any]]:
    """The named attributes of each object, as JSON."""
    return [{name: getattr(each, name) for name in names} for each in objects]


def progress_bar() -> Progress:
    """A progress bar on stderr, hidden without a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=err, transient=True, disable=not err.is_terminal)


def wanted(model: type[Model], **members: Any) -> Model:
    """The validated body or query of an operation; an invalid member ends the command.

    Members with the value `None` are left out.
    """
    from pydantic import ValidationError

    try:
        return model.model_validate({n: v for n, v in members.items() if v is not None})
    except ValidationError as error:
        for fault in error.errors(include_input=False, include_url=False, include_context=False):
            name = ".".join(map(str, fault["loc"]))
            told = fault["msg"].removeprefix("Value error, ")
            show_error(f"{name}: {told}." if name else f"{told}.")
        raise typer.Exit(CANNOT) from None


def span_from(text: str) -> timedelta | None:
    """The time that a text such as `12h`, `7d` or `2w` names; `None` for another text."""
    found = _SPAN.fullmatch(text)
    return None if found is None else int(found[1]) * _UNITS[found[2]]


def json_of(model: BaseModel) -> Any:
    """The members of an answer that have a value, as JSON."""
    return model.model_dump(mode="json", exclude_none=True, by_alias=True)


def _json_member(value: Any) -> Any:
    from pydantic import BaseModel

    if isinstance(value, BaseModel):
        return json_of(value)
    raise TypeError


def print_json(value: Any) -> None:
    """Print a JSON value, which may contain answers of operations, coloured on a terminal."""
    dumped = orjson.dumps(value, default=_json_member, option=orjson.OPT_INDENT_2)
    text = printable_json(dumped.decode())
    if out.is_terminal:
        out.print_json(text)
    else:
        sys.stdout.write(text + "\n")


def table(*columns: str, title: str | None = None) -> Table:
    """An empty table in the style of the commands."""
    made = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for place, column in enumerate(columns):
        made.add_column(column, overflow="fold", no_wrap=place < 2)
    return made


def fields(values: Mapping[str, Any], names: Mapping[str, str]) -> Table:
    """A table with a row for each value that is not empty.

    Args:
        values: JSON values by name.
        names: labels for people, by the name of a value.
    """
    shown = Table(box=None, pad_edge=False, show_header=False)
    shown.add_column(no_wrap=True)
    shown.add_column(overflow="fold")
    for name, value in values.items():
        if value is not None and value not in ("", [], {}):
            shown.add_row(f"[bold]{cell(names.get(name, name))}[/]", cell(_in_words(value)))
    return shown


def _in_words(value: Any) -> Any:
    if isinstance(value, dict) and not any(
        each and isinstance(each, dict) for each in value.values()
    ):
        return ", ".join(f"{name}: {cell(each)}" for name, each in value.items() if each)
    return round(value, 1) if isinstance(value, float) else value


def cell(value: Any) -> str:
    """A value as the text of a table's cell or a sentence: one line, without markup."""
    if value is None or value == "" or value == []:
        return "-"
    if isinstance(value, list):
        return escaped(", ".join(map(_text, value)))
    return escaped(_text(value))


def _text(value: Any) -> str:
    return orjson.dumps(value).decode() if isinstance(value, dict) else str(value)
