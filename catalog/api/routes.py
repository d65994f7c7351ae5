"""The paths of the native API, besides those that the model defines."""

from __future__ import annotations

from aiohttp import web

from catalog.access.auditrequests import routes as audit
from catalog.access.rulerequests import routes as rules
from catalog.access.tokenrequests import routes as tokens
from catalog.api import selfdescription
from catalog.api.apply import get_apply, post_apply
from catalog.api.entitypaths import redirect
from catalog.api.openapi import get_openapi
from catalog.api.openapi_access import DESCRIPTION
from catalog.api.validate import post_message
from catalog.subscriptions.routes import routes as subscriptions

_MESSAGES = (
    "/validate/messagegroups/{messagegroupid}/messages/{messageid}",
    "/validate/endpoints/{endpointid}/messages/{messageid}",
)

routes: list[web.AbstractRouteDef] = [
    web.get("/model", selfdescription.get_model),
    web.get("/modelsource", selfdescription.get_modelsource),
    web.put("/modelsource", selfdescription.put_modelsource),
    web.get("/export", selfdescription.get_export),
    web.get("/capabilities", selfdescription.get_capabilities),
    web.put("/capabilities", selfdescription.put_capabilities),
    web.patch("/capabilities", selfdescription.put_capabilities),
    web.get("/capabilitiesoffered", selfdescription.get_offered),
    web.get("/.well-known/xregistry", selfdescription.get_registries),
    web.get("/.xregistry", selfdescription.get_registries),
    web.get("/openapi.json", get_openapi),
    *(web.post(path, post_message) for path in _MESSAGES),
    *(web.post(f"{path}/versions/{{versionid}}", post_message) for path in _MESSAGES),
    web.get("/apply", get_apply),
    web.post("/apply", post_apply),
    *subscriptions,
    DESCRIPTION,
    *tokens,
    *rules,
    *audit,
]
short_path = web.route("*", "/~{key:[A-Za-z0-9_-]*}{below:($|[/$].*)}", redirect)
