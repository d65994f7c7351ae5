"""The operations about roles in a group: who has which, and requests for roles."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from catalog.model.roles import WHOLE_CATALOG, Permission, Role, is_wild, parse_path
from catalog.operations.operation import (
    LOCATION,
    AnswerBody,
    Anyone,
    Body,
    Operation,
    PageQuery,
    Query,
    Time,
)

RequestState = Literal["open", "granted", "declined"]


def _check_group(text: str) -> str:
    if is_wild(text) or parse_path(text) == WHOLE_CATALOG:
        raise ValueError("it needs to be the path of one group, as /messagegroups/orders")
    return text


RequestedGroup = Annotated[
    str,
    Field(max_length=256, description="The path of a group, as `/messagegroups/orders`."),
    AfterValidator(_check_group),
]
_Storable = StringConstraints(strip_whitespace=True, pattern="^[^\0]*$")
_Reason = Annotated[str, Field(min_length=1, max_length=500), _Storable]
_Note = Annotated[str, Field(max_length=500), _Storable]


class NewAccessRequest(Body):
    """A role in a group that the caller asks for."""

    role: Role
    path: RequestedGroup
    reason: _Reason = Field(description="Why, for those who decide.")


class AccessDecision(Body):
    """What those who decide tell the caller."""

    note: _Note = ""


class AccessRequest(AnswerBody):
    """A request for a role in a group.

    Who asked and who decided is told to those who may decide.
    """

    id: str
    role: Role
    path: str
    reason: str
    state: RequestState
    createdat: Time
    decidedat: Time | None = None
    note: str | None = None
    isown: bool = Field(description="Whether the caller has made it.")
    isdecidable: bool = Field(description="Whether the caller may grant or decline it.")
    name: str | None = Field(None, description="Who asked.")
    who: str | None = Field(None, description="Whom a granted rule is for.")
    decidedby: str | None = None
    rule: str | None = Field(None, description="The rule that the grant has made.")


class AccessRequestsQuery(PageQuery):
    """The conditions of a list of requests, and the page."""

    state: RequestState | None = None
    path: RequestedGroup | None = None


class AccessRequests(AnswerBody):
    """A page of requests, the latest first."""

    requests: list[AccessRequest]


class HoldersQuery(Query):
    """The group whose holders of roles are asked for."""

    of: RequestedGroup


class RoleHolder(AnswerBody):
    """Somebody with a role in a group, by a rule, by a token, or by the settings of the node."""

    role: Role
    who: str = Field(description="The condition on callers.")
    name: str | None = Field(None, description="The name of the token.")
    by: Literal["rule", "token", "setting"]
    rule: str | None = Field(None, description="The id of the rule.")
    path: str = Field(description="Where the role is given: `/` is the whole catalog.")


class GroupHolders(AnswerBody):
    """Who may read and write a group."""

    path: str
    open: bool = Field(description="Everybody may do everything at this node.")
    authority: str | None = Field(
        None,
        description="Who controls the group, if it is a copy: no role lets a caller write it here.",
    )
    yours: list[Role] = Field(description="The roles of the caller in the group.")
    numbers: dict[Role, int] = Field(
        description="How many rules, tokens and settings give each role, over 1,000 left out."
    )
    holders: list[RoleHolder] | None = Field(None, description="For callers who may grant roles.")


_REQUESTS = "/access/requests"
_REQUEST = _REQUESTS + "/{id}"

LIST_HOLDERS = Operation(
    "GET",
    "/access/holders",
    Permission.READ,
    query=HoldersQuery,
    answers=GroupHolders,
    refuses=(404,),
    is_kept=False,
)
LIST_REQUESTS = Operation(
    "GET", _REQUESTS, Anyone.TOLD, query=AccessRequestsQuery, answers=AccessRequests, is_kept=False
)
REQUEST_ACCESS = Operation(
    "POST",
    _REQUESTS,
    Anyone.TOLD,
    takes=NewAccessRequest,
    answers=AccessRequest,
    status=201,
    headers=LOCATION,
    refuses=(409,),
    is_repeatable=True,
    description="The answer does not tell whether there is such a group. A request that is open "
    "already gets the new reason.",
)
GET_REQUEST = Operation("GET", _REQUEST, Anyone.TOLD, answers=AccessRequest, is_kept=False)
GRANT_REQUEST = Operation(
    "POST",
    _REQUEST + "/grant",
    Permission.GRANT,
    takes=AccessDecision,
    answers=AccessRequest,
    refuses=(409,),
)
DECLINE_REQUEST = Operation(
    "POST",
    _REQUEST + "/decline",
    Permission.GRANT,
    takes=AccessDecision,
    answers=AccessRequest,
    refuses=(409,),
)
WITHDRAW_REQUEST = Operation("DELETE", _REQUEST, Anyone.TOLD)
