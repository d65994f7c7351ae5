"""The description of replication's routes, which the node adds to its OpenAPI document."""

from __future__ import annotations

from catalog.api.routedescription import RouteDescription
from replication.openapi_operators import OPERATOR_OPERATIONS, operator_schemas
from replication.openapi_peerschemas import body_schemas

DESCRIPTION = RouteDescription(
    operations=OPERATOR_OPERATIONS,
    schemas={
        **operator_schemas(),
        **body_schemas(),
    },
)
