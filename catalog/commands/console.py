"""The shared parts of the commands: options, output, errors and exit codes.

Exit codes: 0 done; 1 the answer is no (violations, differences, not found); 2 the command
could not do its work or was misused.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import orjson
import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table

from catalog.model.masking import printable, printable_json, printable_lines

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.progress import Progress

    from catalog.client import Client, Violation
    from catalog.operations.operation import Answered, Operation, Taken

T = TypeVar("T")
Model = TypeVar("Model", bound="BaseModel")

DEFAULT_URL = "http://127.0.0.1:8080"
NO = 1
CANNOT = 2

_UNFOLDED = 1_000_000
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
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Report errors only.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Write to this file, not to stdout.", metavar="FILE"),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="List every change, rewrite and note.")
]


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
        from catalog.commands.secretsources import token_for

        async with Client.open(url, token=token_for(url)) as client:
            return await call(client)

    return run(main)


def call_node(
    url: str,
    operation: Operation[Taken, Answered],
    body: Taken | None = None,
    *,
    query: BaseModel | None = None,
    **at: str,
) -> Answered:
    """Call an operation of the node at a URL, see `Client.call`; a failure ends the command."""
    return on_node(
        url, lambda client: client.call(operation, body, query=query, headers=None, **at)
    )


def list_of(
    url: str,
    operation: Operation[Taken, Answered],
    items: Callable[[Answered], Iterable[T]],
    *,
    query: BaseModel | None = None,
    **at: str,
) -> list[T]:
    """The items in every page of an operation of the node at a URL.

    Args:
        items: takes the items out of a page.
    """

    async def listed(client: Client) -> list[T]:
        pages = client.call_pages(operation, query=query, **at)
        return [item async for page in pages for item in items(page)]

    return on_node(url, listed)


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


def print_answer(found: Any, *texts: RenderableType, as_json: bool) -> None:
    """Print an answer as JSON, or in the words of `texts`, which are markup."""
    if as_json:
        print_json(found)
        return
    for text in texts:
        out.print(text)


def print_rows(
    found: Sequence[T],
    columns: Sequence[str],
    row: Callable[[T], Iterable[Any]] | None = None,
    *,
    nothing: str,
    as_json: bool,
) -> None:
    """Print answers as JSON, or as a table with a row for each.

    Args:
        row: the values of a row; by default the members of the answer with the names of `columns`.
        nothing: the sentence for an empty table.
    """
    if as_json:
        print_json(found)
        return
    shown = table(*columns)
    for each in found:
        shown.add_row(*map(cell, _members(each, columns) if row is None else row(each)))
    out.print(shown if found else nothing)


def _members(answer: Any, names: Iterable[str]) -> Iterable[Any]:
    return map(json_of(answer).get, names)


def write_output(content: bytes, output: Path | None) -> None:
    """Write a document to a file, or to the standard output without a file."""
    if output is None:
        sys.stdout.buffer.write(content)
        return
    try:
        output.write_bytes(content)
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}.")
    err.print(f"Wrote {cell(str(output))}.")


def confirm(question: str, *, yes: bool) -> None:
    """Ask the user, unless the option `--yes` was given; the command ends without consent.

    Without a terminal, the command ends with the advice to give the option.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        fail("There is no terminal to ask at; nothing was done.", "Add --yes.")
    if not typer.confirm(question, err=True):
        err.print("Nothing was done.")
        raise typer.Exit(NO)


def object_in(file: Path) -> dict[str, Any]:
    """The object in a JSON or YAML file; the command ends if the file has none."""
    from catalog.documents.serialization import SourceFileError, read_object_file

    try:
        return read_object_file(file)
    except SourceFileError as error:
        fail(error.message, error.hint)


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
