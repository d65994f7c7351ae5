"""The description of replication's routes, which the node adds to its OpenAPI document."""

from __future__ import annotations

from catalog.api.routedescription import RouteDescription
from replication.openapi_handovers import HANDOVER_OPERATIONS, handover_schemas
from replication.openapi_operators import OPERATOR_OPERATIONS, operator_schemas
from replication.openapi_peers import PEER_OPERATIONS
from replication.openapi_peerschemas import body_schemas, peer_schemas

DESCRIPTION = RouteDescription(
    operations={**PEER_OPERATIONS, **OPERATOR_OPERATIONS, **HANDOVER_OPERATIONS},
    schemas={
        **peer_schemas(),
        **operator_schemas(),
        **handover_schemas(),
        **body_schemas(),
    },
)
