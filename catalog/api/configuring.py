"""Reads what a request wants the configuration to be, and puts it in force."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from catalog.api.inclusion import resolve
from catalog.context import CONTEXT, Context
from catalog.model.configuration import ABSENT, Absent, Configuration, reconfigured
from catalog.model.errors import CapabilityError, InvalidAttribute, NotAvailable
from catalog.model.interaction import Interaction, RegistryUpsert
from catalog.registry.configure import Becoming
from catalog.registry.work import Outcome

NAMES = ("capabilities", "modelsource")
# A change of the model looks at every entity of the types that differ.
_LONGEST_SECONDS = 600.0


async def becoming_of(
    context: Context,
    configuration: Configuration,
    *,
    base: str,
    modelsource: Any | Absent = ABSENT,
    capabilities: Any | Absent = ABSENT,
    patch: bool = False,
) -> Becoming | None:
    """The configuration that a request asks for, `None` where that is the one in force.

    Args:
        configuration: the one in force.
        base: the registry's URL, without a trailing slash.
        modelsource: the new source, as given; `None` is an empty one.
        capabilities: those to change, or with `patch` unset, all of them; `None` is what
            the server offers.

    Raises:
        InvalidAttribute, ModelError and its kin, CapabilityError and its kin.
    """
    if not (modelsource is ABSENT or modelsource is None or isinstance(modelsource, dict)):
        raise InvalidAttribute("/", name="modelsource", error_detail="it needs to be an object")
    if not (capabilities is ABSENT or capabilities is None or isinstance(capabilities, dict)):
        raise CapabilityError("/capabilities", error_detail="they need to be an object")
    resolved = None
    if isinstance(modelsource, dict):
        resolved = await resolve(context.settings, modelsource, base=f"{base}/modelsource")
    after = reconfigured(
        configuration,
        offered=context.offered,
        modelsource=modelsource,
        resolved=resolved,
        capabilities=capabilities,
        patch=patch,
    )
    if not after.differences(configuration):
        return None
    return Becoming(
        configuration=after, offered=context.offered, authority=context.database.node.authority
    )


async def becoming_in(
    context: Context,
    configuration: Configuration,
    body: Mapping[str, Any],
    *,
    base: str,
    patch: bool,
) -> Becoming | None:
    """The configuration that an update of the registry entity asks for, if it does.

    Raises:
        NotAvailable: it is not there for clients at all.
        InvalidAttribute: clients may not change what is there; and whatever `becoming_of`
            raises.
    """
    given = {name: body[name] for name in NAMES if name in body}
    for name in given:
        if name not in configuration.capabilities.available:
            raise NotAvailable(name)
        if not configuration.capabilities.is_mutable(name):
            raise InvalidAttribute(
                "/", name=name, error_detail="this registry does not let clients change it"
            )
    if not given:
        return None
    return await becoming_of(context, configuration, base=base, patch=patch, **given)


async def reconfigure(request: web.Request, **wanted: Any) -> tuple[Configuration, Outcome]:
    """Change the configuration and nothing else; the registry entity counts as updated.

    Args:
        wanted: as `becoming_of` takes it.

    Returns:
        the configuration in force now.
    """
    context = request.app[CONTEXT]
    configuration = context.configuration
    async with asyncio.timeout(_LONGEST_SECONDS):
        base = context.base_url(request)
        becoming = await becoming_of(context, configuration, base=base, **wanted)
        touching = Interaction(registry=RegistryUpsert(body=None, patch=True))
        outcome = await context.writer.apply(configuration, touching, becoming)
    if becoming is not None:
        context.adopt(becoming.configuration)
        configuration = becoming.configuration
    return configuration, outcome
