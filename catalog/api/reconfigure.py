"""Changes the configuration on request: the model with includes, and the capabilities."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from typing import Any

import aiohttp
import orjson
import structlog
from aiohttp import web

from catalog.client.connection import read_limited
from catalog.context import CONTEXT, Context
from catalog.http.body import parse_json
from catalog.http.outbound import open_session
from catalog.http.outboundaddress import why_refused
from catalog.load.longwork import aside, in_thread
from catalog.model.configuration import ABSENT, Absent, Configuration, reconfigured
from catalog.model.errors import (
    CapabilityError,
    InvalidAttribute,
    ModelError,
    NotAvailable,
    XRegistryError,
)
from catalog.model.includes import resolve_includes
from catalog.model.interaction import Interaction, RegistryUpsert
from catalog.model.masking import described, masked_url
from catalog.reconfiguration.reconfiguration import ConfigurationChange, check_model_size
from catalog.settings import Settings
from catalog.writing.outcome import Outcome

_log = structlog.get_logger()
_LARGEST_INCLUDE_BYTES = 1024 * 1024
_INCLUDE_SECONDS = 5.0
_INCLUDES_SECONDS = 20.0

CONFIGURABLE = ("capabilities", "modelsource")


async def read_reconfiguration(
    context: Context,
    configuration: Configuration,
    *,
    base: str,
    modelsource: Any | Absent = ABSENT,
    capabilities: Any | Absent = ABSENT,
    patch: bool = False,
) -> ConfigurationChange | None:
    """The change to the requested configuration; `None` if the configuration is in force already.

    Args:
        configuration: the configuration in force.
        base: the URL of the registry, without a trailing slash.
        modelsource: the new source, as given; `None` is an empty source.
        capabilities: the capabilities to change or, with `patch` unset, the whole capabilities;
            `None` stands for everything that the server offers.

    Raises:
        InvalidAttribute, and subclasses of ModelError and CapabilityError.
    """
    if not (modelsource is ABSENT or modelsource is None or isinstance(modelsource, dict)):
        raise InvalidAttribute("/", name="modelsource", error_detail="it needs to be an object")
    if not (capabilities is ABSENT or capabilities is None or isinstance(capabilities, dict)):
        raise CapabilityError("/capabilities", error_detail="they need to be an object")
    resolved = None
    if isinstance(modelsource, dict):
        await aside(0, check_model_size, modelsource)
        resolved = await _resolve(context.settings, modelsource, base=f"{base}/modelsource")
        if resolved is not None:
            await aside(0, check_model_size, resolved)
    # In a thread at once, since a short source can define a large model.
    after = await in_thread(
        reconfigured,
        configuration,
        offered=context.offered,
        modelsource=modelsource,
        resolved=resolved,
        capabilities=capabilities,
        patch=patch,
    )
    differences = await in_thread(after.differences, configuration)
    if not differences:
        return None
    return ConfigurationChange(
        configuration=after,
        differences=differences,
        offered=context.offered,
        authority=context.database.node.authority,
    )


async def reconfiguration_in(
    context: Context,
    configuration: Configuration,
    body: Mapping[str, Any],
    *,
    base: str,
    patch: bool,
) -> ConfigurationChange | None:
    """The change of configuration in an update of the registry entity; `None` without a change.

    Raises:
        NotAvailable: the capabilities do not offer the changed part of the configuration.
        InvalidAttribute: clients may not change the part; and the errors of `read_reconfiguration`.
    """
    given = {name: body[name] for name in CONFIGURABLE if name in body}
    for name in given:
        if name not in configuration.capabilities.available:
            raise NotAvailable(name)
        if not configuration.capabilities.is_mutable(name):
            fault = "this registry does not let clients change it"
            raise InvalidAttribute("/", name=name, error_detail=fault)
    if not given:
        return None
    return await read_reconfiguration(context, configuration, base=base, patch=patch, **given)


async def reconfigure(request: web.Request, **wanted: Any) -> tuple[Configuration, Outcome]:
    """Change the configuration alone; the registry entity counts as updated.

    Args:
        wanted: the new model or capabilities, as keyword arguments of `read_reconfiguration`.

    Returns:
        the configuration in force after the request, and the outcome of the write.
    """
    context = request[CONTEXT]
    configuration = context.configuration
    async with asyncio.timeout(context.settings.reconfiguration_timeout_seconds):
        base = context.base_url(request)
        reconfiguration = await read_reconfiguration(context, configuration, base=base, **wanted)
        touching = Interaction(
            caller=context.caller, registry=RegistryUpsert(body=None, patch=True)
        )
        outcome = await context.writer.apply(configuration, touching, reconfiguration)
    if reconfiguration is not None:
        context.shared.adopt(reconfiguration.configuration)
        configuration = reconfiguration.configuration
    return configuration, outcome


async def _resolve(
    settings: Settings, source: Mapping[str, Any], *, base: str
) -> Mapping[str, Any] | None:
    """Resolve the `$include`s of a source (core/model.md, "Includes in ... Model Data").

    References are relative to `base`, the URL of the source.
    """
    text = await aside(0, orjson.dumps, source)
    if b'"$include' not in text:
        return None
    async with open_session(settings, total_seconds=_INCLUDE_SECONDS) as session:
        fetch = functools.partial(_fetch, session, settings)
        try:
            async with asyncio.timeout(_INCLUDES_SECONDS):
                return await resolve_includes(source, fetch, base=base, run=in_thread)
        except TimeoutError as error:
            raise ModelError("/model", error_detail="its includes took too long") from error


async def _fetch(session: aiohttp.ClientSession, settings: Settings, url: str) -> Any:
    refusal = why_refused(url, settings)
    if refusal is not None:
        raise _unusable(url, refusal)
    try:
        async with session.get(url, headers={"Accept": "application/json"}) as response:
            response.raise_for_status()
            body = await read_limited(response, _LARGEST_INCLUDE_BYTES)
        return parse_json(body, settings)
    except (aiohttp.ClientError, OSError, ValueError, XRegistryError) as error:
        # Clients see one error for every cause: details would reveal the hosts, ports and paths of
        # the network of the node.
        _log.info("an include could not be read", url=masked_url(url), cause=described(error))
        raise _unusable(url, "it could not be read") from error


def _unusable(url: str, why: str) -> ModelError:
    return ModelError("/model", error_detail=f'"{url}" cannot be included: {why}')
