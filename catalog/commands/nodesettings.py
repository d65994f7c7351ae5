"""The settings of a node for commands, and the command `settings`, which lists the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from catalog.commands.console import AsJson, cell, err, fail, on_node, out, print_json, table

if TYPE_CHECKING:
    from catalog.settings import Settings

app = typer.Typer()


def read_settings(values: dict[str, Any]) -> Settings:
    """The settings of the environment, overridden by `values` other than `None`.

    Invalid settings end the command with a sentence about each setting.
    """
    from catalog.settings import Settings

    try:
        return Settings(**{name: value for name, value in values.items() if value is not None})
    except ValueError as error:  # pydantic's ValidationError, which lists the invalid settings
        invalid: list[dict[str, Any]] = getattr(error, "errors", list)()
        for each in invalid:
            # An error about several settings has no location; its message names the settings.
            name = "_".join(map(str, ("concord", *each["loc"]) if each["loc"] else ())).upper()
            err.print(f"[red]{name or 'Settings'}[/]: {cell(each['msg'])}")
        fail("The settings are not valid.", "docs/settings.md has a table of all of them.")


RunningNode = Annotated[
    str | None,
    typer.Option("--url", help="Ask the running node at this URL, as an admin.", metavar="URL"),
]


@app.command()
def settings(as_json: AsJson = False, url: RunningNode = None) -> None:
    """List the settings that the environment gives to a node; secrets are masked.

    With --url, list the settings in force at a running node, and where each comes from.

    Example: CONCORD_PORT=8081 concord settings

    Example: concord settings --url http://127.0.0.1:8080
    """
    if url is not None:
        _show_in_force(url, as_json=as_json)
        return
    values = read_settings({}).masked()
    if as_json:
        print_json(values)
        return
    shown = table("variable", "value")
    for name, value in values.items():
        shown.add_row(f"CONCORD_{name.upper()}", cell(value))
    out.print(shown)


def _show_in_force(url: str, *, as_json: bool) -> None:
    from catalog.operations.nodestate import READ_SETTINGS

    found = on_node(url, lambda client: client.call(READ_SETTINGS))
    if as_json:
        print_json(found)
        return
    shown = table("variable", "value", "from")
    for each in found.settings:
        shown.add_row(each.name, cell(each.value), each.source)
    out.print(shown)
