"""The command `subscription protocols`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    AsJson,
    Url,
    cell,
    on_node,
    out,
    print_json,
    table,
)

_PREFIX = "protocolsettings."

app = typer.Typer()


@app.command()
def protocols(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """List the protocols by which a node can send events, with the settings of each protocol.

    Example: concord subscription protocols
    """
    described = on_node(url, lambda client: client.get("/openapi.json"))
    found = list(_protocols_in(described))
    if as_json:
        print_json(found)
        return
    overview = table("protocol", "installed", "URLs")
    settings = table("protocol", "setting", "default", "meaning")
    for protocol in found:
        name = cell(protocol["name"])
        schemes = ", ".join(f"{scheme}://" for scheme in protocol["schemes"])
        overview.add_row(name, cell(protocol.get("missing", "yes")), cell(schemes))
        for setting in protocol["settings"]:
            default = "(required)" if setting["required"] else cell(setting["default"])
            settings.add_row(name, cell(setting["name"]), default, cell(setting["description"]))
    out.print(overview)
    out.print(settings)


def _protocols_in(described: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The delivery protocols in the OpenAPI document of a node."""
    for name, schema in described["components"]["schemas"].items():
        if name.startswith(_PREFIX):
            required = schema.get("required", ())
            yield {
                **schema["x-delivery-protocol"],
                "settings": [
                    {
                        "name": setting,
                        "required": setting in required,
                        "default": about.get("default"),
                        "description": about.get("description", ""),
                    }
                    for setting, about in schema.get("properties", {}).items()
                ],
            }
