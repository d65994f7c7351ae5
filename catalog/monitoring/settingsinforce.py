"""The settings that are in force at a node, with their sources: `GET /-/settings`."""

from __future__ import annotations

from aiohttp import web

from catalog.context import CONTEXT
from catalog.operations.nodestate import SettingInForce, SettingsInForce


async def read_settings_in_force(request: web.Request) -> SettingsInForce:
    """List the settings of the process that answers, without secrets."""
    settings = request[CONTEXT].settings
    return SettingsInForce(
        settings=[
            SettingInForce(
                name=f"CONCORD_{each.name.upper()}",
                value=each.value,
                default=each.default,
                source=each.source,
                description=each.description,
            )
            for each in settings.described()
        ]
    )
