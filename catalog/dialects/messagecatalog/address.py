"""The group, definition or version at the path of a request, if the model has definitions."""

from __future__ import annotations

from aiohttp import web

from catalog.dialects.messagecatalog.uris import GROUP_MESSAGES, MESSAGE_GROUPS
from catalog.model.errors import ApiNotFound, MalformedId
from catalog.model.schema import Model
from catalog.model.xid import Xid, is_valid_id


def has_definitions(model: Model) -> bool:
    """Whether a model has definitions: a client can set a model without messages."""
    return model.resource_type(MESSAGE_GROUPS, GROUP_MESSAGES) is not None


def check_has_definitions(request: web.Request, model: Model) -> None:
    """Raise `ApiNotFound` for a request where the model has no definitions."""
    if not has_definitions(model):
        detail = f'The model of this registry has no "/{MESSAGE_GROUPS}/{GROUP_MESSAGES}".'
        raise ApiNotFound(request.path, detail=detail)


def group_in(request: web.Request, model: Model) -> Xid:
    """The group that a path names; raises `ApiNotFound` or `MalformedId`."""
    check_has_definitions(request, model)
    return Xid(MESSAGE_GROUPS, _id(request, "group"))


def definition_in(request: web.Request, model: Model) -> Xid:
    """The definition that a path names; raises as `group_in`."""
    return group_in(request, model).child(GROUP_MESSAGES, _id(request, "definition"))


def version_in(request: web.Request, model: Model) -> Xid:
    """The version that a path names; raises as `group_in`."""
    return definition_in(request, model).version(_id(request, "version"))


def check_new_id(id: object, subject: str) -> str:
    """The id of an entity to be created (message catalog, 2.1.1 and 2.2.4).

    Raises:
        MalformedId: the id is no `segment-nz-nc` of RFC 3986, or no valid native id.
    """
    if not isinstance(id, str) or not is_valid_id(id) or ":" in id:
        detail = "it needs 1 to 128 of A-Z a-z 0-9 - . _ ~ @ and a letter, digit or _ at its start"
        raise MalformedId(subject, id=str(id)[:128], error_detail=detail)
    return id


def _id(request: web.Request, name: str) -> str:
    id = request.match_info[name]
    if not is_valid_id(id):
        detail = "nothing can be called so in a catalog"
        raise MalformedId(request.path, id=id[:128], error_detail=detail)
    return id
