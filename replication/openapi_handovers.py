"""Describes the handover of a group from one authority to another as OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from catalog.api.openapi_operations import JSON_BODY, LIMIT, content
from catalog.api.openapi_schemas import Json, reference
from catalog.store.handovers import HandoverState, Role
from replication import openapi_peerschemas as schemas
from replication import wire
from replication.openapi_parts import (
    NEXT,
    PLACE,
    done,
    lines_of,
    operation,
    query,
    read,
    switch,
)
from replication.openapi_peerschemas import (
    COUNT,
    NO_COUNT,
    NO_TEXT,
    NO_TIME,
    TEXT,
    TIME,
    about,
    array_of,
    body,
    object_of,
)

_HANDOVER = "replication.handover"
_PATH = "/replication/handovers"
_STATE: Json = {"enum": [*get_args(HandoverState)]}


def handover_schemas() -> dict[str, Json]:
    """The schemas of handovers, by name."""
    return {
        _HANDOVER: object_of(
            {
                "id": TEXT,
                "role": {"enum": [*get_args(Role)]},
                "group": TEXT,
                "peer": about(TEXT, "The URL of the other side"),
                "authority": about(TEXT, "That of the other side"),
                "state": _STATE,
                "isover": {"type": "boolean"},
                "theirs": about(NO_TEXT, "Its id at the giver, as the taker knows it"),
                "entities": about(NO_COUNT, "The number of those that changed hands"),
                "failures": COUNT,
                "error": about(NO_TEXT, "Why it does not go on, or why it ended"),
                "nextattemptat": NO_TIME,
                "startedat": TIME,
                "endedat": NO_TIME,
                "followsby": about(COUNT, "How many links of the giver follow the taker"),
            },
            optional=("followsby",),
        )
    }


_OFFER = object_of(
    {
        "state": _STATE,
        "authority": about(TEXT, "The taker's"),
        "floor": about(COUNT, "The taker has deleted nothing in the group above this epoch"),
        "error": NO_TEXT,
    }
)

HANDOVER_OPERATIONS: Mapping[tuple[str, str], Json] = {
    ("GET", _PATH): operation(
        read(object_of({"handovers": array_of(reference(_HANDOVER))}), NEXT),
        (400,),
        parameters=(LIMIT, query("after", TEXT, "As the link to the next page has it.")),
    ),
    ("POST", _PATH): operation(
        {201: done(reference(_HANDOVER), "It began.", headers=PLACE)},
        (400, 409),
        taken=content(JSON_BODY, body(wire.HandoverBody)),
    ),
    ("GET", f"{_PATH}/{{id}}"): operation(read(reference(_HANDOVER)), (404,)),
    ("DELETE", f"{_PATH}/{{id}}"): operation(
        {200: done(reference(_HANDOVER), "It has ended.")},
        (404, 409),
        parameters=(switch("force", "Do not wait for a giver that does not answer."),),
    ),
    ("GET", f"{_PATH}/consent"): operation(
        read(object_of({"group": TEXT, "authority": TEXT})),
        (400, 404),
        parameters=(
            query("group", TEXT, required=True),
            query("authority", TEXT, required=True),
        ),
    ),
    ("POST", f"{_PATH}/offers"): operation(
        {200: done(_OFFER, "How far the taker is.")},
        (400, 409),
        taken=content(JSON_BODY, body(wire.OfferBody)),
    ),
    ("GET", f"{_PATH}/{{id}}/copies"): operation(
        {
            200: {
                "description": "What the taker gets, or would get now: ends, then entities.",
                "content": lines_of(schemas.LINE),
            }
        },
        (404,),
    ),
}
