"""What holds for every request: the configuration in force, and the version of the standard."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from catalog.api.allowedmethods import KINDS
from catalog.api.includes import resolve
from catalog.configuring.configure import ConfigurationChange
from catalog.context import CONTEXT, Context
from catalog.http.etag import READING
from catalog.http.flags import Flags
from catalog.model.capabilities import Capabilities
from catalog.model.configuration import ABSENT, Absent, Configuration, reconfigured
from catalog.model.errors import (
    ActionNotSupported,
    CapabilityError,
    InvalidAttribute,
    NotAvailable,
    ServerBusy,
    UnsupportedSpecVersion,
)
from catalog.model.interaction import Interaction, RegistryUpsert
from catalog.store.locks import ConfigurationChanged
from catalog.writing.outcome import Outcome

_MOST_ATTEMPTS = 3
_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})(?:\.\d{1,9})?(-[0-9a-z.-]{1,64})?", re.ASCII)


@web.middleware
async def configuration_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Runs a handler anew that wrote under a configuration which is not in force any more."""
    context = request.app[CONTEXT]
    for _ in range(_MOST_ATTEMPTS):
        try:
            _obey(request, context)
            return await handler(request)
        except ConfigurationChanged:
            await context.reload()
    raise ServerBusy(request.path, detail="The configuration is changing all the time.")


def _obey(request: web.Request, context: Context) -> None:
    able = context.capabilities
    if request.query_string:
        check_specversion(request, able)
    kind = KINDS.get(request.path)
    if kind is None or request.method == hdrs.METH_OPTIONS:
        return
    if kind not in able.available:
        raise NotAvailable(kind)
    if request.method in (hdrs.METH_PUT, hdrs.METH_PATCH) and not able.is_mutable(kind):
        raise ActionNotSupported(request.path, action=request.method, allow=READING)


def check_specversion(request: web.Request, capabilities: Capabilities) -> None:
    """The `specversion` flag (core/spec.md, "SpecVersion Flag").

    Raises:
        BadFlag: it is given more than once.
        UnsupportedSpecVersion
    """
    given = Flags(request, capabilities).value("specversion")
    if given is None:
        return
    known = {_comparable(version) for version in capabilities.specversions}
    version = _comparable(given)
    if version is None or version not in known:
        raise UnsupportedSpecVersion(
            request.path, specversion=given, list=",".join(capabilities.specversions)
        )


def _comparable(version: str) -> tuple[int, int, str] | None:
    """A version without its patch number, which makes no difference; its suffix does."""
    found = _VERSION.fullmatch(version.strip().lower())
    return (int(found[1]), int(found[2]), found[3] or "") if found else None


CONFIGURABLE = ("capabilities", "modelsource")


# A change of the model looks at every entity of the types that differ.
_LONGEST_SECONDS = 600.0


async def read_reconfiguration(
    context: Context,
    configuration: Configuration,
    *,
    base: str,
    modelsource: Any | Absent = ABSENT,
    capabilities: Any | Absent = ABSENT,
    patch: bool = False,
) -> ConfigurationChange | None:
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
    return ConfigurationChange(
        configuration=after, offered=context.offered, authority=context.database.node.authority
    )


async def reconfiguration_in(
    context: Context,
    configuration: Configuration,
    body: Mapping[str, Any],
    *,
    base: str,
    patch: bool,
) -> ConfigurationChange | None:
    """The configuration that an update of the registry entity asks for, if it does.

    Raises:
        NotAvailable: it is not there for clients at all.
        InvalidAttribute: clients may not change what is there; and whatever `read_reconfiguration`
            raises.
    """
    given = {name: body[name] for name in CONFIGURABLE if name in body}
    for name in given:
        if name not in configuration.capabilities.available:
            raise NotAvailable(name)
        if not configuration.capabilities.is_mutable(name):
            raise InvalidAttribute(
                "/", name=name, error_detail="this registry does not let clients change it"
            )
    if not given:
        return None
    return await read_reconfiguration(context, configuration, base=base, patch=patch, **given)


async def reconfigure(request: web.Request, **wanted: Any) -> tuple[Configuration, Outcome]:
    """Change the configuration and nothing else; the registry entity counts as updated.

    Args:
        wanted: as `read_reconfiguration` takes it.

    Returns:
        the configuration in force now.
    """
    context = request.app[CONTEXT]
    configuration = context.configuration
    async with asyncio.timeout(_LONGEST_SECONDS):
        base = context.base_url(request)
        reconfiguration = await read_reconfiguration(context, configuration, base=base, **wanted)
        touching = Interaction(registry=RegistryUpsert(body=None, patch=True))
        outcome = await context.writer.apply(configuration, touching, reconfiguration)
    if reconfiguration is not None:
        context.adopt(reconfiguration.configuration)
        configuration = reconfiguration.configuration
    return configuration, outcome
