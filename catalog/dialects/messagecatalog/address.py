"""What a path of the Message Catalog API addresses, if the model has it at all."""

from __future__ import annotations

from aiohttp import web

from catalog.context import Context
from catalog.model.errors import ApiNotFound, MalformedId
from catalog.model.schema import Model, ResourceType
from catalog.model.xid import Xid, is_valid_id

MESSAGE_GROUPS = "messagegroups"
GROUP_MESSAGES = "messages"


def has_groups(model: Model) -> bool:
    return model.resource_type(MESSAGE_GROUPS, GROUP_MESSAGES) is not None


def message_type(request: web.Request, model: Model) -> ResourceType:
    """The type of definitions.

    Raises:
        ApiNotFound: a client replaced the model by one without message groups.
    """
    kind = model.resource_type(MESSAGE_GROUPS, GROUP_MESSAGES)
    if kind is None:
        raise ApiNotFound(
            request.path,
            detail=f'The model of this registry has no "/{MESSAGE_GROUPS}/{GROUP_MESSAGES}".',
        )
    return kind


def group_in(request: web.Request, context: Context) -> Xid:
    """The group that a path names.

    Raises:
        ApiNotFound, MalformedId
    """
    message_type(request, context.model)
    return Xid(MESSAGE_GROUPS, _id(request, "group"))


def definition_in(request: web.Request, context: Context) -> Xid:
    """The definition that a path names."""
    return group_in(request, context).child(GROUP_MESSAGES, _id(request, "definition"))


def version_in(request: web.Request, context: Context) -> Xid:
    """The version that a path names."""
    return definition_in(request, context).version(_id(request, "version"))


def check_new_id(id: object, subject: str) -> str:
    """The id of something to be created (message catalog, 2.1.1 and 2.2.4).

    Raises:
        MalformedId: it is no `segment-nz-nc` of RFC 3986, or natively no id.
    """
    if not isinstance(id, str) or not is_valid_id(id) or ":" in id:
        raise MalformedId(
            subject,
            id=str(id)[:128],
            error_detail="it needs 1 to 128 of A-Z a-z 0-9 - . _ ~ @ and a letter, digit or _ "
            "at its start",
        )
    return id


def _id(request: web.Request, name: str) -> str:
    id = request.match_info[name]
    if not is_valid_id(id):
        raise MalformedId(
            request.path, id=id[:128], error_detail="nothing can be called so in a catalog"
        )
    return id
