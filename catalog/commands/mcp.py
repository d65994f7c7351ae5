"""The command `mcp`: a catalog as tools for agents, by the Model Context Protocol."""

from __future__ import annotations

from importlib.metadata import version

import typer

from catalog import DISTRIBUTION, install_command
from catalog.agents import lacks_library
from catalog.commands.console import DEFAULT_URL, Url, fail, on_node

app = typer.Typer()


@app.command()
def mcp(url: Url = DEFAULT_URL) -> None:
    """Give an agent tools to search, read, compare and validate a catalog.

    An agent (an assistant in an editor, for example) starts this command and talks to it over
    standard input and output, by the Model Context Protocol. It reads with the token that other
    commands use, and sees what the token may see. It writes nothing: a change is proposed with what
    it would do. A node offers the same tools at /mcp, without this command.

    Example, in the configuration of an agent: {"command": "concord", "args": ["mcp", "--url",
    "https://catalog.example"]}
    """
    try:
        from catalog.agents.tools import server_of
    except ModuleNotFoundError as error:
        if not lacks_library(error):
            raise
        fail(
            "The library of the Model Context Protocol is not installed.",
            f"Install it with: {install_command('mcp')}",
        )
    on_node(url, lambda client: server_of(client, version(DISTRIBUTION)).run_stdio_async())
