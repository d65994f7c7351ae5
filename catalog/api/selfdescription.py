"""Handlers of the self-description of the registry: model, capabilities and export."""

from __future__ import annotations

from dataclasses import replace

from aiohttp import hdrs, web

from catalog.api.documents import as_document
from catalog.api.entityread import answer_plan
from catalog.api.inline import Inline
from catalog.api.readplan import ReadPlan
from catalog.api.reconfigure import reconfigure
from catalog.api.requestflags import read_flags
from catalog.api.requesttarget import RequestTarget
from catalog.context import CONTEXT
from catalog.http.body import read_object
from catalog.http.conditions import check_tag, strong_tag
from catalog.http.responses import interaction_headers, json_response, to_json
from catalog.load.longwork import in_thread
from catalog.model.capabilities import describe
from catalog.model.xid import Xid

_EXPORTED = ("*", "capabilities", "modelsource")


async def get_model(request: web.Request) -> web.Response:
    # The expansion of a large model takes a tenth of a second.
    return json_response(await in_thread(request[CONTEXT].model.expanded))


async def get_modelsource(request: web.Request) -> web.Response:
    return json_response(request[CONTEXT].model.source)


async def put_modelsource(request: web.Request) -> web.Response:
    """Replace the model (core/http.md, "PUT /modelsource")."""
    check_tag(request, strong_tag(to_json(request[CONTEXT].model.source)))
    source = await read_object(request)
    configuration, outcome = await reconfigure(request, modelsource=source)
    return json_response(configuration.model.source, headers=interaction_headers(outcome))


async def get_capabilities(request: web.Request) -> web.Response:
    return json_response(request[CONTEXT].capabilities.as_json())


async def put_capabilities(request: web.Request) -> web.Response:
    """Replace all capabilities, or some (core/http.md, "PATCH and PUT /capabilities")."""
    check_tag(request, strong_tag(to_json(request[CONTEXT].capabilities.as_json())))
    given = await read_object(request)
    configuration, outcome = await reconfigure(
        request, capabilities=given, patch=request.method == hdrs.METH_PATCH
    )
    shown = configuration.capabilities.as_json()
    return json_response(shown, headers=interaction_headers(outcome))


async def get_offered(request: web.Request) -> web.Response:
    return json_response(describe(request[CONTEXT].offered))


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
    plan = ReadPlan(
        request=request,
        context=context,
        configuration=configuration,
        target=target,
        flags=replace(flags, doc=True),
    )
    return await answer_plan(plan)
