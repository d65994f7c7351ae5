"""The root of the commands: shared options, and a check of the environment variables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from catalog.commands.console import EXIT_CODES, cell, err
from catalog.commands.secretsources import FILE_VARIABLE, TOKEN_VARIABLE, give_token

_PANELS = {
    "Publish": (
        *("discover", "import", "apply", "diff", "delete", "lint", "validate"),
        *("model", "subscription"),
    ),
    "Find": (
        *("search", "references", "compare", "changes", "revisions", "get", "list"),
        *("events", "export", "generate", "mcp"),
    ),
    "Federate": (
        *(
            "link",
            "reconcile",
            "snapshot",
            "watch",
            "federation",
            "followers",
            "freshness",
            "recover",
            "handover",
            "signing",
            "trust",
        ),
    ),
    "Operate": (
        *("serve", "demo", "doctor", "settings", "capabilities", "migrate", "backup", "restore"),
        "encryption",
    ),
    "Give access": ("token", "access", "whoami", "audit"),
}
_OF_CLIENTS = frozenset({"CONCORD_URL", TOKEN_VARIABLE, FILE_VARIABLE})
# Users have their own variables with the prefix, such as for credentials: only a name close to
# the name of a setting counts as misspelt.
_NEARNESS = 0.835


def _show_help(context: typer.Context, wanted: bool) -> None:
    if wanted:
        typer.echo(context.get_help())
        raise typer.Exit


def _take_token(context: typer.Context, token: str | None) -> None:
    # The root drops the token of an earlier call in the process. A command without the option
    # keeps the token that stands before the name of the command.
    if context.parent is None or token:
        give_token(token or None)


Help = Annotated[
    bool,
    typer.Option(
        "--help",
        callback=_show_help,
        expose_value=False,
        is_eager=True,
        help="Show this message and exit.",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        callback=_take_token,
        expose_value=False,
        help="The token for the node. Other users of this machine see an argument, and do not see "
        f"{TOKEN_VARIABLE}. Else that of the file ~/.config/concord/tokens or {FILE_VARIABLE}, "
        "which has a URL and its token in each line.",
        metavar="TOKEN",
    ),
]


class RootGroup(TyperGroup):
    """The root of the commands, which adds options to every command below the root.

    A command that talks to a node gets the option `--token`, and each help lists the exit codes.
    """

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        panels = {name: panel for panel, names in _PANELS.items() for name in names}
        commands: dict[str, Any] = {name: self.commands[name] for name in panels}
        commands |= self.commands
        for name, command in commands.items():
            command.rich_help_panel = panels.get(name)
        self.commands = commands
        options = {each.name: each for each in self.params}
        for command in _below(self):
            taken = {each.name for each in command.params}
            if "url" in taken and "token" not in taken:
                command.params.append(options["token"])
            if command is not self:
                command.params.append(options["help"])
            _show_no_types_of_flags(command.params)
            said = f"{command.help} {command.epilog}"
            if "Exit codes:" not in said and (command is self or isinstance(command, TyperCommand)):
                command.epilog = EXIT_CODES
            first, *others = (command.help or "").split("\n\n")
            # Typer dims the paragraphs after the first, and keeps their line breaks.
            unfolded = (f"[not dim]{' '.join(each.split())}[/]" for each in others)
            command.help = "\n\n".join((first, *unfolded))

    def get_params(self, ctx: Any) -> list[Any]:
        found = super().get_params(ctx)
        _show_no_types_of_flags(found)  # Typer adds the options of completion late.
        return found


def _show_no_types_of_flags(parameters: Iterable[Any]) -> None:
    for each in parameters:
        if isinstance(each, TyperOption) and each.is_flag:
            each.metavar = ""


def _below(group: TyperGroup) -> Iterator[Any]:
    yield group
    for command in group.commands.values():
        if isinstance(command, TyperGroup):
            yield from _below(command)
        else:
            yield command


def warn_of_misspelt_variables() -> None:
    """Warn of each environment variable with a name close to the name of a setting."""
    given = {name.upper() for name in os.environ if name.upper().startswith("CONCORD_")}
    if given <= _OF_CLIENTS:
        return
    from catalog.settings import Settings

    known = {f"CONCORD_{name.upper()}" for name in Settings.model_fields} | _OF_CLIENTS
    for name in sorted(given - known):
        if near := get_close_matches(name, known, n=1, cutoff=_NEARNESS):
            err.print(f"[yellow]Warning:[/] there is no {cell(name)}; is it {near[0]}?")
