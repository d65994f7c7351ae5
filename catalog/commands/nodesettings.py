"""The settings of a node, for commands that run it or use its database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog.commands.console import cell, err, fail

if TYPE_CHECKING:
    from catalog.config import Settings


def read_settings(values: dict[str, Any]) -> Settings:
    """The settings of the environment, with others in place of them; `None` is none.

    Invalid ones end the command with a sentence about each.
    """
    from catalog.config import Settings

    try:
        return Settings(**{name: value for name, value in values.items() if value is not None})
    except ValueError as error:  # pydantic's, which lists the invalid settings
        invalid: list[dict[str, Any]] = getattr(error, "errors", list)()
        for each in invalid:
            # What concerns several settings names them itself.
            name = "_".join(map(str, ("concord", *each["loc"]) if each["loc"] else ())).upper()
            err.print(f"[red]{name or 'Settings'}[/]: {cell(each['msg'])}")
        fail("The settings are not valid.", "README.md has a table of all of them.")
