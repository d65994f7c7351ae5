"""The configuration over HTTP: the model with includes, the capabilities, and the export."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import aiohttp
import orjson
import structlog
from aiohttp import hdrs, web

from catalog.api.documents import as_document
from catalog.api.entityread import answer_plan
from catalog.api.readplan import ReadPlan
from catalog.api.requestflags import Inline, read_flags
from catalog.api.requesttarget import RequestTarget
from catalog.client.connection import read_limited
from catalog.context import CONTEXT
from catalog.http.allowedaddresses import why_refused
from catalog.http.body import parse_json, read_object
from catalog.http.conditions import check_tag, strong_tag
from catalog.http.outboundconnections import open_session
from catalog.http.responses import interaction_headers, json_response, to_json
from catalog.load.workthread import aside, in_thread
from catalog.model import errors
from catalog.model.capabilities import describe
from catalog.model.configuration import ABSENT, Absent, Configuration, reconfigured
from catalog.model.includes import resolve_includes
from catalog.model.interaction import Interaction, RegistryUpsert
from catalog.model.masking import described, masked_url
from catalog.model.xid import Xid
from catalog.reconfiguration.reconfiguration import ConfigurationChange, check_model_size
from catalog.settings import Settings
from catalog.writing.outcome import Outcome

_log = structlog.get_logger()
_LARGEST_INCLUDE_BYTES = 1024 * 1024
_INCLUDE_SECONDS = 5.0
_INCLUDES_SECONDS = 20.0

CONFIGURABLE = ("capabilities", "modelsource")
_EXPORTED = ("*", "capabilities", "modelsource")


async def _read_reconfiguration(
    request: web.Request,
    configuration: Configuration,
    *,
    modelsource: Any | Absent = ABSENT,
    capabilities: Any | Absent = ABSENT,
    patch: bool = False,
) -> ConfigurationChange | None:
    """The change to the requested configuration; `None` if the configuration is in force already.

    Args:
        configuration: the configuration in force.
        modelsource: the new source, as given; `None` is an empty source.
        capabilities: the capabilities to change or, with `patch` unset, the whole capabilities;
            `None` stands for everything that the server offers.

    Raises:
        InvalidAttribute, and subclasses of ModelError and CapabilityError.
    """
    if not (modelsource is ABSENT or modelsource is None or isinstance(modelsource, dict)):
        raise errors.InvalidAttribute(
            "/", name="modelsource", error_detail="it needs to be an object"
        )
    if not (capabilities is ABSENT or capabilities is None or isinstance(capabilities, dict)):
        raise errors.CapabilityError("/capabilities", error_detail="they need to be an object")
    context, resolved = request[CONTEXT], None
    if isinstance(modelsource, dict):
        await aside(0, check_model_size, modelsource)
        base = f"{context.base_url(request)}/modelsource"
        resolved = await _resolve(context.settings, modelsource, base=base)
        if resolved is not None:
            await aside(0, check_model_size, resolved)
    # In a thread at once, since a short source can define a large model.
    after = await in_thread(
        reconfigured,
        configuration,
        offered=context.shared.offered,
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
        offered=context.shared.offered,
        authority=context.database.node.authority,
    )


async def reconfiguration_in(
    request: web.Request, configuration: Configuration, body: Mapping[str, Any]
) -> ConfigurationChange | None:
    """The change of configuration in an update of the registry entity; `None` without a change.

    Raises:
        NotAvailable: the capabilities do not offer the changed part of the configuration.
        InvalidAttribute: clients may not change the part; and the errors of a change.
    """
    given = {name: body[name] for name in CONFIGURABLE if name in body}
    for name in given:
        if name not in configuration.capabilities.available:
            raise errors.NotAvailable(name)
        if not configuration.capabilities.is_mutable(name):
            fault = "this registry does not let clients change it"
            raise errors.InvalidAttribute("/", name=name, error_detail=fault)
    if not given:
        return None
    patch = request.method == hdrs.METH_PATCH
    return await _read_reconfiguration(request, configuration, patch=patch, **given)


async def _reconfigure(request: web.Request, **wanted: Any) -> tuple[Configuration, Outcome]:
    """Change the configuration alone; the registry entity counts as updated.

    Args:
        wanted: the new model or capabilities, as keyword arguments of `_read_reconfiguration`.

    Returns:
        the configuration in force after the request, and the outcome of the write.
    """
    context = request[CONTEXT]
    configuration = context.configuration
    async with asyncio.timeout(context.settings.reconfiguration_timeout_seconds):
        reconfiguration = await _read_reconfiguration(request, configuration, **wanted)
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
            raise errors.ModelError("/model", error_detail="its includes took too long") from error


async def _fetch(session: aiohttp.ClientSession, settings: Settings, url: str) -> Any:
    if refusal := why_refused(url, settings):
        raise _unusable(url, refusal)
    try:
        async with session.get(url, headers={"Accept": "application/json"}) as response:
            response.raise_for_status()
            body = await read_limited(response, _LARGEST_INCLUDE_BYTES)
        return parse_json(body, settings)
    except (aiohttp.ClientError, OSError, ValueError, errors.XRegistryError) as error:
        # Clients see one error for every cause: details would reveal the hosts, ports and paths of
        # the network of the node.
        _log.info("an include could not be read", url=masked_url(url), cause=described(error))
        raise _unusable(url, "it could not be read") from error


def _unusable(url: str, why: str) -> errors.ModelError:
    return errors.ModelError("/model", error_detail=f'"{url}" cannot be included: {why}')


async def get_model(request: web.Request) -> web.Response:
    # The expansion of a large model takes a tenth of a second.
    return json_response(await in_thread(request[CONTEXT].model.expanded))


async def get_modelsource(request: web.Request) -> web.Response:
    return json_response(request[CONTEXT].model.source)


async def put_modelsource(request: web.Request) -> web.Response:
    """Replace the model (core/http.md, "PUT /modelsource")."""
    check_tag(request, strong_tag(to_json(request[CONTEXT].model.source)))
    source = await read_object(request)
    configuration, outcome = await _reconfigure(request, modelsource=source)
    return json_response(configuration.model.source, headers=interaction_headers(outcome))


async def get_capabilities(request: web.Request) -> web.Response:
    return json_response(request[CONTEXT].capabilities.as_json())


async def put_capabilities(request: web.Request) -> web.Response:
    """Replace all capabilities, or some (core/http.md, "PATCH and PUT /capabilities")."""
    check_tag(request, strong_tag(to_json(request[CONTEXT].capabilities.as_json())))
    given = await read_object(request)
    configuration, outcome = await _reconfigure(
        request, capabilities=given, patch=request.method == hdrs.METH_PATCH
    )
    shown = configuration.capabilities.as_json()
    return json_response(shown, headers=interaction_headers(outcome))


async def get_offered(request: web.Request) -> web.Response:
    return json_response(describe(request[CONTEXT].shared.offered))


async def get_registries(request: web.Request) -> web.Response:
    """This registry and those of the setting (core/spec.md, "xRegistry Discovery")."""
    context = request[CONTEXT]
    urls = [context.base_url(request), *context.settings.registries]
    return json_response({"registries": list(dict.fromkeys(urls))})


async def get_export(request: web.Request) -> web.StreamResponse:
    """The whole registry as one document (core/http.md, "GET /export")."""
    return await as_document(request, _export, is_export=True)


async def _export(request: web.Request) -> web.StreamResponse:
    context = request[CONTEXT]
    target, configuration = RequestTarget("registry", Xid()), context.configuration
    available = configuration.capabilities.available
    exported: Inline = {name: {} for name in _EXPORTED if name == "*" or name in available}
    flags = read_flags(request, target, configuration, default=exported)
    return await answer_plan(ReadPlan(request, configuration, target, replace(flags, doc=True)))
