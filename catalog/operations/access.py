"""The operations of `/access`: the caller, tokens, rules for groups, and requests for roles."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from catalog.model.roles import (
    LONGEST_WHO,
    PATH,
    WHOLE_CATALOG,
    IdentityKind,
    Permission,
    Role,
    Who,
    is_wild,
    parse_path,
)
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

MOST_PATHS = 10_000
MOST_WILD_PATHS = 100
"""The maximum number of paths with wildcards in a rule: no index finds such paths."""

# Enough values for the paths of a rule, with brackets and names.
_MOST_VALUES = 3 * MOST_PATHS
RequestState = Literal["open", "granted", "declined"]
_Storable = StringConstraints(strip_whitespace=True, pattern="^[^\0]*$")
_Reason = Annotated[str, Field(min_length=1, max_length=500), _Storable]
_Note = Annotated[str, Field(max_length=500), _Storable]


def _check_path(text: str) -> str:
    try:
        return parse_path(text)
    except ValueError as error:
        raise ValueError(f"a path {error}") from error


def _check_who(text: str) -> str:
    try:
        return str(Who.parse(text))
    except ValueError as error:
        raise ValueError(f"it {error}") from error


def _check_groups(paths: tuple[str, ...]) -> tuple[str, ...]:
    if WHOLE_CATALOG in paths:
        raise ValueError(
            'a rule gives roles in groups: "/*/*" are all of them, and roles for the whole catalog '
            "are those of tokens and of the settings"
        )
    if sum(map(is_wild, paths)) > MOST_WILD_PATHS:
        raise ValueError(f"at most {MOST_WILD_PATHS} paths may have wildcards")
    return tuple(dict.fromkeys(paths))


def _check_end(end: datetime | None) -> datetime | None:
    if end is not None and end <= datetime.now(UTC):
        raise ValueError("it has passed already")
    return end


Path = Annotated[
    str,
    AfterValidator(_check_path),
    Field(
        description="`/` is the whole catalog, `/GROUPTYPE/GROUPID` a group with all below it; `*` "
        "stands for any characters in either part.",
        json_schema_extra={"pattern": f"^(/|{PATH.pattern})$"},
    ),
]
Condition = Annotated[
    str,
    Field(
        min_length=1,
        max_length=LONGEST_WHO,
        description="Whom the rule is for: `token=ID`, `anonymous`, or what the claims of a token "
        "or the names of a certificate have to be, as `groups=editors&iss=https://id.example`.",
    ),
    AfterValidator(_check_who),
]
GroupPaths = Annotated[
    tuple[Path, ...], Field(min_length=1, max_length=MOST_PATHS), AfterValidator(_check_groups)
]
Name = Annotated[str, Field(max_length=128)]


class PathGrant(Body):
    """A role at and below a path."""

    role: Role
    path: Path = WHOLE_CATALOG


class Whoami(AnswerBody):
    """The caller as known to the node, with roles."""

    kind: IdentityKind
    name: str | None = None
    issuer: str | None = None
    grants: list[PathGrant]
    more: Literal[True] | None = Field(
        default=None, description="There are more grants than are listed."
    )
    open: bool = Field(description="Everybody may do everything.")


class NewToken(Body):
    """A token that a client asks for."""

    name: Name = ""
    grants: Annotated[tuple[PathGrant, ...], Field(min_length=1, max_length=MOST_PATHS)]
    expiresat: Annotated[Time | None, AfterValidator(_check_end)] = None


class Token(AnswerBody):
    """A token issued by the node."""

    id: str
    name: Name
    grants: list[PathGrant]
    createdat: Time
    expiresat: Time | None = None
    usedat: Time | None = Field(default=None, description="The last use, to the minute.")
    more: Literal[True] | None = Field(
        default=None,
        description="There are more grants than the answer has; a list of tokens does not tell.",
    )
    token: str | None = Field(
        default=None, description="The token itself, in the answer to its creation only."
    )


class Tokens(AnswerBody):
    """The tokens of a node, newest first."""

    tokens: list[Token]


class NewRule(Body):
    """A rule that gives a role in groups to each caller that meets a condition."""

    who: Condition
    role: Role
    paths: GroupPaths


class RuleChanges(Body):
    """The members of a rule to replace."""

    who: Condition | None = None
    role: Role | None = None
    paths: GroupPaths | None = None


class GrantingRule(AnswerBody):
    """A rule stored by the node; a list of rules shows only the first paths of each rule."""

    id: str
    who: str
    role: Role
    paths: list[str]
    pathscount: int = Field(ge=1)
    createdat: Time
    createdby: str


class GrantingRules(AnswerBody):
    """A page of rules."""

    rules: list[GrantingRule]


_RULES, _RULE = "/access/rules", "/access/rules/{id}"
_TOKENS, _TOKEN = "/access/tokens", "/access/tokens/{id}"

WHOAMI = Operation("GET", "/access/whoami", Anyone.TOLD, answers=Whoami, is_kept=False)
LIST_TOKENS = Operation("GET", _TOKENS, Permission.ADMINISTER, answers=Tokens, is_kept=False)
CREATE_TOKEN = Operation(
    "POST",
    _TOKENS,
    Permission.ADMINISTER,
    takes=NewToken,
    answers=Token,
    status=201,
    headers=LOCATION,
    refuses=(409,),
    most_values=_MOST_VALUES,
)
GET_TOKEN = Operation("GET", _TOKEN, Permission.ADMINISTER, answers=Token, is_kept=False)
DELETE_TOKEN = Operation("DELETE", _TOKEN, Permission.ADMINISTER)
LIST_RULES = Operation(
    "GET", _RULES, Permission.GRANT, answers=GrantingRules, query=PageQuery, is_kept=False
)
CREATE_RULE = Operation(
    "POST",
    _RULES,
    Permission.GRANT,
    takes=NewRule,
    answers=GrantingRule,
    status=201,
    headers=LOCATION,
    refuses=(409,),
    most_values=_MOST_VALUES,
)
GET_RULE = Operation("GET", _RULE, Permission.GRANT, answers=GrantingRule, is_kept=False)
CHANGE_RULE = Operation(
    "PATCH",
    _RULE,
    Permission.GRANT,
    takes=RuleChanges,
    answers=GrantingRule,
    most_values=_MOST_VALUES,
)
DELETE_RULE = Operation("DELETE", _RULE, Permission.GRANT)


def _check_group(text: str) -> str:
    if is_wild(text) or parse_path(text) == WHOLE_CATALOG:
        raise ValueError("it needs to be the path of one group, as /messagegroups/orders")
    return text


RequestedGroup = Annotated[
    str,
    Field(max_length=256, description="The path of a group, as `/messagegroups/orders`."),
    AfterValidator(_check_group),
]


class NewAccessRequest(Body):
    """A role in a group that the caller asks for."""

    role: Role
    path: RequestedGroup
    reason: _Reason = Field(description="Why, for those who decide.")


class AccessDecision(Body):
    """The note of an admin for the caller, with a decision."""

    note: _Note = ""


class AccessRequest(AnswerBody):
    """A request for a role in a group.

    Only admins who may decide learn the names of the caller and of the admin.
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
    name: str | None = Field(default=None, description="Who asked.")
    who: str | None = Field(default=None, description="Whom a granted rule is for.")
    decidedby: str | None = None
    rule: str | None = Field(default=None, description="The rule that the grant has made.")


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
    name: str | None = Field(default=None, description="The name of the token.")
    by: Literal["rule", "token", "setting"]
    rule: str | None = Field(default=None, description="The id of the rule.")
    path: str = Field(description="Where the role is given: `/` is the whole catalog.")


class GroupHolders(AnswerBody):
    """Who may read and write a group."""

    path: str
    open: bool = Field(description="Everybody may do everything at this node.")
    authority: str | None = Field(
        default=None,
        description="Who controls the group, if it is a copy: no role lets a caller write it here.",
    )
    yours: list[Role] = Field(description="The roles of the caller in the group.")
    numbers: dict[Role, int] = Field(
        description="How many rules, tokens and settings give each role, over 1,000 left out."
    )
    holders: list[RoleHolder] | None = Field(
        default=None, description="For callers who may grant roles."
    )


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
