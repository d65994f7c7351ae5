"""The routes of the native API: the fixed paths, and the paths that the model defines."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.access.rulerequests import routes as rules
from catalog.access.tokenrequests import routes as tokens
from catalog.api import selfdescription
from catalog.api.apply import get_apply, post_apply
from catalog.api.entitypaths import handle_entity, redirect
from catalog.api.openapi import get_openapi
from catalog.api.validate import post_message
from catalog.audit.auditrequests import routes as audit
from catalog.http.route import Route, reads, writes
from catalog.model.roles import Permission
from catalog.operations.operation import ANY_METHOD, READING, Operation
from catalog.subscriptions.routes import routes as subscriptions

_MESSAGES = tuple(
    f"{path}{version}"
    for path in (
        "/validate/messagegroups/{messagegroupid}/messages/{messageid}",
        "/validate/endpoints/{endpointid}/messages/{messageid}",
    )
    for version in ("", "/versions/{versionid}")
)


def _configures(method: str, name: str) -> Operation:
    """The operation that replaces or changes a part of the configuration."""
    return Operation(method=method, path=f"/{name}", needs=Permission.ADMINISTER, capability=name)


routes: Sequence[Route] = (
    reads("/model", selfdescription.get_model, capability="model"),
    reads("/modelsource", selfdescription.get_modelsource, capability="modelsource"),
    Route(_configures("PUT", "modelsource"), selfdescription.put_modelsource),
    reads("/export", selfdescription.get_export, capability="export"),
    reads("/capabilities", selfdescription.get_capabilities, capability="capabilities"),
    Route(_configures("PUT", "capabilities"), selfdescription.put_capabilities),
    Route(_configures("PATCH", "capabilities"), selfdescription.put_capabilities),
    reads("/capabilitiesoffered", selfdescription.get_offered, capability="capabilitiesoffered"),
    reads("/.well-known/xregistry", selfdescription.get_registries),
    reads("/.xregistry", selfdescription.get_registries),
    reads("/openapi.json", get_openapi),
    # POST needs the right to read only, since a check of a message writes nothing.
    *(
        Route(Operation(method="POST", path=path, needs=Permission.READ), post_message)
        for path in _MESSAGES
    ),
    reads("/apply", get_apply),
    writes("POST", "/apply", post_apply),
    *subscriptions,
    *tokens,
    *rules,
    *audit,
)
_ENTITY = "/{path:.*}"
_SHORT = "/~{key:[A-Za-z0-9_-]*}{below:($|[/$].*)}"
entity_routes: Sequence[Route] = (
    # A redirect of a write needs no right to write: the redirected request is checked on its own.
    Route(Operation(method=ANY_METHOD, path=_SHORT, needs=Permission.READ), redirect),
    # Only the body reveals that a PUT of the registry changes the configuration, so `answer_write`
    # asks for the permission itself. An answer from the cache needs no deadline.
    *(
        Route(
            Operation(
                method=method,
                path=_ENTITY,
                needs=Permission.READ if method in READING else Permission.WRITE,
                has_head=False,
                is_bounded=False,
            ),
            handle_entity,
        )
        for method in (*READING, ANY_METHOD)
    ),
)
